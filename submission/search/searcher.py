"""Search a corpus with several systems; indexes stay open, while the scores of old queries are deleted."""

import logging
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from threading import Lock
from typing import Any, Self, TypeVar

import pandas as pd
import torch

from submission.data.argument_metadata import ArgumentMetadata, MetadataStore, open_metadata
from submission.data.document_store import DocumentStore
from submission.errors import CheckpointError, InputError, OutputError, SubmissionError
from submission.rankings import truncate_rankings
from submission.search.corpus import Corpus
from submission.search.inputs import build_topics, clean_query
from submission.search.results import Hit, SearchResults, SystemResults
from submission.search.snippets import Snippet, compute_highlights, extract_snippet
from submission.storage.artifact_store import ArtifactStore
from submission.storage.cache_directory import CacheDirectory
from submission.systems.catalogue import System
from submission.systems.execution import CheckpointStore, Execution, Stage, iter_components
from submission.systems.lexical import LexicalStage
from submission.text.index_terms import TermAnalyser

T = TypeVar("T")


class QueryExecution(Execution):
    """Execution of queries; scores equal those of `rank` for topics with these titles, neural scores to within 1e-5."""

    def __init__(self, shared: Execution, corpus: Corpus, scratch: CacheDirectory) -> None:
        """Create an execution for the topics of `corpus`; share the data of `shared`, and cache pair scores in `scratch`."""
        super().__init__(corpus, shared.checkpoints, shared.device, shared.cache_directory, shared.engine)
        self._shared, self.scratch = shared, scratch

    @cached_property
    def documents(self) -> DocumentStore:
        """Document store, shared by all queries."""
        return self._shared.documents

    def compute_once_per_collection(self, owner: Hashable, name: str, compute: Callable[[], T]) -> T:
        """Return `compute()`, computed for the first query and reused for all other queries."""
        return self._shared.compute_once(owner, name, compute)

    def open_pair_cache(self, name: str, code_hash: str, *key_parts: str) -> ArtifactStore:
        """Open a cache that is deleted when the query is discarded."""
        return self.scratch.open_store(name, " ".join([code_hash, *key_parts]))

    def _load_or_rank(self, stage: Stage) -> pd.DataFrame:
        """Compute a ranking; rankings are kept in memory only, because on disk they would accumulate."""
        return self._rank_and_validate(stage)


FALLBACK_DIR = Path()  # parent of temporary directories if the system's temporary directory is not writable
MAX_CACHED_QUERIES = 8  # number of recent queries whose results are kept, so that links on the page recompute nothing


@dataclass(frozen=True)
class SearchOptions:
    """Number of hits per system, and which details to compute for each hit."""

    depth: int = 5  # hits per system
    explain: Callable[[str, str], bool] = lambda system, docno: False  # whether to explain the score of (system, docno)
    highlight: bool = False  # whether to compute the highlights of premises


