"""Lexical retrieval over full arguments, or over the terms that an enrichment assigns to them."""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd

from aragorn.errors import CheckpointError, abbreviate
from aragorn.explanation import Explanation, Row
from aragorn.index import inverted, lexical, weighting
from aragorn.index.inverted import Statistics
from aragorn.index.lexical import (
    IndexSettings,
    LexicalParameters,
    TermIndex,
    build_term_index,
    search_all,
)
from aragorn.index.weighting import Query, compute_term_contributions
from aragorn.rankings import MAX_DEPTH, build_rankings, make_ranking_rows
from aragorn.systems.enrichment import Enrichment
from aragorn.systems.execution import CheckpointStore, Execution, Stage
from aragorn.text import index_terms
from aragorn.versions import describe_versions

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LexicalStage(Stage):
    """BM25 or Dirichlet-smoothed query likelihood, optionally with RM3 (Hollatz 2022).

    It searches full arguments or, with an enrichment, the terms assigned to them. The checkpoint
    contains model and parameters.
    """

    version = 1
    checkpoint: str
    enrichment: Enrichment | None = None

    def get_sources(self) -> tuple[ModuleType | type, ...]:
        return (index_terms, inverted, lexical, weighting)

    def get_dependencies(self) -> tuple[Enrichment, ...]:
        return () if self.enrichment is None else (self.enrichment,)

    def load_checkpoint(self, checkpoints: CheckpointStore) -> LexicalParameters:
        """Load the parameters. Raises CheckpointError if they were tuned for an enrichment other
        than this stage's."""
        parameters = checkpoints.load_config(self.checkpoint, LexicalParameters)
        enrichment = self.enrichment.checkpoint if self.enrichment else None
        if parameters.enrichment != enrichment:
            raise CheckpointError(
                f"{checkpoints.directory / self.checkpoint}: tuned for {_describe_terms(parameters.enrichment)}; expected "
                f"{_describe_terms(enrichment)}; run `aragorn-training tune {self.checkpoint} -i INPUT --qrels QRELS -o "
                f"{checkpoints.directory / self.checkpoint}`"
            )
        return parameters

    def search(self, execution: Execution) -> pd.DataFrame:
        """Return the top documents among those that contain a query or expansion term."""
        parameters, topics = self.load_checkpoint(execution.checkpoints), execution.topics
        index, collection, rows = (
            self.get_index(execution),
            execution.documents.searchable_docnos,
            [],
        )
        results = search_all(
            index,
            topics["query"].tolist(),
            parameters.model,
            parameters.expansion,
            MAX_DEPTH,
            self.checkpoint,
        )
        for qid, text, hits in zip(topics["qid"], topics["query"], results, strict=True):
            if not len(hits.documents):
                log.warning(
                    "topic %s (%s): no document contains a query term; its ranking is empty",
                    qid,
                    abbreviate(text),
                )
            rows += make_ranking_rows(
                qid, (collection[row] for row in hits.documents.tolist()), hits.scores
            )
        return build_rankings(rows)

    def build_index(self, execution: Execution) -> None:
        self.get_index(execution)

    def score(self, execution: Execution, pairs: pd.DataFrame) -> np.ndarray:
        """Score pairs with the model and collection statistics used for retrieval."""
        queries = execution.topics.set_index("qid")["query"]
        scores = pd.Series(0.0, index=pairs.index)
        for qid, group in pairs.groupby("qid", sort=False):
            query = self.build_query(execution, queries[qid])
            contributions, _, _ = self._compute_contributions(
                execution, query, group["docno"].tolist()
            )
            scores[group.index] = contributions.sum(axis=0)
        return scores.to_numpy()

    def explain(self, execution: Execution, qid: str, docno: str) -> Explanation:
        """Break the score down by term; with an enrichment, include the document's token weights or
        components."""
        [text] = execution.topics["query"]
        query, query_terms = (
            self.build_query(execution, text),
            set(self.get_index(execution).analyse_query(text)),
        )
        contributions, tf, statistics = self._compute_contributions(execution, query, [docno])
        rows = []
        for index, (term, weight) in enumerate(query.items()):
            source = "" if term in query_terms else ", expansion term"
            note = f"weight {weight:.4f}, tf {tf[index, 0]}, df {statistics.df[index]}{source}"
            rows.append(Row(contributions[index, 0].item(), term, note))
        summary = f"sum over query terms ({self.format_formula(execution.checkpoints)})"
        explanation = Explanation(sum(row.value for row in rows), rows, summary)
        if self.enrichment is None:
            return explanation
        fields, document = (
            self.load_checkpoint(execution.checkpoints).index.fields,
            execution.documents.read_texts({docno}),
        )
        weights = self.enrichment.get_token_weights(execution, fields, document)
        spans = self.enrichment.get_component_spans(execution, fields, document)
        return replace(explanation, breakdowns=weights, component_spans=spans)

    def format_formula(self, checkpoints: CheckpointStore) -> str:
        return self.load_checkpoint(checkpoints).describe()

    def build_query(self, execution: Execution, text: str) -> Query:
        """Build the weighted query of a topic title, expanded if the parameters include query
        expansion."""
        parameters = self.load_checkpoint(execution.checkpoints)
        index = self.get_index(execution)
        return index.parse_query(text, parameters.model, parameters.expansion)

    def get_index(self, execution: Execution) -> TermIndex:
        """Return the term index of the collection, which is loaded or built on first use."""
        return load_or_build_index(
            execution, self.load_checkpoint(execution.checkpoints).index, self.enrichment
        )

    def count_terms(self, execution: Execution, docnos: list[str]) -> list[Counter[str]]:
        """Return the term frequencies of documents, including those too short to be indexed."""
        index = self.get_index(execution)
        collection = execution.documents.collection_docnos
        counts: dict[str, Counter[str]] = {}
        for docno in docnos:
            position = bisect_left(collection, docno)
            if position < len(collection) and collection[position] == docno:
                terms, frequencies = index.get_document_terms(position)
                counts[docno] = Counter(dict(zip(terms, frequencies.tolist(), strict=True)))
        unindexed_documents = execution.documents.read_texts(set(docnos) - counts.keys())
        if self.enrichment is None:
            unindexed_counts = index.count_terms(unindexed_documents)
        else:
            fields = self.load_checkpoint(execution.checkpoints).index.fields
            word_frequencies = self.enrichment.compute_word_frequencies(
                execution, fields, unindexed_documents
            )
            unindexed_counts = [
                index.count_enriched_terms(frequencies) for frequencies in word_frequencies
            ]
        counts |= dict(zip(unindexed_documents["docno"], unindexed_counts, strict=True))
        return [counts[docno] for docno in docnos]

    def _compute_contributions(
        self, execution: Execution, query: Query, docnos: list[str]
    ) -> tuple[np.ndarray, np.ndarray, Statistics]:
        """Compute the contributions and frequencies (terms, documents) of a query's terms, and
        their collection statistics."""
        parameters, index = self.load_checkpoint(execution.checkpoints), self.get_index(execution)
        counts = self.count_terms(execution, docnos)
        tf = np.array(
            [[count[term] for count in counts] for term in query], dtype=np.int64
        ).reshape(len(query), len(docnos))
        statistics, dl = (
            index.get_statistics(list(query)),
            np.array([count.total() for count in counts]),
        )
        return (
            compute_term_contributions(query, parameters.model, statistics, tf, dl),
            tf,
            statistics,
        )


