"""Enrichment of documents: index terms that a tagger assigns to them, in place of their words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from types import ModuleType
from typing import TYPE_CHECKING

import pandas as pd

from aragorn.engine.base import run_task
from aragorn.explanation import Row, TextSpan
from aragorn.systems.execution import CheckpointStore, Component, Execution
from aragorn.text import normalisation, passages, surface_tokens
from aragorn.text.index_terms import Fields, select_texts
from aragorn.versions import describe_versions

if TYPE_CHECKING:
    from aragorn.inference.checkpoint import TaggerCheckpoint
    from aragorn.inference.enrichment import FrequencyLoader, WordFrequencies
    from aragorn.models.tagger import TokenAnnotation

# What imports torch is imported by the methods that compute with networks.


@dataclass(frozen=True)
class Enrichment(Component):
    """The index terms, annotations and weights that a tagger assigns to documents."""

    version = 1
    libraries = ("numpy", "torch", "tokenizers")
    checkpoint: str

    def get_sources(self) -> tuple[ModuleType | type, ...]:
        from aragorn.inference import checkpoint, enrichment

        return normalisation, passages, surface_tokens, checkpoint, enrichment

    def get_fingerprint(self, checkpoints: CheckpointStore) -> str:
        return checkpoints.get_fingerprint(self.checkpoint)

    def load_checkpoint(self, checkpoints: CheckpointStore) -> TaggerCheckpoint:
        from aragorn.inference.checkpoint import load_tagger

        return checkpoints.load_network(self.checkpoint, load_tagger)

    def get_key_parts(self, execution: Execution) -> list[str]:
        """Return the checkpoint's fingerprint, the version of its network, and the device and
        precision."""
        from aragorn.inference.checkpoint import TaggerCheckpoint

        directory = execution.checkpoints.directory / self.checkpoint
        network_class = TaggerCheckpoint.read_network_class(directory)
        return [
            self.get_fingerprint(execution.checkpoints),
            describe_versions(network_class),
            execution.device_and_precision,
        ]

    def enrich_collection(
        self, execution: Execution, fields: Fields, docnos: list[str]
    ) -> FrequencyLoader:
        """Enrich a collection, resuming from completed shards; return a function that loads its
        word frequencies."""
        from aragorn.inference.enrichment import enrich_collection

        key = execution.get_collection_key(
            describe_versions(type(self)),
            self.describe_sources(),
            *self.get_key_parts(execution),
            fields,
        )
        parts = execution.cache.parts(f"enriched-{self.checkpoint}", key)
        checkpoint, documents = self.load_checkpoint(execution.checkpoints), execution.documents

        def load_texts(docnos: Sequence[str]) -> list[str]:
            return select_texts(documents.read_texts(docnos), fields)

        with execution.stopwatch.stage(f"enrichment with {self.checkpoint}"):
            return enrich_collection(
                docnos, load_texts, checkpoint, execution.device, parts, execution.engine
            )

    def compute_word_frequencies(
        self, execution: Execution, fields: Fields, documents: pd.DataFrame
    ) -> list[WordFrequencies]:
        """Compute the term frequencies of documents, enriching each separately so that the results
        are reproducible."""
        from aragorn.inference.enrichment import enrich_separately

        function = partial(
            enrich_separately, self.load_checkpoint(execution.checkpoints), execution.device
        )
        return run_task(
            execution.engine, function, select_texts(documents, fields), execution.device
        )

    def get_component_spans(
        self, execution: Execution, fields: Fields, document: pd.DataFrame
    ) -> list[TextSpan]:
        """Split a document's text into argument components; return [] if the tagger assigns no
        component labels."""
        tagger, spans = self.load_checkpoint(execution.checkpoints).network, []
        for text, words in (
            self.annotate(execution, fields, document) if tagger.component_types else []
        ):
            spans += [
                *split_by_component(text, words, tagger.get_component_type),
                TextSpan(" ", ""),
            ]
        return spans

    def get_token_weights(
        self, execution: Execution, fields: Fields, document: pd.DataFrame
    ) -> dict[str, list[Row]]:
        """Return rows with the weight of each token, by title of its passage; {} if the tagger
        assigns component labels."""
        tagger, weights = self.load_checkpoint(execution.checkpoints).network, {}
        passages = [] if tagger.component_types else self.annotate(execution, fields, document)
        for index, (_, words) in enumerate(passages, 1):
            rows = [
                Row(word.weight, word.surface, f"position {position}")
                for position, word in enumerate(words, 1)
            ]
            weights[f"{tagger.output_name} of each word in passage {index}"] = rows
        return weights

    def annotate(
        self, execution: Execution, fields: Fields, document: pd.DataFrame
    ) -> list[tuple[str, list[TokenAnnotation]]]:
        """Return the passages of a document with their token annotations."""
        from aragorn.inference.enrichment import annotate_texts

        checkpoint, [text] = (
            self.load_checkpoint(execution.checkpoints),
            select_texts(document, fields),
        )
        [annotations] = annotate_texts([text], checkpoint, execution.device)
        passages = checkpoint.tokeniser.split(text)
        return [(passage.text, words) for passage, words in zip(passages, annotations, strict=True)]


def split_by_component(
    text: str, tokens: Sequence[TokenAnnotation], get_component: Callable[[TokenAnnotation], str]
) -> list[TextSpan]:
    """Split a passage's text into spans by argument component; `get_component` returns "" for
    tokens outside components."""
    spans: list[TextSpan] = []
    end = 0
    for component, group in groupby(tokens, key=get_component):
        if component:
            members = list(group)
            start = members[0].start
            component_end = members[-1].end
            spans += [TextSpan(text[end:start], ""), TextSpan(text[start:component_end], component)]
            end = component_end
    return [span for span in [*spans, TextSpan(text[end:], "")] if span.text]
