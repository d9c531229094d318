"""Search a corpus with several systems, keeping indexes open."""

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

from submission.data.argument_metadata import Origin, open_origins
from submission.errors import CheckpointError, InputError, OutputError, SubmissionError
from submission.rankings import cut
from submission.search.corpus import Corpus
from submission.search.highlights import Shade, shades
from submission.search.query import QID, clean, one_topic
from submission.search.query_execution import Asking
from submission.search.results import Answer, Found, Listed
from submission.search.snippets import best_passage
from submission.storage.cache_directory import Work
from submission.systems.catalogue import System
from submission.systems.checkpoint_store import Checkpoints
from submission.systems.execution import Execution, Stage, walk
from submission.systems.explanation import Explained
from submission.systems.lexical import Lexical
from submission.text.index_terms import Terms

REMEMBERED = 8  # recent queries kept in memory, so that links on the page recompute nothing


@dataclass(frozen=True)
class Wish:
    """Options of a search."""

    depth: int = 5  # hits per system
    explained: Callable[[str, str], bool] = lambda system, docno: False  # (system, docno) → whether to explain the score
    shaded: bool = False  # whether to compute highlights


class Searcher:
    """Searches a corpus. A context manager; not thread-safe."""

    def __init__(
        self,
        corpus: Corpus,
        checkpoints: Checkpoints,
        device: torch.device,
        work: Path | None = None,
        last_resort: Path = Path(),
    ) -> None:
        """Create a searcher; nothing is read before the first query.

        Args:
            corpus: documents to search.
            checkpoints: checkpoints of the systems.
            device: device of the networks.
            work: cache of indexes; None: a temporary directory.
            last_resort: parent of the temporary directory if the system has none.
        """
        self.corpus, self.checkpoints = corpus, checkpoints
        self._work, self._last_resort = Work(work, last_resort), last_resort
        self._index = Execution(corpus, checkpoints, device, self._work)
        self._asked: OrderedDict[str, tuple[Asking, ExitStack]] = OrderedDict()
        self._open: set[System] = set()

    def __enter__(self) -> Searcher:
        """Open the cache directory.

        Raises:
            OutputError: it is not writable, or another process has locked it.
        """
        self._work.__enter__()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        while self._asked:
            self._forget()
        self._work.__exit__(exc_type, exc, traceback)

    @property
    def size(self) -> int:
        """Return the number of searchable documents.

        Raises:
            InputError: there are none.
        """
        return len(self._index.documents.collection)

    def lists(self, stage: Stage, topics: pd.DataFrame) -> pd.DataFrame:
        """Rank documents for topics `qid query`."""
        with Work(None, self._last_resort) as scratch:
            return Asking(self._index, self.corpus, topics, scratch).lists(stage)

    def ask(self, text: str, systems: Sequence[System], wish: Wish) -> Answer:
        """Search with several systems; a system that fails returns its error.

        Raises:
            UsageError: the query is empty or too long.
            InputError, OutputError: documents cannot be read or indexed.
        """
        start, query = time.monotonic(), clean(text)
        with nullcontext() if {*systems} - self._open else _warnings_alone():  # first use may take long: log it
            execution = self._asking(query)
            weights, terms = _weights(query, systems, execution)
            results = [self._listed(system, execution, weights, terms, wish) for system in systems]
        self._open |= {*systems}
        return Answer(query, results, time.monotonic() - start)

    def _listed(self, system: System, asking: Asking, weights: Mapping[str, float], terms: Terms, wish: Wish) -> Listed:
        """Return a system's results, or its error."""
        try:
            hits = list(self._found(system, asking, weights, terms, wish))
            return Listed(system.name, hits, len(asking.lists(system.stage)))
        except (InputError, OutputError):
            raise  # every system would fail
        except SubmissionError as error:
            return Listed(system.name, error=error)

    def _found(self, system: System, asking: Asking, weights: Mapping[str, float], terms: Terms, wish: Wish) -> Iterator[Found]:
        """Yield the top hits of a system."""
        top = cut(asking.lists(system.stage), wish.depth)
        documents, metadata = asking.documents.texts(set(top["docno"])), self._origins(top["docno"])
        rows = zip(documents["docno"], documents["conclusion"], documents["premise"], strict=True)
        texts_by_docno = {docno: texts for docno, *texts in rows}
        for docno, rank, score in zip(top["docno"], top["rank"].tolist(), top["score"].tolist(), strict=True):
            conclusion, premise = texts_by_docno[docno]
            snippet = best_passage(premise, weights, terms)
            highlights = _shades(system, asking, docno) if wish.shaded else []
            explanation = _explained(system, asking, docno) if wish.explained(system.name, docno) else None
            origin = metadata.get(docno, Origin())
            yield Found(rank, score, docno, origin, conclusion, premise, snippet, highlights, explanation)

    def _origins(self, docnos: Collection[str]) -> dict[str, Origin]:
        """Return the metadata of the displayed arguments."""
        return self._index.once(self, "origins", lambda: open_origins(self.corpus, self._work)).of(docnos)

    def _asking(self, question: str) -> Asking:
        """Return the execution of a query, reusing recent ones."""
        if question not in self._asked:
            if len(self._asked) == REMEMBERED:
                self._forget()
            with ExitStack() as stack:
                scratch = stack.enter_context(Work(None, self._last_resort))
                execution = Asking(self._index, self.corpus, one_topic(question), scratch)
                self._asked[question] = execution, stack.pop_all()
        self._asked.move_to_end(question)
        return self._asked[question][0]

    def _forget(self) -> None:
        """Discard the least recently used query."""
        _, (_, scratch) = self._asked.popitem(last=False)
        scratch.close()


@contextmanager
def _warnings_alone() -> Iterator[None]:
    """Log warnings and errors only."""
    logger = logging.getLogger("submission")
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


def _explained(system: System, asking: Asking, docno: str) -> Explained:
    """Explain the score of an argument, once."""
    return asking.once((system, docno), "explained", lambda: system.stage.explain(asking, QID, docno))


def _shades(system: System, asking: Asking, docno: str) -> list[Shade]:
    """Compute the highlights of an argument, once."""
    return asking.once((system, docno), "shades", lambda: shades(system.stage, asking, docno))


def _weights(question: str, systems: Sequence[System], asking: Asking) -> tuple[dict[str, float], Terms]:
    """Return the weights of the query terms, log(1 + N / df) or 1 without a term index, and the analyser."""
    for lexical in (stage for system in systems for stage in walk(system.stage) if isinstance(stage, Lexical)):
        with suppress(CheckpointError):  # reported by its system
            settings, index = lexical.opened(asking.checkpoints).index, lexical.index(asking)
            terms = Terms(settings.stemmer)
            query_terms = sorted(set(terms.of(question)))
            statistics = index.statistics(query_terms)
            frequencies = zip(query_terms, statistics.df.tolist(), strict=True)
            return {term: math.log(1 + statistics.documents / df) for term, df in frequencies if df}, terms
    terms = Terms("none")
    return dict.fromkeys(terms.of(question), 1.0), terms
