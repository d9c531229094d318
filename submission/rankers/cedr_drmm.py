"""CEDR-DRMM: matching histograms over BERT's vectors in every layer, beside its [CLS] vector, for each query position.

MacAvaney, Yates, Cohan, Goharian: CEDR. SIGIR 2019, section 3.2. Thesis 3.4.6: 11 bins, layers (11 · L + E):5:1 with ReLU.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import torch
from torch import Tensor, nn
from torch.nn import functional

from submission.rankers.base import Explanation, Part
from submission.rankers.bert import ENCODER_REMARK, BERTRanker
from submission.rankers.bert_config import QUERY_LENGTH, EncoderConfig
from submission.rankers.layers import cosine, log_histogram

BINS, SMOOTHING, HIDDEN = 11, 1e-5, 5


class CEDRDRMM(BERTRanker):
    """A sum over all 20 query positions, padding too, of what a small network makes of histograms and the last [CLS] vector."""

    @dataclass(frozen=True)
    class Config(EncoderConfig):
        """The encoder, which gives layers and width, and the dropout before the last layer."""

        dropout: float = 0.2

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        bert = self.encoder.bert.config
        self.first = nn.Linear(BINS * (bert.num_hidden_layers + 1) + bert.hidden_size, HIDDEN)
        self.dropout = nn.Dropout(config.dropout)
        self.second = nn.Linear(HIDDEN, 1)

    def forward(self, query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor) -> Tensor:
        """Scores (B,): the sum over query positions of W2 ReLU(W1 [histogram, bin by bin; CLS] + b1) + b2."""
        return self.shares(query, query_mask, document, document_mask).sum(1)

    def explain(self, query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor) -> Explanation:
        """A sum over query pieces, and what all empty positions add together."""
        shares = self.shares(query, query_mask, document, document_mask)[0]
        length = int(query_mask.sum())
        parts = [Part("query piece", shares[place].item(), place) for place in range(length)]
        empty = Part(f"{QUERY_LENGTH - length} empty query positions", shares[length:].sum().item())
        remark = f"a position's share is a small network's reading of its histograms and [CLS] together; {ENCODER_REMARK}"
        return Explanation([*parts, empty], remark=remark, by_omission=True)

    def shares(self, query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor) -> Tensor:
        """Compute the share of each of the 20 query positions in the score, (B, 20)."""
        encoded = self.encoder(query, query_mask, document, document_mask)
        similarity = cosine(encoded.query, encoded.document)  # (B, L, Q, D)
        counted = query_mask[:, None, :, None] & document_mask[:, None, None, :]
        histogram = log_histogram(similarity, counted, BINS, SMOOTHING, similarity.dtype)  # (B, L, Q, bins)
        missing = QUERY_LENGTH - query.shape[1]  # their histograms are empty
        histogram = functional.pad(histogram, (0, 0, 0, missing), value=log(SMOOTHING))  # (B, L, 20, bins)
        cls = encoded.cls[:, -1:].expand(-1, QUERY_LENGTH, -1)  # (B, 20, E)
        both = torch.cat([histogram.permute(0, 2, 3, 1).flatten(2), cls], dim=2)
        shares: Tensor = self.second(self.dropout(self.first(both).relu()))  # (B, 20, 1)
        return shares.squeeze(-1)