class Searcher:
    """Context manager of a search engine over one corpus, which processes one query at a time; thread-safe."""

    def __init__(
        self, corpus: Corpus, checkpoints: CheckpointStore, device: torch.device, cache_dir: Path | None = None
    ) -> None:
        """Create a searcher that loads documents lazily and caches indexes in `cache_dir` (None: a temporary directory)."""
        self.corpus, self.checkpoints, self._cache = corpus, checkpoints, CacheDirectory(cache_dir, FALLBACK_DIR)
        self._shared = Execution(corpus, checkpoints, device, self._cache)
        self._recent_executions: OrderedDict[str, QueryExecution] = OrderedDict()
        self._loaded_systems: set[System] = set()
        self._lock = Lock()  # so that threads neither build an index twice nor compute at the same time

    def __enter__(self) -> Self:
        """Open the cache directory; raise OutputError if it cannot be created or another process uses it."""
        self._cache.__enter__()
        return self

    def __exit__(self, *exc_info: object) -> None:
        while self._recent_executions:
            self._evict()
        self._cache.__exit__(None, None, None)

    @property
    def document_count(self) -> int:
        """Number of searchable documents; raises InputError if there are none."""
        with self._lock:
            return len(self._shared.documents.searchable_docnos)

    def is_indexed(self, system: System) -> bool:
        """Return whether the system answers a query without first encoding documents."""
        return all(component.is_indexed(self._shared) for component in iter_components(system.stage))

    def rank(self, stage: Stage, topics: pd.DataFrame) -> pd.DataFrame:
        """Rank documents for topics `qid query`; return `qid docno rank score`."""
        with self._lock, CacheDirectory(None, FALLBACK_DIR) as scratch:
            return QueryExecution(self._shared, self.corpus.with_queries(topics), scratch).get_ranking(stage)

    def search(self, query_text: str, systems: Sequence[System], options: SearchOptions) -> SearchResults:
        """Search with several systems; a failed system's results contain its error, except InputError and OutputError."""
        start, query = time.monotonic(), clean_query(query_text)
        # The first use of a system may take long, so its progress is logged.
        with self._lock, nullcontext() if {*systems} - self._loaded_systems else suppress_info():
            execution = self._get_execution(query)
            weights, analyser = _compute_term_weights(query, systems, execution)
            extract = partial(extract_snippet, weights=weights, analyser=analyser)
            results = [self._search_system(system, execution, extract, options) for system in systems]
            self._loaded_systems |= {*systems}
        return SearchResults(query, results, time.monotonic() - start)

    def _search_system(
        self, system: System, execution: QueryExecution, extract: Callable[[str], Snippet], options: SearchOptions
    ) -> SystemResults:
        """Return the top hits of a system, or the error with which it failed; raise InputError and OutputError."""
        stage, hits = system.stage, []
        try:
            ranking = execution.get_ranking(stage)
            top_rows = truncate_rankings(ranking, options.depth)
            texts, metadata = execution.documents.read_texts(set(top_rows["docno"])), self._get_metadata(top_rows["docno"])
            rows: Any = top_rows.merge(texts, on="docno").itertuples()
            for row in rows:
                key, highlights, explanation = (system, row.docno), [], None
                if options.highlight:
                    compute = partial(compute_highlights, stage, execution, row.docno)
                    highlights = execution.compute_once(key, "highlights", compute)
                if options.explain(system.name, row.docno):
                    explain = partial(stage.explain, execution, row.qid, row.docno)
                    explanation = execution.compute_once(key, "explanation", explain)
                argument_fields = row.docno, metadata.get(row.docno, ArgumentMetadata()), row.conclusion, row.premise
                hits.append(Hit(row.rank, row.score, *argument_fields, extract(row.premise), highlights, explanation))
            return SystemResults(system.name, hits, len(ranking))
        except (InputError, OutputError):
            raise  # every system would fail
        except SubmissionError as error:
            return SystemResults(system.name, error=error)

    def _get_metadata(self, docnos: Collection[str]) -> dict[str, ArgumentMetadata]:
        def open_store() -> MetadataStore:
            return open_metadata(self.corpus.args_me_files, self.corpus.corpus_fingerprint, self._cache)

        return self._shared.compute_once(self, "metadata", open_store).get(docnos)

    def _get_execution(self, query: str) -> QueryExecution:
        """Return the execution of a query; reuse it for a recent query."""
        if query not in self._recent_executions:
            if len(self._recent_executions) == MAX_CACHED_QUERIES:
                self._evict()
            corpus, scratch = self.corpus.with_queries(build_topics(query)), CacheDirectory(None, FALLBACK_DIR)
            self._recent_executions[query] = QueryExecution(self._shared, corpus, scratch.__enter__())
        self._recent_executions.move_to_end(query)
        return self._recent_executions[query]

    def _evict(self) -> None:
        """Discard the execution of the least recently used query."""
        _, execution = self._recent_executions.popitem(last=False)
        execution.scratch.__exit__(None, None, None)


@contextmanager
def suppress_info() -> Iterator[None]:
    """Suppress log messages below the level of warnings."""
    logger = logging.getLogger("submission")
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


def _compute_term_weights(
    query: str, systems: Sequence[System], execution: QueryExecution
) -> tuple[dict[str, float], TermAnalyser]:
    """Return the weights of the query terms, and the analyser that yields these terms.

    Weights are log(1 + N / df) in the index of the first lexical component that can be loaded, or 1 if there is none.
    """
    for stage in (component for system in systems for component in iter_components(system.stage)):
        if isinstance(stage, LexicalStage):
            with suppress(CheckpointError):  # reported in the results of its system
                settings, index = stage.load_checkpoint(execution.checkpoints).index, stage.get_index(execution)
                analyser = TermAnalyser(settings.stemmer)
                terms = sorted(set(analyser.analyse(query)))
                statistics = index.get_statistics(terms)
                frequencies = zip(terms, statistics.df.tolist(), strict=True)
                return {term: math.log(1 + statistics.document_count / df) for term, df in frequencies if df}, analyser
    analyser = TermAnalyser("none")
    return dict.fromkeys(analyser.analyse(query), 1.0), analyser
