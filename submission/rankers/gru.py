"""GRU: a siamese recurrent network that reads query and document apart and scores their concatenated means.

Chung, Gulcehre, Cho, Bengio: Empirical Evaluation of Gated Recurrent Neural Networks on Sequence Modeling. 2014. Thesis
3.4.1: bidirectional, 512 units, one linear layer 2048:1.

The score is a sum of a document part and a query part, so a topic cannot change the order of documents. That is the thesis'
network; it explains its low validation scores.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from submission.rankers.base import Explanation, Part, SiameseRanker
from submission.rankers.layers import known, read_both_ways


class GRU(SiameseRanker):
    """Means of a shared bidirectional GRU's states, one linear layer."""

    stored_in_half = ("embedding.", "ahead.", "back.")

    @dataclass(frozen=True)
    class Config:
        """Sizes; rows of the word table include padding and unknown."""

        vocabulary: int
        dimensions: int = 300
        hidden: int = 512
        dropout: float = 0.5

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.embedding = nn.Embedding(config.vocabulary, config.dimensions, padding_idx=0)
        self.ahead, self.back = (nn.GRU(config.dimensions, config.hidden, batch_first=True) for _ in range(2))
        self.dropout = nn.Dropout(config.dropout)
        self.linear = nn.Linear(4 * config.hidden, 1)

    def match(self, query: Tensor, document: Tensor) -> Tensor:
        """Scores (B,): w · [document; query] + b."""
        score: Tensor = self.linear(self.dropout(torch.cat([document, query], dim=1)))  # (B, 1)
        return score.squeeze(-1)

    def explain(self, query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor) -> Explanation:
        """The document's part, the query's part, a bias."""
        document_weights, query_weights = self.linear.weight[0].chunk(2)
        parts = [
            Part("document", (self.represent(document, document_mask)[0] @ document_weights).item()),
            Part("query", (self.represent(query, query_mask)[0] @ query_weights).item()),
            Part("bias", self.linear.bias.item()),
        ]
        return Explanation(parts, remark="neither part depends on the other: a topic does not change the order of documents")

    def represent(self, ids: Tensor, mask: Tensor) -> Tensor:
        """The mean state (B, 2H) over a text's known words; zero for a text without any."""
        counted = known(ids, mask)  # (B, L)
        vectors = functional.normalize(self.embedding(ids), dim=-1, eps=1e-12) * counted.unsqueeze(-1)  # (B, L, E)
        ahead, back, mirrored = read_both_ways(self.ahead, self.back, vectors, mask)  # (B, L, H)
        total = (ahead * counted.unsqueeze(-1)).sum(1), (back * (counted.gather(1, mirrored) & mask).unsqueeze(-1)).sum(1)
        return torch.cat(total, dim=1) / counted.sum(1, keepdim=True).clamp(min=1)