def load_or_build_index(
    execution: Execution, settings: IndexSettings, enrichment: Enrichment | None
) -> TermIndex:
    """Return the term index of the collection, loaded or built once."""
    compute = partial(_load_or_build, execution, settings, enrichment)
    return execution.compute_once_per_collection((settings, enrichment), "index", compute)


def _load_or_build(
    execution: Execution, settings: IndexSettings, enrichment: Enrichment | None
) -> TermIndex:
    documents = execution.documents
    # If all documents of an input run are too short to be indexed, they are ranked without
    # collection statistics.
    docnos = (
        documents.searchable_docnos if execution.input_run is None else documents.collection_docnos
    )
    name = "terms"
    versions = describe_versions(index_terms, inverted, lexical, libraries=["numpy", "scipy"])
    key_parts = [versions, repr(settings)]
    if enrichment:
        name = f"terms-{enrichment.checkpoint}"
        key_parts += [enrichment.describe_sources(), *enrichment.get_key_parts(execution)]

    def build(directory: Path) -> None:
        load_frequencies = None
        if enrichment:
            load_frequencies = enrichment.enrich_collection(execution, settings.fields, docnos)
        build_term_index(directory, docnos, documents.read_texts, settings, load_frequencies)

    with execution.stopwatch.stage("term index"):
        key = execution.get_collection_key(*key_parts)
        return TermIndex(execution.cache.directory(name, key, build), settings)


def _describe_terms(enrichment: str | None) -> str:
    return "the original texts" if enrichment is None else f"the terms of {enrichment}"
