"""Enrichment of documents: index terms that a tagger assigns to them, in place of their words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from math import ceil
from typing import TYPE_CHECKING

from aragorn.engine import run_task
from aragorn.explanation import Highlight, Row
from aragorn.io.collection import Fields, select_texts
from aragorn.pipeline.retrieval import Component
from aragorn.pipeline.session import CheckpointStore, Collection, Session
from aragorn.text.normalisation import URL

if TYPE_CHECKING:
    import pandas as pd

    from aragorn.inference.checkpoint import TaggerCheckpoint
    from aragorn.inference.enrichment import FrequencyLoader, WordFrequencies
    from aragorn.models.taggers import TokenAnnotation

WEIGHT_LEVELS = 5  # of highlights

# What imports torch is imported by the methods that compute with networks.


@dataclass(frozen=True)
class Enrichment(Component):
    """The index terms, annotations and weights that a tagger assigns to documents."""

    version = 1
    computes_with = ("aragorn.inference.enrichment", "aragorn.io.collection")
    uses_torch = True
    checkpoint: str

    def get_fingerprint(self, checkpoints: CheckpointStore) -> str:
        return checkpoints.get_fingerprint(self.checkpoint)

    def load_checkpoint(self, checkpoints: CheckpointStore) -> TaggerCheckpoint:
        from aragorn.inference.checkpoint import load_tagger

        return checkpoints.load_network(self.checkpoint, load_tagger)

    def describe_checkpoint(self, session: Session) -> str:
        from aragorn.inference.checkpoint import TaggerCheckpoint

        network = session.checkpoints.describe_network(self.checkpoint, TaggerCheckpoint)
        return f"{network} {session.computation}"

    def enrich_collection(self, collection: Collection, fields: Fields) -> FrequencyLoader:
        """Enrich a collection in resumable shards; return a loader of its word frequencies."""
        from aragorn.inference.enrichment import enrich_collection

        session = collection.session
        documents = collection.documents
        key = collection.compute_key(self.describe_results(session), fields)
        parts = session.cache.parts(f"enriched-{self.checkpoint}", key)
        checkpoint = self.load_checkpoint(session.checkpoints)

        def load_texts(docnos: Sequence[str]) -> list[str]:
            return select_texts(documents.read_texts(docnos), fields)

        with collection.stopwatch.stage(f"enrichment with {self.checkpoint}"):
            return enrich_collection(
                documents.collection_docnos,
                load_texts,
                checkpoint,
                session.device,
                parts,
                session.engine,
            )

    def compute_word_frequencies(
        self, session: Session, fields: Fields, documents: pd.DataFrame
    ) -> list[WordFrequencies]:
        """Compute the term frequencies of documents, separately to be reproducible."""
        from aragorn.inference.enrichment import enrich_separately

        checkpoint = self.load_checkpoint(session.checkpoints)
        function = partial(enrich_separately, checkpoint, session.device)
        texts = select_texts(documents, fields)
        return run_task(session.engine, function, texts, session.device)

    def highlight(
        self, session: Session, fields: Fields, document: pd.DataFrame
    ) -> tuple[str, list[Highlight]]:
        """Return a document's text and its argument components, or else its words by weight."""
        tagger = self.load_checkpoint(session.checkpoints).network
        [text] = select_texts(document, fields)
        words = list(locate_words(text, self.annotate(session, fields, document)))
        if tagger.component_types:
            by_component = groupby(words, key=lambda word: tagger.get_component_type(word[2]))
            groups = ((component, list(group)) for component, group in by_component if component)
            return text, [
                Highlight(group[0][0], group[-1][1], component) for component, group in groups
            ]
        max_weight = max((word.weight for _, _, word in words), default=0.0)
        return text, [
            Highlight(start, end, f"weight-{ceil(WEIGHT_LEVELS * word.weight / max_weight)}")
            for start, end, word in words
            if word.weight > 0
        ]

    def get_token_weights(
        self, session: Session, fields: Fields, document: pd.DataFrame
    ) -> dict[str, list[Row]]:
        """Return the weight of each token by title of its passage."""
        tagger = self.load_checkpoint(session.checkpoints).network
        weights = {}
        for index, (_, words) in enumerate(self.annotate(session, fields, document), 1):
            weights[f"{tagger.output_name} of each word in passage {index}"] = [
                Row(word.weight, word.surface, f"position {position}")
                for position, word in enumerate(words, 1)
            ]
        return weights

    def annotate(
        self, session: Session, fields: Fields, document: pd.DataFrame
    ) -> list[tuple[str, list[TokenAnnotation]]]:
        from aragorn.inference.enrichment import annotate_texts

        checkpoint = self.load_checkpoint(session.checkpoints)
        [text] = select_texts(document, fields)
        [annotations] = annotate_texts([text], checkpoint, session.device)
        passages = checkpoint.tokeniser.split(text)
        return [(passage.text, words) for passage, words in zip(passages, annotations, strict=True)]


def locate_words(
    text: str, passages: list[tuple[str, list[TokenAnnotation]]]
) -> Iterator[tuple[int, int, TokenAnnotation]]:
    """Yield (start, end, annotation) for each word in `text`; passages may lack its URLs."""
    end = 0
    without_urls = URL.sub(lambda url: " " * len(url[0]), text)
    for passage, words in passages:
        start = text.find(passage, end)
        for word in words:
            surface = passage[word.start : word.end]
            position = start + word.start if start >= 0 else without_urls.find(surface, end)
            if position >= 0:
                end = position + len(surface)
                yield position, end, word
