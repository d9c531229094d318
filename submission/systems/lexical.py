"""Lexical retrieval over full arguments, or over the terms that an enrichment assigns to them."""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from submission.errors import CheckpointError, short
from submission.rankings import DEEPEST, of_rows, rows_of
from submission.retrieval.lexical import Query, added, asked, searched
from submission.retrieval.parameters import Parameters
from submission.retrieval.term_index import Settings, Statistics, TermIndex, term_index
from submission.storage.code_fingerprint import code_fingerprint
from submission.systems.checkpoint_store import Checkpoints
from submission.systems.execution import Execution, Stage
from submission.systems.explanation import Explained, Row

if TYPE_CHECKING:  # an enrichment is a component with a key of its own
    from submission.systems.enrichment import Enrichment
    from submission.systems.explanation import Piece

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Lexical(Stage):
    """BM25 or Dirichlet language model over full arguments, optionally with RM3, as its checkpoint says (Hollatz 2022)."""

    checkpoint: str
    enrichment: Enrichment | None = None

    def made_of(self) -> tuple[Enrichment, ...]:
        return () if self.enrichment is None else (self.enrichment,)

    def opened(self, checkpoints: Checkpoints) -> Parameters:
        """Load the parameters. Raises CheckpointError if they were tuned for another enrichment."""
        parameters = checkpoints.load_config(self.checkpoint, Parameters)
        expected = self.enrichment.checkpoint if self.enrichment else None
        if parameters.enrichment != expected:
            raise CheckpointError(
                f"{checkpoints.directory / self.checkpoint}: tuned for {_words(parameters.enrichment)}, expected "
                f"{_words(expected)}; run `python -m training tune {self.checkpoint}`"
            )
        return parameters

    def search(self, execution: Execution) -> pd.DataFrame:
        """Return the top documents that contain a term of the query or its expansion."""
        parameters, topics = self.opened(execution.checkpoints), execution.topics
        index, collection, rows = self.index(execution), execution.documents.collection, []
        results = searched(index, topics["query"].tolist(), parameters.model, parameters.expansion, DEEPEST, self.checkpoint)
        for qid, text, hits in zip(topics["qid"], topics["query"], results, strict=True):
            if not len(hits.documents):
                log.warning("topic %s (%s): no document contains a query term; its ranking is empty", qid, short(text))
            rows += rows_of(qid, (collection[row] for row in hits.documents.tolist()), hits.scores)
        return of_rows(rows)

    def scores(self, execution: Execution, pairs: pd.DataFrame) -> np.ndarray:
        """Score pairs with the same model and collection statistics."""
        queries = execution.topics.set_index("qid")["query"]
        scores = pd.Series(0.0, index=pairs.index)
        for qid, group in pairs.groupby("qid", sort=False):
            contributions, _, _ = self._added(execution, self.query(execution, queries[qid]), group["docno"].tolist())
            scores[group.index] = contributions.sum(axis=0)
        return scores.to_numpy()

    def explain(self, execution: Execution, qid: str, docno: str) -> Explained:
        """Break the score down by term; with an enrichment, show its annotations too."""
        [text] = execution.topics["query"]
        query, title_terms = self.query(execution, text), set(self.index(execution).read(text))
        contributions, tf, statistics = self._added(execution, query, [docno])
        rows = []
        for index, (term, weight) in enumerate(query.items()):
            note = f"weight {weight:.4f}, tf {tf[index, 0]}, df {statistics.df[index]}"
            rows.append(Row(contributions[index, 0].item(), term, note if term in title_terms else f"{note}, expansion term"))
        summary = f"sum over query terms ({self.formula(execution.checkpoints)})"
        views, spans = self._passages(execution, docno), self._marked(execution, docno)
        return Explained(sum(row.value for row in rows), summary, rows, views=views, marked=spans)

    def formula(self, checkpoints: Checkpoints) -> str:
        return self.opened(checkpoints).formula()

    def query(self, execution: Execution, text: str) -> Query:
        """Build the weighted query of a title."""
        parameters = self.opened(execution.checkpoints)
        return asked(self.index(execution), text, parameters.model, parameters.expansion)

    def index(self, execution: Execution) -> TermIndex:
        """Return the collection's term index."""
        return index_of(execution, self.opened(execution.checkpoints).index, self.enrichment)

    def counted(self, execution: Execution, docnos: list[str]) -> list[Counter[str]]:
        """Count the terms of documents of any length; look them up if they are indexed."""
        index = self.index(execution)
        collection = execution.documents.docnos
        counts: dict[str, Counter[str]] = {}
        for docno in docnos:
            position = bisect_left(collection, docno)
            if position < len(collection) and collection[position] == docno:
                terms, frequencies = index.document(position)
                counts[docno] = Counter(dict(zip(terms, frequencies.tolist(), strict=True)))
        unindexed = execution.documents.texts(set(docnos) - counts.keys())
        if self.enrichment is None:
            recounted = index.counted(unindexed)
        else:
            words = self.enrichment.words(execution, self.opened(execution.checkpoints).index.fields, unindexed)
            recounted = [index.counted_words(frequencies) for frequencies in words]
        counts |= dict(zip(unindexed["docno"], recounted, strict=True))
        return [counts[docno] for docno in docnos]

    def _added(self, execution: Execution, query: Query, docnos: list[str]) -> tuple[np.ndarray, np.ndarray, Statistics]:
        """Compute the terms' contributions (terms, documents), frequencies and statistics, for documents of any length."""
        parameters, index = self.opened(execution.checkpoints), self.index(execution)
        counts = self.counted(execution, docnos)
        tf = np.array([[count[term] for count in counts] for term in query], dtype=np.int64).reshape(len(query), len(docnos))
        statistics, dl = index.statistics(list(query)), np.array([count.total() for count in counts])
        return added(query, parameters.model, statistics, tf, dl), tf, statistics

    def _marked(self, execution: Execution, docno: str) -> list[Piece]:
        """Split a document's text into the argument components that the enrichment labels."""
        if self.enrichment is None:
            return []
        fields = self.opened(execution.checkpoints).index.fields
        return self.enrichment.marked(execution, fields, execution.documents.texts({docno}))

    def _passages(self, execution: Execution, docno: str) -> dict[str, list[Row]]:
        """Return the enrichment's weight of each token of a document, by passage."""
        if self.enrichment is None:
            return {}
        enricher = self.enrichment.opened(execution.checkpoints).enricher
        if enricher.parts:
            return {}
        fields, document = self.opened(execution.checkpoints).index.fields, execution.documents.texts({docno})
        return {
            f"{enricher.value} of each word in passage {index}": [
                Row(word.weight, word.text, f"position {position}") for position, word in enumerate(words, 1)
            ]
            for index, (_, words) in enumerate(self.enrichment.read(execution, fields, document), 1)
        }


def index_of(execution: Execution, settings: Settings, enrichment: Enrichment | None) -> TermIndex:
    """Load or build the term index of an execution's collection, once. Raises CheckpointError, InputError, OutputError."""
    return execution.once_of_collection((settings, enrichment), "index", lambda: _made(execution, settings, enrichment))


def _made(execution: Execution, settings: Settings, enrichment: Enrichment | None) -> TermIndex:
    # All documents of a supplied ranking may be too short for the collection; rank them anyway, without collection statistics.
    documents, engine = execution.documents, execution.engine
    collection = documents.collection if execution.given is None else documents.docnos
    code = code_fingerprint(term_index.__module__, shallow=(__name__,))
    with execution.stopwatch.stage("term index"):
        if enrichment is None:
            cache = execution.place("terms", code, repr(settings))
            return term_index(collection, documents.texts, settings, cache, engine=engine)
        cache = execution.place(f"terms-{enrichment.checkpoint}", code, repr(settings), *enrichment.decided_by(execution))
        enrich = partial(enrichment.collection, execution, settings.fields, collection)
        return term_index(collection, documents.texts, settings, cache, enrich, engine)


def _words(enrichment: str | None) -> str:
    return "the original texts" if enrichment is None else f"the terms of {enrichment}"
