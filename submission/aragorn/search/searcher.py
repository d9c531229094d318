"""Search a corpus with several systems; indexes stay open, while the scores of old queries are
deleted."""

import logging
import math
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, Self, TypeVar

import pandas as pd

from aragorn.cache import Parts, open_cache
from aragorn.context import set_variable
from aragorn.engine.device import count_threads
from aragorn.errors import CheckpointError, InputError, OutputError, SubmissionError
from aragorn.index.vectors import EncodingEstimate, Listener, encoding_listener
from aragorn.io.argument_metadata import ArgumentMetadata, MetadataStore, open_metadata
from aragorn.progress import NOTICE, suppress_info
from aragorn.rankings import truncate_rankings
from aragorn.search.corpus import Corpus
from aragorn.search.inputs import build_topics, clean_query
from aragorn.search.results import Hit, SearchResults, SystemResults
from aragorn.search.snippets import Snippet, compute_highlights, extract_snippet
from aragorn.systems.catalogue import System
from aragorn.systems.execution import CheckpointStore, Execution, Stage, iter_components
from aragorn.systems.lexical import LexicalStage
from aragorn.text.index_terms import TermAnalyser

log = logging.getLogger(__name__)

T = TypeVar("T")


class QueryExecution(Execution):
    """Execution of queries, shared by threads; scores equal those of `rank` for these titles,
    neural scores to within 1e-5."""

    def __init__(self, shared: Execution, corpus: Corpus) -> None:
        """Create an execution for the topics of `corpus` that shares the data of `shared`; rankings
        and pair scores stay in memory, because on disk they would accumulate."""
        super().__init__(corpus, shared.checkpoints, shared.device, shared.cache, shared.engine)
        self._shared = shared
        self.documents = shared.documents
        self.user_count = 0  # threads that use this execution

    def compute_once_per_collection(
        self, owner: Hashable, name: str, compute: Callable[[], T]
    ) -> T:
        """Return `compute()`, computed for the first query and reused for all other queries."""
        return self._shared.compute_once(owner, name, compute)

    def get_pair_parts(self, name: str, *key_parts: str) -> Parts | None:
        return None

    def _load_or_rank(self, stage: Stage) -> pd.DataFrame:
        return self._rank_and_validate(stage)


# parent of temporary directories if the system's temporary directory is not writable
FALLBACK_DIR = Path()
# number of recent queries whose results are kept, so that links on the page recompute nothing
MAX_CACHED_QUERIES = 8


@dataclass(frozen=True)
class SearchOptions:
    """Number of hits per system, and which details to compute for each hit."""

    depth: int = 5  # hits per system
    # whether to explain the score of (system, docno)
    explain: Callable[[str, str], bool] = lambda system, docno: False
    highlight: bool = False  # whether to compute the highlights of premises
    on_encoding: Listener = lambda estimate: None  # called before many texts are encoded


