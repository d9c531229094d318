"""Vanilla BERT: a cross-encoder with a linear layer over [CLS].

MacAvaney, Yates, Cohan, Goharian: CEDR. SIGIR 2019, section 3.1. Entezari 2020, 3.4.4.1 and 4.2.5: dropout 0.1 (0.2 in table
4.1), one linear layer.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from submission.models.bert import ENCODER_CAVEAT, BERTRanker
from submission.models.bert_config import EncoderConfig
from submission.models.ranker import Contribution, NetworkExplanation


class VanillaBERT(BERTRanker):
    """A linear layer over the mean [CLS] vector of a document's chunks."""

    cls_only = True

    @dataclass(frozen=True)
    class Config(EncoderConfig):
        """Encoder (determines the head's width) and dropout before the head."""

        dropout: float = 0.1

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.dropout = nn.Dropout(config.dropout)
        self.linear = nn.Linear(self.encoder.bert.config.hidden_size, 1)

    def forward(self, query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor) -> Tensor:
        """Score pairs (B,): w · CLS + b."""
        encoded = self.encoder(query, query_mask, document, document_mask)
        score: Tensor = self.linear(self.dropout(encoded.cls[:, -1]))  # (B, 1)
        return score.squeeze(-1)

    def explain(self, query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor) -> NetworkExplanation:
        """Break the score down into [CLS] and bias."""
        cls = self.encoder(query, query_mask, document, document_mask).cls[0, -1]
        parts = [Contribution("[CLS]", (self.linear.weight[0] @ cls).item()), Contribution("bias", self.linear.bias.item())]
        return NetworkExplanation(parts, caveat=ENCODER_CAVEAT, use_occlusion=True)
