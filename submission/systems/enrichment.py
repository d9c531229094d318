"""Index terms that an enricher assigns to documents instead of their words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import pandas as pd

from submission.engine.base import computed
from submission.inference.enricher_checkpoint import EnricherCheckpoint, open_enricher
from submission.inference.enrichment import Enriched, Words, enrich, enrich_separately, read
from submission.models.enricher import Word
from submission.retrieval.fields import Fields, texts_of
from submission.storage.code_fingerprint import code_fingerprint
from submission.systems.checkpoint_store import Checkpoints
from submission.systems.execution import Component, Execution
from submission.systems.explanation import Piece, pieces


@dataclass(frozen=True)
class Enrichment(Component):
    """An enricher applied to document texts."""

    checkpoint: str

    def opened(self, checkpoints: Checkpoints) -> EnricherCheckpoint:
        return checkpoints.network(self.checkpoint, open_enricher)

    def decided_by(self, execution: Execution) -> list[str]:
        """Return the checkpoint's fingerprint, the code of the words, the device and the precision: all affect results."""
        checkpoint = self.opened(execution.checkpoints)
        modules = (function.__module__ for function in (enrich, open_enricher, texts_of, type(checkpoint.enricher)))
        return [checkpoint.fingerprint, code_fingerprint(*modules, shallow=(__name__,)), execution.computed_on]

    def collection(self, execution: Execution, fields: Fields, collection: list[str]) -> Enriched:
        """Return the enriched collection in docno order, computed in cached shards."""
        cache = execution.place(f"enriched-{self.checkpoint}", *self.decided_by(execution), fields)
        checkpoint, documents = self.opened(execution.checkpoints), execution.documents

        def load_texts(docnos: Sequence[str]) -> list[str]:
            return texts_of(documents.texts(docnos), fields)

        with execution.stopwatch.stage(f"enrichment with {self.checkpoint}"):
            return enrich(collection, load_texts, checkpoint, execution.device, cache, execution.engine)

    def words(self, execution: Execution, fields: Fields, documents: pd.DataFrame) -> list[Words]:
        """Compute the term frequencies of documents, each independently of the others."""
        function = partial(enrich_separately, self.opened(execution.checkpoints), execution.device)
        return computed(execution.engine, function, texts_of(documents, fields), execution.device)

    def marked(self, execution: Execution, fields: Fields, document: pd.DataFrame) -> list[Piece]:
        """Split a document's text into argument components; empty for enrichers without component labels."""
        enricher, spans = self.opened(execution.checkpoints).enricher, []
        for text, words in self.read(execution, fields, document) if enricher.parts else []:
            spans += [*pieces(text, words, enricher.part), Piece(" ", "")]
        return spans

    def read(self, execution: Execution, fields: Fields, document: pd.DataFrame) -> list[tuple[str, list[Word]]]:
        """Return the passages of a document with their token annotations."""
        checkpoint, [text] = self.opened(execution.checkpoints), texts_of(document, fields)
        [annotations] = read([text], checkpoint, execution.device)
        passages = checkpoint.reader.passages(text)
        return [(passage.text, words) for passage, words in zip(passages, annotations, strict=True)]
