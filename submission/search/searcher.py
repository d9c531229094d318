"""Search a corpus with several systems, keeping indexes open."""

from __future__ import annotations

import logging
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from submission.data.argument_metadata import ArgumentMetadata, MetadataStore, open_metadata
from submission.errors import CheckpointError, InputError, OutputError, SubmissionError
from submission.rankings import truncate_rankings
from submission.search.corpus import Corpus
from submission.search.highlights import Highlight, compute_highlights
from submission.search.inputs import build_topics, clean_query
from submission.search.query_execution import QueryExecution
from submission.search.results import Hit, SearchResults, SystemResults
from submission.search.snippets import Snippet, extract_snippet
from submission.storage.cache_directory import CacheDirectory
from submission.systems.catalogue import System
from submission.systems.checkpoint_store import CheckpointStore
from submission.systems.execution import Execution, Stage, iter_components
from submission.systems.explanation import ScoreExplanation
from submission.systems.lexical import LexicalStage
from submission.text.index_terms import TermAnalyser

CACHED_QUERIES = 8  # recent queries kept in memory, so that links on the page recompute nothing


@dataclass(frozen=True)
class SearchOptions:
    """Options of a search."""

    depth: int = 5  # hits per system
    explain: Callable[[str, str], bool] = lambda system, docno: False  # (system, docno) → whether to explain the score
    highlight: bool = False  # whether to compute highlights


class Searcher:
    """Searches a corpus. A context manager; not thread-safe."""

    def __init__(
        self,
        corpus: Corpus,
        checkpoints: CheckpointStore,
        device: torch.device,
        cache_dir: Path | None = None,
        fallback_dir: Path = Path(),
    ) -> None:
        """Create a searcher; nothing is read before the first query.

        Args:
            corpus: Documents to search.
            checkpoints: Checkpoints of the systems.
            device: Device of the networks.
            cache_dir: Cache of indexes; None: a temporary directory.
            fallback_dir: Parent of the temporary directory if the machine has none.
        """
        self.corpus, self.checkpoints = corpus, checkpoints
        self._cache, self._fallback_dir = CacheDirectory(cache_dir, fallback_dir), fallback_dir
        self._shared = Execution(corpus, checkpoints, device, self._cache)
        self._recent: OrderedDict[str, tuple[QueryExecution, ExitStack]] = OrderedDict()
        self._loaded_systems: set[System] = set()

    def __enter__(self) -> Searcher:
        """Open the cache directory. Raises OutputError if it is not writable, or another process has locked it."""
        self._cache.__enter__()
        return self

    def __exit__(self, *exc_info: object) -> None:
        while self._recent:
            self._evict()
        self._cache.__exit__(None, None, None)

    @property
    def document_count(self) -> int:
        """Return the number of searchable documents. Raises InputError if there are none."""
        return len(self._shared.documents.searchable_docnos)

    def rank(self, stage: Stage, topics: pd.DataFrame) -> pd.DataFrame:
        """Rank documents for topics `qid query`."""
        with CacheDirectory(None, self._fallback_dir) as scratch:
            return QueryExecution(self._shared, self.corpus, topics, scratch).get_ranking(stage)

    def search(self, query_text: str, systems: Sequence[System], options: SearchOptions) -> SearchResults:
        """Search with several systems; a system that fails returns its error."""
        start, query = time.monotonic(), clean_query(query_text)
        with nullcontext() if {*systems} - self._loaded_systems else _only_warnings():  # first use may take long: log it
            execution = self._get_execution(query)
            weights, analyser = _compute_term_weights(query, systems, execution)
            extract = partial(extract_snippet, weights=weights, analyser=analyser)
            results = [self._search_system(system, execution, extract, options) for system in systems]
        self._loaded_systems |= {*systems}
        return SearchResults(query, results, time.monotonic() - start)

    def _search_system(
        self, system: System, execution: QueryExecution, extract: Callable[[str], Snippet], options: SearchOptions
    ) -> SystemResults:
        """Return a system's results, or its error."""
        try:
            hits = list(self._iter_hits(system, execution, extract, options))
            return SystemResults(system.name, hits, len(execution.get_ranking(system.stage)))
        except (InputError, OutputError):
            raise  # every system would fail
        except SubmissionError as error:
            return SystemResults(system.name, error=error)

    def _iter_hits(
        self, system: System, execution: QueryExecution, extract: Callable[[str], Snippet], options: SearchOptions
    ) -> Iterator[Hit]:
        """Yield the top hits of a system."""
        top = truncate_rankings(execution.get_ranking(system.stage), options.depth)
        texts, metadata = execution.documents.read_texts(set(top["docno"])), self._get_metadata(top["docno"])
        rows: Any = top.merge(texts, on="docno").itertuples()
        for row in rows:
            highlights = _highlight(system, execution, row.docno) if options.highlight else []
            explanation = _explain(system, execution, row.docno) if options.explain(system.name, row.docno) else None
            hit_metadata, snippet = metadata.get(row.docno, ArgumentMetadata()), extract(row.premise)
            yield Hit(
                row.rank, row.score, row.docno, hit_metadata, row.conclusion, row.premise, snippet, highlights, explanation
            )

    def _get_metadata(self, docnos: Collection[str]) -> dict[str, ArgumentMetadata]:
        corpus = self.corpus

        def open_store() -> MetadataStore:
            return open_metadata(corpus.args_me_files, corpus.corpus_fingerprint, self._cache)

        return self._shared.compute_once(self, "metadata", open_store).get(docnos)

    def _get_execution(self, query: str) -> QueryExecution:
        """Return the execution of a query, reusing recent ones."""
        if query not in self._recent:
            if len(self._recent) == CACHED_QUERIES:
                self._evict()
            with ExitStack() as stack:
                scratch = stack.enter_context(CacheDirectory(None, self._fallback_dir))
                execution = QueryExecution(self._shared, self.corpus, build_topics(query), scratch)
                self._recent[query] = execution, stack.pop_all()
        self._recent.move_to_end(query)
        return self._recent[query][0]

    def _evict(self) -> None:
        """Discard the least recently used query."""
        _, (_, scratch) = self._recent.popitem(last=False)
        scratch.close()


