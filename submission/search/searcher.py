"""Questions to systems over a corpus that stays open."""

from __future__ import annotations

import logging
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import pandas as pd
import torch

from submission import lists
from submission.disk.work import Work
from submission.errors import CheckpointError, InputError, OutputError, SubmissionError
from submission.search.answer import Answer, Found, Listed
from submission.search.asking import Asking
from submission.search.corpus import Corpus
from submission.search.origins import Origin, open_origins
from submission.search.passage import best_passage
from submission.search.question import QID, clean, one_topic
from submission.search.shades import Shade, shades
from submission.systems.catalogue import System
from submission.systems.execution import Execution, Stage, walk
from submission.systems.explained import Explained
from submission.systems.lexical import Lexical
from submission.systems.remembered import Checkpoints
from submission.text.terms import Terms

REMEMBERED = 8  # questions whose lists stay in memory: a click on one of their answers computes nothing again


@dataclass(frozen=True)
class Wish:
    """The parts of an answer that are shown."""

    depth: int = 5  # arguments of each system
    explained: Callable[[str, str], bool] = lambda system, docno: False  # of which it is said why they have their scores
    shaded: bool = False  # whether it is said what an enrichment sees in their words


class Searcher:
    """A corpus with its indexes open. A context manager; one question at a time."""

    def __init__(
        self,
        corpus: Corpus,
        checkpoints: Checkpoints,
        device: torch.device,
        work: Path | None = None,
        last_resort: Path = Path(),
    ) -> None:
        """Nothing is read before the first question.

        Args:
            corpus: the documents.
            checkpoints: of the systems.
            device: where networks compute.
            work: where indexes are kept; None: a temporary directory.
            last_resort: a directory for that one where the machine has no place for such.
        """
        self.corpus, self.checkpoints = corpus, checkpoints
        self._work, self._last_resort = Work(work, last_resort), last_resort
        self._index = Execution(corpus, checkpoints, device, self._work)
        self._asked: OrderedDict[str, tuple[Asking, ExitStack]] = OrderedDict()
        self._open: set[System] = set()

    def __enter__(self) -> Searcher:
        """Raises OutputError: the working directory cannot be written, or another process has it."""
        self._work.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        while self._asked:
            self._forget()
        self._work.__exit__(kind, error, trace)

    @property
    def size(self) -> int:
        """The number of documents that are searched. Raises InputError: there are none."""
        return len(self._index.documents.collection)

    def lists(self, stage: Stage, topics: pd.DataFrame) -> pd.DataFrame:
        """A stage's lists for topics `qid query`. Raises what making them does."""
        with Work(None, self._last_resort) as scratch:
            return Asking(self._index, self.corpus, topics, scratch).lists(stage)

    def ask(self, text: str, systems: Sequence[System], wish: Wish) -> Answer:
        """Ask systems a question as a person writes it; a system that fails says why.

        Raises:
            UsageError: the question is empty or too long. InputError, OutputError: the documents cannot be read or indexed.
        """
        start, question = time.monotonic(), clean(text)
        with nullcontext() if {*systems} - self._open else _warnings_alone():  # what is opened now may take long, and says so
            asking = self._asking(question)
            weights, terms = _weights(question, systems, asking)
            listed = [self._listed(system, asking, weights, terms, wish) for system in systems]
        self._open |= {*systems}
        return Answer(question, listed, time.monotonic() - start)

    def _listed(self, system: System, asking: Asking, weights: Mapping[str, float], terms: Terms, wish: Wish) -> Listed:
        """Return a system's answer, or its error."""
        try:
            found = list(self._found(system, asking, weights, terms, wish))
            return Listed(system.name, found, len(asking.lists(system.stage)))
        except (InputError, OutputError):
            raise  # not this system's fault: the others would fail alike
        except SubmissionError as error:
            return Listed(system.name, error=error)

    def _found(self, system: System, asking: Asking, weights: Mapping[str, float], terms: Terms, wish: Wish) -> Iterator[Found]:
        """The first arguments of a system."""
        first = lists.cut(asking.lists(system.stage), wish.depth)
        texts, origins = asking.documents.texts(set(first["docno"])), self._origins(first["docno"])
        own = {docno: rest for docno, *rest in zip(texts["docno"], texts["conclusion"], texts["premise"], strict=True)}
        for docno, rank, score in zip(first["docno"], first["rank"].tolist(), first["score"].tolist(), strict=True):
            conclusion, premise = own[docno]
            passage, origin = best_passage(premise, weights, terms), origins.get(docno, Origin())
            shaded = _shades(system, asking, docno) if wish.shaded else []
            why = _explained(system, asking, docno) if wish.explained(system.name, docno) else None
            yield Found(rank, score, docno, origin, conclusion, premise, passage, shaded, why)

    def _origins(self, docnos: Collection[str]) -> dict[str, Origin]:
        """Of arguments that are shown."""
        return self._index.once(self, "origins", lambda: open_origins(self.corpus, self._work)).of(docnos)

    def _asking(self, question: str) -> Asking:
        """The execution of a question; that of one that was asked before, if that is not long ago."""
        if question not in self._asked:
            if len(self._asked) == REMEMBERED:
                self._forget()
            with ExitStack() as stack:
                scratch = stack.enter_context(Work(None, self._last_resort))
                asking = Asking(self._index, self.corpus, one_topic(question), scratch)
                self._asked[question] = asking, stack.pop_all()
        self._asked.move_to_end(question)
        return self._asked[question][0]

    def _forget(self) -> None:
        """The question that was asked the longest ago."""
        _, (_, scratch) = self._asked.popitem(last=False)
        scratch.close()


@contextmanager
def _warnings_alone() -> Iterator[None]:
    """Say nothing of what is done, only of what is odd."""
    logger = logging.getLogger("submission")
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


def _explained(system: System, asking: Asking, docno: str) -> Explained:
    """Why an argument has its score; said once."""
    return asking.once((system, docno), "explained", lambda: system.stage.explain(asking, QID, docno))


def _shades(system: System, asking: Asking, docno: str) -> list[Shade]:
    """Compute the shades of an argument once."""
    return asking.once((system, docno), "shades", lambda: shades(system.stage, asking, docno))


def _weights(question: str, systems: Sequence[System], asking: Asking) -> tuple[dict[str, float], Terms]:
    """Return the weights of a question's terms, log(1 + N / df) where a system has a term index, else 1, and its analyser."""
    for lexical in (part for system in systems for part in walk(system.stage) if isinstance(part, Lexical)):
        with suppress(CheckpointError):  # its system says so too
            settings, index = lexical.opened(asking.checkpoints).index, lexical.index(asking)
            terms = Terms(settings.stemmer)
            own = sorted(set(terms.of(question)))
            statistics = index.statistics(own)
            df = zip(own, statistics.df.tolist(), strict=True)
            return {term: math.log(1 + statistics.documents / number) for term, number in df if number}, terms
    terms = Terms("none")
    return dict.fromkeys(terms.of(question), 1.0), terms
