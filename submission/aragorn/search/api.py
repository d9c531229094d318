"""Search from Python: `load_system("dirichlet").search(arguments, queries)`."""

from __future__ import annotations

import weakref
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aragorn.cache import open_cache
from aragorn.engine import choose_device
from aragorn.errors import UsageError
from aragorn.io.dataset import Dataset
from aragorn.io.document_store import Corpus
from aragorn.io.irds import is_identifier
from aragorn.io.runs import check_pairs
from aragorn.paths import CHECKPOINT_DIR
from aragorn.pipeline.session import CheckpointStore, Collection, Session
from aragorn.rankings import DEFAULT_DEPTH, MAX_DEPTH, build_rankings, truncate_rankings
from aragorn.search.inputs import Arguments, Queries, build_corpus, build_topics
from aragorn.search.searcher import FALLBACK_DIR, Searcher
from aragorn.systems.catalogue import SYSTEMS, System, get_system
from aragorn.systems.neural import NetworkStage

if TYPE_CHECKING:
    import pandas as pd


class ArgumentIndex(AbstractContextManager["ArgumentIndex"]):
    """Index of arguments for one system, until it is closed or garbage-collected."""

    def __init__(self, system: LoadedSystem, corpus: Corpus, cache_dir: Path | None) -> None:
        """Open an index of `corpus` in `cache_dir` (None: in a temporary directory)."""
        self._system = system
        self._corpus = corpus
        self._cache_dir = cache_dir
        with ExitStack() as stack:
            cache = stack.enter_context(open_cache(cache_dir, FALLBACK_DIR))
            session = Session(system.checkpoints, system.device, cache)
            self._searcher = Searcher(Collection(corpus, session))
            self._finalizer = weakref.finalize(self, stack.pop_all().close)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle or copy the index as its arguments and directory; a copy of an index in a
        temporary directory indexes the arguments again."""
        # documents of files are read again
        corpus = self._corpus
        arguments: Arguments
        if isinstance(corpus, Dataset):
            [path] = corpus.paths
            arguments = path if is_identifier(path) else path.absolute()
        else:
            arguments = corpus.documents
        directory = self._cache_dir and self._cache_dir.absolute()
        return LoadedSystem.index, (self._system, arguments, directory)

    def search(self, queries: Queries, depth: int = DEFAULT_DEPTH) -> pd.DataFrame:
        """Return at most `depth` top-ranked arguments for each query as `qid docno rank score`."""
        if not 1 <= depth <= MAX_DEPTH:
            raise UsageError(f"invalid depth {depth}; expected an integer from 1 to {MAX_DEPTH}")
        self._require_open()
        topics = build_topics(queries)
        if topics.empty:
            return build_rankings([])
        return truncate_rankings(self._searcher.rank(self._system.system.stage, topics), depth)

    def rerank(self, queries: Queries, candidates: pd.DataFrame) -> pd.DataFrame:
        """Rank all candidates `qid docno` by their scores as `qid docno rank score`.

        Raises:
            UsageError: If the system does not score each pair with a network.
            InputError: If a qid or docno is unknown, or a pair occurs twice.
        """
        self._require_open()
        stage = self._system.system.stage
        if not isinstance(stage, NetworkStage):
            names = [name for name, item in SYSTEMS.items() if isinstance(item.stage, NetworkStage)]
            cause = f"{self._system.system.name} does not score pairs with a network"
            raise UsageError(f"{cause}; choose one of {', '.join(names)}")
        topics = build_topics(queries)
        pairs = candidates[["qid", "docno"]].astype(str).reset_index(drop=True)
        unknown_docnos = self._searcher.collection.documents.find_unknown(pairs["docno"])
        check_pairs(pairs, topics, unknown_docnos, "candidates")
        if pairs.empty:
            return build_rankings([])
        return self._searcher.rerank(stage, topics, pairs)

    def _require_open(self) -> None:
        if self.closed:
            raise UsageError("the index is closed; open another by LoadedSystem.index")

    @property
    def closed(self) -> bool:
        return not self._finalizer.alive

    def close(self) -> None:
        """Close the index; delete its files unless they are in a `cache_dir`."""
        self._finalizer()

    def __exit__(self, *exc_info: object) -> None:
        self.close()


@dataclass(frozen=True)
class LoadedSystem:
    """System that searches any arguments, with its checkpoints and device."""

    system: System
    checkpoints: CheckpointStore
    device: str

    def search(
        self, arguments: Arguments, queries: Queries, depth: int = DEFAULT_DEPTH
    ) -> pd.DataFrame:
        """Return the top-ranked arguments for each query as `qid docno rank score`.

        Lexical scores equal those of `rank`; neural scores differ by at most 1e-5.

        Args:
            arguments: Frame `docno premise` (optionally `conclusion`) or `docno text`, texts by id,
                texts (numbered from 1), or Path of an input directory; of args.me, premises with
                fewer than 15 words are omitted.
            queries: Frame `qid query`, texts by id, texts (numbered from 1), or a single text.
            depth: Maximum number of arguments per query.
        """
        with self.index(arguments) as index:
            return index.search(queries, depth)

    def index(
        self, arguments: Arguments, cache_dir: str | PathLike[str] | None = None
    ) -> ArgumentIndex:
        """Index arguments for repeated searches in `cache_dir`; None: a temporary directory."""
        directory = None if cache_dir is None else Path(cache_dir)
        return ArgumentIndex(self, build_corpus(arguments), directory)


def load_system(
    name: str, checkpoints: str | PathLike[str] = CHECKPOINT_DIR, device: str = "auto"
) -> LoadedSystem:
    """Load a system by name, its checkpoints on first use; raise UsageError if name or
    device is invalid."""
    return LoadedSystem(
        get_system(name), CheckpointStore(Path(checkpoints).absolute()), choose_device(device)
    )


def list_systems() -> dict[str, str]:
    """Return the description of each system by its name, in the order of the catalogue."""
    return {system.name: system.description for system in SYSTEMS.values()}