class Searcher:
    """Context manager of a search engine over one corpus, for any number of threads."""

    def __init__(
        self,
        corpus: Corpus,
        checkpoints: CheckpointStore,
        device: str,
        cache_dir: Path | None = None,
    ) -> None:
        """Create a searcher that loads documents lazily and caches indexes in `cache_dir` (None: a
        temporary directory)."""
        self.corpus = corpus
        self.checkpoints = checkpoints
        self._device = device
        self._cache_dir = cache_dir
        self._recent_executions: OrderedDict[str, QueryExecution] = OrderedDict()
        self._loaded_systems: set[System] = set()
        self._lock = Lock()  # of the recent executions and of the documents that they share
        # threads of torch; None: it is not imported yet
        self._thread_count = count_threads() if "torch" in sys.modules else None

    def __enter__(self) -> Self:
        """Open the cache directory; raise OutputError if it cannot be created or another process
        uses it."""
        with ExitStack() as stack:
            cache = stack.enter_context(open_cache(self._cache_dir, FALLBACK_DIR))
            self._shared = Execution(self.corpus, self.checkpoints, self._device, cache)
            self._exit_stack = stack.pop_all()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._exit_stack.close()

    @property
    def document_count(self) -> int:
        """Number of searchable documents; raises InputError if there are none."""
        with self._lock:
            return len(self._shared.documents.searchable_docnos)

    def is_indexed(self, system: System) -> bool:
        """Return whether the system answers a query without first encoding documents."""
        return all(
            component.is_indexed(self._shared) for component in iter_components(system.stage)
        )

    def rank(self, stage: Stage, topics: pd.DataFrame) -> pd.DataFrame:
        """Rank documents for topics `qid query`; return `qid docno rank score`."""
        self._prepare_thread([stage])
        with self._lock:
            execution = QueryExecution(self._shared, self.corpus.with_queries(topics))
        return execution.get_ranking(stage)

    def search(
        self, query_text: str, systems: Sequence[System], options: SearchOptions
    ) -> SearchResults:
        """Search with several systems; a failed system's results contain its error, except
        InputError and OutputError."""
        start, query = time.monotonic(), clean_query(query_text)
        self._prepare_thread([system.stage for system in systems])

        def announce(estimate: EncodingEstimate) -> None:
            log.log(NOTICE, "%s", estimate)
            options.on_encoding(estimate)

        # The first use of a system may take long, so its progress is logged.
        progress = nullcontext() if {*systems} - self._loaded_systems else suppress_info()
        with (
            progress,
            set_variable(encoding_listener, announce),
            self._use_execution(query) as execution,
        ):
            weights, analyser = _compute_term_weights(query, systems, execution)
            extract = partial(extract_snippet, weights=weights, analyser=analyser)
            results = [
                self._search_system(system, execution, extract, options) for system in systems
            ]
            self._loaded_systems |= {*systems}
        return SearchResults(query, results, time.monotonic() - start)

    def _prepare_thread(self, stages: Iterable[Stage]) -> None:
        """Set the thread count of torch in this thread if stages use it, because their scores must
        not depend on the counts of other threads."""
        components = [component for stage in stages for component in iter_components(stage)]
        if any("torch" in component.libraries for component in components):
            from aragorn.inference.device import THREAD_COUNT, set_thread_count

            set_thread_count(self._thread_count or THREAD_COUNT)

    def _search_system(
        self,
        system: System,
        execution: QueryExecution,
        extract: Callable[[str], Snippet],
        options: SearchOptions,
    ) -> SystemResults:
        """Return the top hits of a system, or the error with which it failed; raise InputError and
        OutputError."""
        stage, hits = system.stage, []
        try:
            ranking = execution.get_ranking(stage)
            top_rows = truncate_rankings(ranking, options.depth)
            texts, metadata = (
                execution.documents.read_texts(set(top_rows["docno"])),
                self._get_metadata(top_rows["docno"]),
            )
            rows: Any = top_rows.merge(texts, on="docno").itertuples()
            for row in rows:
                key, highlights, explanation = (system, row.docno), [], None
                if options.highlight:
                    compute = partial(compute_highlights, stage, execution, row.docno)
                    highlights = execution.compute_once(key, "highlights", compute)
                if options.explain(system.name, row.docno):
                    explain = partial(stage.explain, execution, row.qid, row.docno)
                    explanation = execution.compute_once(key, "explanation", explain)
                argument_fields = (
                    row.docno,
                    metadata.get(row.docno, ArgumentMetadata()),
                    row.conclusion,
                    row.premise,
                )
                hits.append(
                    Hit(
                        row.rank,
                        row.score,
                        *argument_fields,
                        extract(row.premise),
                        highlights,
                        explanation,
                    )
                )
            return SystemResults(system.name, hits, len(ranking))
        except (InputError, OutputError):
            raise  # every system would fail
        except SubmissionError as error:
            return SystemResults(system.name, error=error)

    def _get_metadata(self, docnos: Collection[str]) -> dict[str, ArgumentMetadata]:
        def open_store() -> MetadataStore:
            return open_metadata(
                self.corpus.args_me_files, self.corpus.corpus_fingerprint, self._shared.cache
            )

        return self._shared.compute_once(self, "metadata", open_store).get(docnos)

    @contextmanager
    def _use_execution(self, query: str) -> Iterator[QueryExecution]:
        """Yield the execution of a query, which is reused for a recent query and kept until the end
        of the `with` block."""
        with self._lock:
            if query not in self._recent_executions:
                corpus = self.corpus.with_queries(build_topics(query))
                self._recent_executions[query] = QueryExecution(self._shared, corpus)
            self._recent_executions.move_to_end(query)
            execution = self._recent_executions[query]
            execution.user_count += 1
            self._evict(MAX_CACHED_QUERIES)
        try:
            yield execution
        finally:
            with self._lock:
                execution.user_count -= 1
                # the cause of an error may be gone when the query is repeated
                self._evict(MAX_CACHED_QUERIES, query if execution.errors else None)

    def _evict(self, limit: int, failed_query: str | None = None) -> None:
        """Discard the executions of the least recently used queries beyond `limit` and of
        `failed_query`, except those in use."""
        unused = [
            query
            for query, execution in self._recent_executions.items()
            if not execution.user_count
        ]
        excess = unused[: max(0, len(self._recent_executions) - limit)]
        for query in {*excess, *(query for query in unused if query == failed_query)}:
            del self._recent_executions[query]


def _compute_term_weights(
    query: str, systems: Sequence[System], execution: QueryExecution
) -> tuple[dict[str, float], TermAnalyser]:
    """Return the weights of the query terms, and the analyser that yields these terms.

    Weights are log(1 + N / df) in the index of the first lexical component that can be loaded, or 1
    if there is none.
    """
    for stage in (component for system in systems for component in iter_components(system.stage)):
        if isinstance(stage, LexicalStage):
            with suppress(CheckpointError):  # reported in the results of its system
                index = stage.get_index(execution)
                terms = sorted(set(index.analyse_query(query)))
                statistics = index.get_statistics(terms)
                frequencies = zip(terms, statistics.df.tolist(), strict=True)
                return {
                    term: math.log(1 + statistics.n_documents / df)
                    for term, df in frequencies
                    if df
                }, index.analyser
    analyser = TermAnalyser("none")
    return dict.fromkeys(analyser.analyse(query), 1.0), analyser
