"""SBERT: topic and premise each become the mean of what BERT makes of their pieces; the score is the cosine of the two.

Reimers, Gurevych: Sentence-BERT: Sentence Embeddings using Siamese BERT-Networks. EMNLP 2019. Thakur, Reimers, Daxenberger,
Gurevych: Augmented SBERT. NAACL 2021.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor
from torch.nn import functional

from submission.rankers.base import DenseRanker, Explanation, Part
from submission.rankers.bert import BERTRanker, Encoder, TextEncoder
from submission.rankers.bert_config import EncoderConfig


class SBERT(BERTRanker, DenseRanker):
    """The cosine of two means over the positions of [CLS] text [SEP]."""

    batch = 8  # documents computed at a time: few enough that what a block makes of them stays in the processor's cache

    @dataclass(frozen=True)
    class Config(EncoderConfig):
        """The encoder, and what is searched: all premises, or those of the nearest conclusions and of BM25's."""

        scope: Literal["premises", "conclusions"] = "conclusions"

    def encoder_of(self, config: Any) -> Encoder:
        """Return the encoder of single texts."""
        return TextEncoder(config)

    def represent(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Vectors (B, E) of length 1."""
        vectors, inside = self.encoder(ids, mask)
        return functional.normalize((vectors * inside.unsqueeze(-1)).sum(1), dim=1)

    def explain(self, query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor) -> Explanation:
        """Explain the share of each piece of the document in the cosine."""
        own = self.represent(query, query_mask)[0]
        vectors, inside = self.encoder(document, document_mask)
        positions = vectors[inside]  # (T, E)
        shares = (positions @ own / positions.sum(0).norm()).tolist()
        pieces = [Part("piece", share, document=(place,)) for place, share in enumerate(shares[1:-1])]
        return Explanation([*pieces, Part("[CLS]", shares[0]), Part("[SEP]", shares[-1])])
