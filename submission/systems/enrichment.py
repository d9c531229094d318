"""The words that an enricher gives the documents of a collection, or others, in place of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from submission.engine.engine import computed
from submission.enrichment.base import Word
from submission.enrichment.checkpoint import EnricherCheckpoint, open_enricher
from submission.enrichment.enriched import EachAlone, Enriched, Words, enrich
from submission.enrichment.marked import Piece, pieces
from submission.enrichment.read import read
from submission.retrieval.terms import Fields, texts_of
from submission.systems.execution import Component, Execution
from submission.systems.remembered import Checkpoints


@dataclass(frozen=True)
class Enrichment(Component):
    """An enricher over the documents' texts."""

    checkpoint: str

    def opened(self, checkpoints: Checkpoints) -> EnricherCheckpoint:
        return checkpoints.network(self.checkpoint, open_enricher)

    def keeps(self, checkpoints: Checkpoints) -> dict[str, float]:
        """The words of all documents."""
        return {repr(self): 0.5}

    def decided_by(self, execution: Execution) -> list[str]:
        """Another device or precision gives other bits."""
        return [self.opened(execution.checkpoints).fingerprint, execution.computed_on]

    def collection(self, execution: Execution, fields: Fields, collection: list[str]) -> Enriched:
        """The words of a whole collection by its docnos, in their order, kept in parts."""
        kept = execution.place(f"enriched-{self.checkpoint}", *self.decided_by(execution), fields)
        opened, device, documents = self.opened(execution.checkpoints), execution.device, execution.documents

        def texts(docnos: Sequence[str]) -> list[str]:
            return texts_of(documents.texts(docnos), fields)

        with execution.stopwatch.stage(f"enrichment by {self.checkpoint}"):
            return enrich(collection, texts, opened, device, kept, execution.engine)

    def words(self, execution: Execution, fields: Fields, documents: pd.DataFrame) -> list[Words]:
        """The words of some documents, each computed alone: a document's do not depend on the others."""
        each_alone = EachAlone(self.opened(execution.checkpoints), execution.device)
        return computed(execution.engine, each_alone, texts_of(documents, fields), execution.device)

    def marked(self, execution: Execution, fields: Fields, document: pd.DataFrame) -> list[Piece]:
        """The text of one document, by the parts of an argument that it finds; none of an enricher that finds none."""
        enricher, found = self.opened(execution.checkpoints).enricher, []
        for text, words in self.read(execution, fields, document) if enricher.parts else []:
            found += [*pieces(text, words, enricher.part), Piece(" ", "")]
        return found

    def read(self, execution: Execution, fields: Fields, document: pd.DataFrame) -> list[tuple[str, list[Word]]]:
        """The passages of one document, and what it says of the words of each."""
        opened, [text] = self.opened(execution.checkpoints), texts_of(document, fields)
        [said] = read([text], opened, execution.device)
        return [(passage.text, words) for passage, words in zip(opened.reader.passages(text), said, strict=True)]
