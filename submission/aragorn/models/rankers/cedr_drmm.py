"""CEDR-DRMM: a feed-forward network over [CLS] and the matching histograms of all BERT layers, per
query position.

MacAvaney, Yates, Cohan, Goharian: CEDR. SIGIR 2019, section 3.2. Entezari 2020, 3.4.4.2 and table
4.1: 11 bins, layers (11 · L + E):5:1. ReLU as in the authors' code.
"""

from dataclasses import dataclass
from math import log

import torch
from torch import Tensor, nn
from torch.nn import functional

from aragorn.bounds import Share
from aragorn.explanation import Explanation, Row
from aragorn.models.bert import ENCODER_CAVEAT, BERTRanker
from aragorn.models.layers import build_histogram, cosine
from aragorn.models.transformer import QUERY_LENGTH, EncoderConfig

BINS = 11
SMOOTHING = 1e-5
HIDDEN = 5


class CEDRDRMM(BERTRanker):
    """Sum over all 20 query positions of a feed-forward network of histograms and [CLS]."""

    version = 1

    @dataclass(frozen=True)
    class Config(EncoderConfig):
        """Configuration of the encoder and of the dropout before the last layer."""

        dropout: Share = 0.2

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        bert_config = self.encoder.bert.config
        self.fc1 = nn.Linear(
            BINS * (bert_config.num_hidden_layers + 1) + bert_config.hidden_size, HIDDEN
        )
        self.dropout = nn.Dropout(config.dropout)
        self.fc2 = nn.Linear(HIDDEN, 1)

    def forward(
        self, query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor
    ) -> Tensor:
        """Compute scores (B,): Σ W2 ReLU(W1 [histogram, bin by bin; CLS] + b1) + b2."""
        return self.compute_contributions(query, query_mask, document, document_mask).sum(1)

    def explain(
        self, query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor
    ) -> Explanation:
        """Break the score down by query subword, and one contribution of all padding."""
        [values] = self.compute_contributions(query, query_mask, document, document_mask)
        length = int(query_mask.sum())
        rows = [
            Row(values[position].item(), "query subword", query_position=position)
            for position in range(length)
        ]
        padding = Row(
            values[length:].sum().item(), f"{QUERY_LENGTH - length} empty query positions"
        )
        caveat = (
            "each position's contribution is a feed-forward network's output for its histograms "
            f"and [CLS]; {ENCODER_CAVEAT}"
        )
        score = self(query, query_mask, document, document_mask).item()
        return Explanation(score, [*rows, padding], caveat=caveat)

    def compute_contributions(
        self, query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor
    ) -> Tensor:
        pairs = self.encoder(query, query_mask, document, document_mask)
        similarity = cosine(pairs.query, pairs.document)  # (B, L, Q, D)
        match_mask = query_mask[:, None, :, None] & document_mask[:, None, None, :]
        # (B, L, Q, bins)
        histogram = build_histogram(similarity, match_mask, BINS, SMOOTHING, similarity.dtype)
        padding = QUERY_LENGTH - query.shape[1]  # padding positions have empty histograms
        # (B, L, 20, bins)
        histogram = functional.pad(histogram, (0, 0, 0, padding), value=log(SMOOTHING))
        cls = pairs.cls[:, -1:].expand(-1, QUERY_LENGTH, -1)  # (B, 20, E)
        features = torch.cat([histogram.permute(0, 2, 3, 1).flatten(2), cls], dim=2)
        return torch.squeeze(self.fc2(self.dropout(self.fc1(features).relu())), -1)
