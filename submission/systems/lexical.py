"""Search by words: of whole arguments as they are, or of those that an enrichment gives in their place."""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from submission import lists
from submission.enrichment.marked import Piece
from submission.errors import CheckpointError, short
from submission.retrieval.lexical import Query, added, asked, searched
from submission.retrieval.parameters import Parameters, open_parameters
from submission.retrieval.terms import Settings, Statistics, TermIndex, term_index
from submission.systems.enrichment import Enrichment
from submission.systems.execution import Execution, Stage
from submission.systems.explained import Explained, Row
from submission.systems.remembered import Checkpoints

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Lexical(Stage):
    """BM25 or a Dirichlet language model over whole arguments, with or without RM3, as its checkpoint says (Hollatz 2022)."""

    checkpoint: str
    enrichment: Enrichment | None = None

    def made_of(self) -> tuple[Enrichment, ...]:
        return () if self.enrichment is None else (self.enrichment,)

    def opened(self, checkpoints: Checkpoints) -> Parameters:
        """Raises CheckpointError: it was tuned for another enrichment too."""
        found = checkpoints.opened(self.checkpoint, open_parameters)
        expected = self.enrichment.checkpoint if self.enrichment else None
        if found.enrichment != expected:
            raise CheckpointError(
                f"{checkpoints.directory / self.checkpoint}: tuned for {_words(found.enrichment)}, expected "
                f"{_words(expected)}; `python -m training tune {self.checkpoint}` makes it"
            )
        return found

    def keeps(self, checkpoints: Checkpoints) -> dict[str, float]:
        """A term index, which stages of the same settings share."""
        return {f"{self.opened(checkpoints).index} {self.enrichment}": 0.75 if self.enrichment else 1.0}

    def search(self, execution: Execution) -> pd.DataFrame:
        """The best documents that have a term of the topic, or of its expansion."""
        parameters, topics = self.opened(execution.checkpoints), execution.topics
        index, collection, rows = self.index(execution), execution.documents.collection, []
        listed = searched(
            index, topics["query"].tolist(), parameters.model, parameters.expansion, lists.DEEPEST, self.checkpoint
        )
        for qid, text, found in zip(topics["qid"], topics["query"], listed, strict=True):
            if not len(found.documents):
                log.warning("topic %s (%s): no document shares a term with it; its list is empty", qid, short(text))
            rows += lists.rows_of(qid, (collection[number] for number in found.documents.tolist()), found.scores)
        return lists.of_rows(rows)

    def scores(self, execution: Execution, pairs: pd.DataFrame) -> np.ndarray:
        """By the same model, with the statistics of the collection."""
        queries = execution.topics.set_index("qid")["query"]
        scores = pd.Series(0.0, index=pairs.index)
        for qid, group in pairs.groupby("qid", sort=False):
            found, _, _ = self._added(execution, self.query(execution, queries[qid]), group["docno"].tolist())
            scores[group.index] = found.sum(axis=0)
        return scores.to_numpy()

    def explain(self, execution: Execution, qid: str, docno: str) -> Explained:
        """Explain the share of each term and, where there is an enrichment, its labels of the document."""
        [text] = execution.topics["query"]
        query, own = self.query(execution, text), set(self.index(execution).read(text))
        found, tf, of = self._added(execution, query, [docno])
        rows = [
            Row(
                value,
                term,
                f"weight {weight:.4f}, tf {tf[number, 0]}, df {of.df[number]}{'' if term in own else ', expansion'}",
            )
            for number, ((term, weight), value) in enumerate(zip(query.items(), found[:, 0].tolist(), strict=True))
        ]
        how = f"a sum over the terms ({self.opened(execution.checkpoints).formula()})"
        views, marked = self._passages(execution, docno), self._marked(execution, docno)
        return Explained(sum(row.value for row in rows), how, rows, views=views, marked=marked)

    def formula(self, checkpoints: Checkpoints) -> str:
        return self.opened(checkpoints).formula()

    def query(self, execution: Execution, text: str) -> Query:
        """The terms that a title is searched by, with their weights."""
        parameters = self.opened(execution.checkpoints)
        return asked(self.index(execution), text, parameters.model, parameters.expansion)

    def index(self, execution: Execution) -> TermIndex:
        """The term index of the collection."""
        return index_of(execution, self.opened(execution.checkpoints).index, self.enrichment)

    def counted(self, execution: Execution, docnos: list[str]) -> list[Counter[str]]:
        """Count the terms of documents of any length: from the index or, for documents outside it, again."""
        index = self.index(execution)
        collection = execution.documents.docnos
        counts: dict[str, Counter[str]] = {}
        for docno in docnos:
            number = bisect_left(collection, docno)
            if number < len(collection) and collection[number] == docno:
                terms, frequencies = index.document(number)
                counts[docno] = Counter(dict(zip(terms, frequencies.tolist(), strict=True)))
        others = execution.documents.texts(set(docnos) - counts.keys())
        if self.enrichment is None:
            anew = index.counted(others)
        else:
            words = self.enrichment.words(execution, self.opened(execution.checkpoints).index.fields, others)
            anew = [index.counted_words(one) for one in words]
        counts |= dict(zip(others["docno"], anew, strict=True))
        return [counts[docno] for docno in docnos]

    def _added(self, execution: Execution, query: Query, docnos: list[str]) -> tuple[np.ndarray, np.ndarray, Statistics]:
        """Compute the share of each term in documents of any length (terms, documents), their counts, and the statistics."""
        parameters, index = self.opened(execution.checkpoints), self.index(execution)
        counts = self.counted(execution, docnos)
        tf = np.array([[count[term] for count in counts] for term in query], dtype=np.int64).reshape(len(query), len(docnos))
        of = index.statistics(list(query))
        return added(query, parameters.model, of, tf, np.array([count.total() for count in counts])), tf, of

    def _marked(self, execution: Execution, docno: str) -> list[Piece]:
        """A document's text by the parts of an argument that the enrichment finds."""
        if self.enrichment is None:
            return []
        fields = self.opened(execution.checkpoints).index.fields
        return self.enrichment.marked(execution, fields, execution.documents.texts({docno}))

    def _passages(self, execution: Execution, docno: str) -> dict[str, list[Row]]:
        """Return an enrichment's weight of each word of a document, by passage."""
        if self.enrichment is None:
            return {}
        enricher = self.enrichment.opened(execution.checkpoints).enricher
        if enricher.parts:
            return {}
        fields, document = self.opened(execution.checkpoints).index.fields, execution.documents.texts({docno})
        return {
            f"{enricher.value} of the words of passage {number}": [
                Row(word.weight, word.text, f"place {place}") for place, word in enumerate(words, 1)
            ]
            for number, (_, words) in enumerate(self.enrichment.read(execution, fields, document), 1)
        }


def index_of(execution: Execution, settings: Settings, enrichment: Enrichment | None) -> TermIndex:
    """The term index of an execution's collection, made once. Raises CheckpointError, InputError, OutputError."""
    return execution.once_of_collection((settings, enrichment), "index", lambda: _made(execution, settings, enrichment))


def _made(execution: Execution, settings: Settings, enrichment: Enrichment | None) -> TermIndex:
    # A list that was handed over may be of short documents alone: they are ranked, without statistics of any collection.
    documents, engine = execution.documents, execution.engine
    collection = documents.collection if execution.given is None else documents.docnos
    with execution.stopwatch.stage("term index"):
        if enrichment is None:
            return term_index(collection, documents.texts, settings, execution.place("terms", repr(settings)), engine=engine)
        place = execution.place(f"terms-{enrichment.checkpoint}", repr(settings), *enrichment.decided_by(execution))
        enrich = partial(enrichment.collection, execution, settings.fields, collection)
        return term_index(collection, documents.texts, settings, place, enrich, engine)


def _words(enrichment: str | None) -> str:
    return "the words of the texts" if enrichment is None else f"the words of {enrichment}"
