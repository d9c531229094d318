"""SBERT: a bi-encoder whose score is the cosine similarity of the mean-pooled BERT vectors of topic
and premise.

Reimers, Gurevych: Sentence-BERT: Sentence Embeddings using Siamese BERT-Networks. EMNLP 2019.
Thakur, Reimers, Daxenberger, Gurevych: Augmented SBERT. NAACL 2021.
"""

from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor
from torch.nn import functional

from aragorn.explanation import Explanation, Row
from aragorn.models.bert import BERTRanker, Encoder, TextEncoder
from aragorn.models.network import DenseRanker
from aragorn.models.transformer import EncoderConfig


class SBERT(BERTRanker, DenseRanker):
    """Cosine similarity of BERT's vectors, mean-pooled over [CLS] text [SEP]."""

    version = 1

    uses_occlusion = False
    cpu_batch_size = 8  # documents per batch, whose activations stay in the CPU cache

    @dataclass(frozen=True)
    class Config(EncoderConfig):
        """Configuration of the encoder and of dense retrieval."""

        # search all premises, or those of retrieved conclusions
        scope: Literal["premises", "conclusions"] = "conclusions"

    @property
    def dimension(self) -> int:
        return int(self.encoder.bert.config.hidden_size)

    def build_encoder(self, config: Any) -> Encoder:
        return TextEncoder(config)

    def encode(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Encode texts as unit vectors (B, E)."""
        vectors, token_mask = self.encoder(ids, mask)
        return functional.normalize((vectors * token_mask.unsqueeze(-1)).sum(1), dim=1)

    def explain(
        self, query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor
    ) -> Explanation:
        """Break the cosine similarity down by subword of the document, plus [CLS] and [SEP]."""
        query_vector = self.encode(query, query_mask)[0]
        vectors, token_mask = self.encoder(document, document_mask)
        vectors = vectors[token_mask]  # (T, E)
        cls, *values, sep = (vectors @ query_vector / vectors.sum(0).norm()).tolist()
        rows = [
            Row(value, "subword", document_positions=(position,))
            for position, value in enumerate(values)
        ]
        score = self(query, query_mask, document, document_mask).item()
        return Explanation(score, [*rows, Row(cls, "[CLS]"), Row(sep, "[SEP]")])
