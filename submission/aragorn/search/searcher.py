"""Search a corpus with several systems; indexes stay open, old queries are forgotten."""

from __future__ import annotations

import logging
import math
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from aragorn.engine import count_threads
from aragorn.errors import CheckpointError, InputError, OutputError, SubmissionError
from aragorn.explanation import Highlight
from aragorn.index.vectors import EncodingEstimate, Listener, encoding_listener, set_variable
from aragorn.pipeline.retrieval import Queries, Retrieval, Stage, iter_components
from aragorn.pipeline.session import Collection
from aragorn.progress import NOTICE, suppress_info
from aragorn.rankings import truncate_rankings
from aragorn.search.inputs import build_topics, clean_query
from aragorn.search.results import Hit, SearchResults, SystemResults
from aragorn.search.snippets import compute_highlights, extract_snippet, find_matches
from aragorn.systems.catalogue import System
from aragorn.systems.lexical import LexicalStage
from aragorn.text.index_terms import TermAnalyser

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger(__name__)

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
    """Search engine over a collection for any number of threads.

    Neural scores differ from those of `rank` by at most 1e-5.
    """

    def __init__(self, collection: Collection) -> None:
        self.collection = collection
        self._recent_queries: OrderedDict[str, Retrieval] = OrderedDict()
        self._loaded_systems: set[System] = set()
        self._lock = Lock()  # of the recent queries
        # threads of torch; None: it is not imported yet
        self._n_threads = count_threads() if "torch" in sys.modules else None

    @property
    def n_documents(self) -> int:
        """Number of searchable documents; raises InputError if there are none."""
        return len(self.collection.documents.searchable_docnos)

    def is_indexed(self, system: System) -> bool:
        """Return whether the system answers a query without first encoding documents."""
        components = iter_components(system.stage)
        return all(component.is_indexed(self.collection) for component in components)

    def rank(self, stage: Stage, topics: pd.DataFrame) -> pd.DataFrame:
        """Rank documents for topics `qid query`; return `qid docno rank score`."""
        self._prepare_thread([stage])
        return Retrieval(Queries(topics), self.collection).rank(stage)

    def rerank(self, stage: Stage, topics: pd.DataFrame, pairs: pd.DataFrame) -> pd.DataFrame:
        """Rank pairs `qid docno` of topics `qid query` by score; return `qid docno rank score`."""
        self._prepare_thread([stage])
        return stage.rank_pairs(Retrieval(Queries(topics), self.collection), pairs)

    def search(
        self, query_text: str, systems: Sequence[System], options: SearchOptions
    ) -> SearchResults:
        """Search with several systems; a failed system's results contain its error."""
        start = time.monotonic()
        query = clean_query(query_text)
        self._prepare_thread([system.stage for system in systems])

        def announce(estimate: EncodingEstimate) -> None:
            log.log(NOTICE, "%s", estimate)
            options.on_encoding(estimate)

        # The first use of a system may take long, so its progress is logged.
        progress = nullcontext() if {*systems} - self._loaded_systems else suppress_info()
        retrieval = self._get_retrieval(query)
        try:
            with progress, set_variable(encoding_listener, announce):
                terms = _compute_term_weights(query, systems, self.collection)
                results = [
                    self._search_system(system, retrieval, terms, options) for system in systems
                ]
                self._loaded_systems |= {*systems}
        finally:
            if retrieval.errors:  # their cause may be gone when the query is repeated
                with self._lock:
                    self._recent_queries.pop(query, None)
        return SearchResults(query, results, time.monotonic() - start)

    def _prepare_thread(self, stages: Iterable[Stage]) -> None:
        """Set torch's thread count in this thread, as scores must not depend on other threads."""
        components = [component for stage in stages for component in iter_components(stage)]
        if any(component.uses_torch for component in components):
            from aragorn.inference.device import N_THREADS, set_thread_count

            set_thread_count(self._n_threads or N_THREADS)

    def _search_system(
        self,
        system: System,
        retrieval: Retrieval,
        terms: tuple[dict[str, float], TermAnalyser],
        options: SearchOptions,
    ) -> SystemResults:
        """Return the top hits of a system or its error; raise InputError and OutputError."""
        hits = []
        try:
            ranking = retrieval.rank(system.stage)
            top_rows = truncate_rankings(ranking, options.depth)
            texts = self.collection.documents.read_texts(set(top_rows["docno"]))
            metadata = self.collection.documents.read_metadata(set(top_rows["docno"]))
            rows: Any = top_rows.merge(texts, on="docno").itertuples()
            for row in rows:
                owner = (system, row.docno)
                highlights: list[Highlight] = []
                if options.highlight:
                    compute = partial(compute_highlights, system.stage, self.collection, row.docno)
                    highlights = retrieval.memo.once(owner, "highlights", compute)
                explanation = None
                if options.explain(system.name, row.docno):
                    explain = partial(system.stage.explain, retrieval, row.qid, row.docno)
                    explanation = retrieval.memo.once(owner, "explanation", explain)
                hit = Hit(
                    row.rank,
                    row.score,
                    row.docno,
                    metadata[row.docno],
                    row.conclusion,
                    row.premise,
                    extract_snippet(row.premise, *terms),
                    highlights,
                    explanation,
                    [span for span, _ in find_matches(row.conclusion, *terms)],
                )
                hits.append(hit)
            return SystemResults(system.name, hits, len(ranking))
        except (InputError, OutputError):
            raise  # every system would fail
        except SubmissionError as error:
            return SystemResults(system.name, error=error)

    def _get_retrieval(self, query: str) -> Retrieval:
        """Return the retrieval of a new or recent query; discard the oldest beyond the maximum."""
        with self._lock:
            retrieval = self._recent_queries.get(query)
            if retrieval is None:
                retrieval = Retrieval(Queries(build_topics(query)), self.collection)
                self._recent_queries[query] = retrieval
            self._recent_queries.move_to_end(query)
            if len(self._recent_queries) > MAX_CACHED_QUERIES:
                self._recent_queries.popitem(last=False)
            return retrieval


def _compute_term_weights(
    query: str, systems: Sequence[System], collection: Collection
) -> tuple[dict[str, float], TermAnalyser]:
    """Return weights by query term, and the analyser that yields these terms.

    Weights are log(1 + N / df) in the index of the first lexical component that can be loaded, else
    1.
    """
    for stage in (component for system in systems for component in iter_components(system.stage)):
        if isinstance(stage, LexicalStage):
            with suppress(CheckpointError):  # reported in the results of its system
                index = stage.get_index(collection)
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