@contextmanager
def _only_warnings() -> Iterator[None]:
    """Log warnings and errors only."""
    logger = logging.getLogger("submission")
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


def _explain(system: System, execution: QueryExecution, docno: str) -> ScoreExplanation:
    """Explain the score of an argument, once."""
    [qid] = execution.topics["qid"]
    return execution.compute_once((system, docno), "explanation", lambda: system.stage.explain(execution, qid, docno))


def _highlight(system: System, execution: QueryExecution, docno: str) -> list[Highlight]:
    """Compute the highlights of an argument, once."""
    return execution.compute_once((system, docno), "highlights", lambda: compute_highlights(system.stage, execution, docno))


def _compute_term_weights(
    query: str, systems: Sequence[System], execution: QueryExecution
) -> tuple[dict[str, float], TermAnalyser]:
    """Return the weights of the query terms, log(1 + N / df) or 1 without a term index, and the analyser."""
    for stage in (component for system in systems for component in iter_components(system.stage)):
        if isinstance(stage, LexicalStage):
            with suppress(CheckpointError):  # reported by its system
                settings, index = stage.load_checkpoint(execution.checkpoints).index, stage.load_index(execution)
                analyser = TermAnalyser(settings.stemmer)
                terms = sorted(set(analyser.analyse(query)))
                statistics = index.get_statistics(terms)
                frequencies = zip(terms, statistics.df.tolist(), strict=True)
                return {term: math.log(1 + statistics.documents / df) for term, df in frequencies if df}, analyser
    analyser = TermAnalyser("none")
    return dict.fromkeys(analyser.analyse(query), 1.0), analyser
