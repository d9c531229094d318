"""GRU: a siamese recurrent network that reads query and document apart and scores their concatenated means.

Chung, Gulcehre, Cho, Bengio: Empirical Evaluation of Gated Recurrent Neural Networks on Sequence Modeling. 2014. Thesis
3.4.1: bidirectional, 512 units, one linear layer 2048:1.

The thesis' score is a sum of a document part and a query part, so a topic cannot change the order of documents, which explains
its low validation scores. `interaction` adds features of both (InferSent. Conneau, Kiela, Schwenk, Barrault, Bordes: Supervised
Learning of Universal Sentence Representations from Natural Language Inference Data. 2017, section 3.1).
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
        """Sizes; rows of the word table include padding and unknown.

        `interaction`: the linear layer also reads |d - q| and d · q of the vectors d and q (Conneau et al. 2017, InferSent).
        Without it (the thesis) the score is a part of the document plus a part of the query: no topic changes an order.
        """

        vocabulary: int
        dimensions: int = 300
        hidden: int = 512
        dropout: float = 0.5
        interaction: bool = False

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.embedding = nn.Embedding(config.vocabulary, config.dimensions, padding_idx=0)
        self.ahead, self.back = (nn.GRU(config.dimensions, config.hidden, batch_first=True) for _ in range(2))
        self.dropout = nn.Dropout(config.dropout)
        self.linear = nn.Linear((8 if config.interaction else 4) * config.hidden, 1)
        if config.interaction:  # starts as a similarity; from a random start it overfits the pairs
            for weights, value in zip(self.linear.weight.data.chunk(4, dim=1), (0.0, 0.0, -1.0, 1.0), strict=True):
                weights.fill_(value)

    def match(self, query: Tensor, document: Tensor) -> Tensor:
        """Scores (B,): w · [document; query] + b, with `interaction` w · [document; query; |d - q|; d · q] + b."""
        score: Tensor = self.linear(self.dropout(torch.cat([*self._features(query, document).values()], dim=1)))  # (B, 1)
        return score.squeeze(-1)

    def explain(self, query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor) -> Explanation:
        """The document's part, the query's part, with `interaction` those of both together, a bias."""
        features = self._features(self.represent(query, query_mask), self.represent(document, document_mask))
        weights = self.linear.weight[0].chunk(len(features))
        parts = [Part(name, (own[0] @ weight).item()) for (name, own), weight in zip(features.items(), weights, strict=True)]
        alone = "neither part depends on the other: a topic does not change the order of documents"
        return Explanation([*parts, Part("bias", self.linear.bias.item())], remark="" if self.config.interaction else alone)

    def _features(self, query: Tensor, document: Tensor) -> dict[str, Tensor]:
        """Return the features that the linear layer reads, each (B, 2H), by name."""
        features = {"document": document, "query": query}
        if self.config.interaction:
            features |= {"difference": (document - query).abs(), "product": document * query}
        return features

    def represent(self, ids: Tensor, mask: Tensor) -> Tensor:
        """The mean state (B, 2H) over a text's known words; zero for a text without any."""
        counted = known(ids, mask)  # (B, L)
        vectors = functional.normalize(self.embedding(ids), dim=-1, eps=1e-12) * counted.unsqueeze(-1)  # (B, L, E)
        ahead, back, mirrored = read_both_ways(self.ahead, self.back, vectors, mask)  # (B, L, H)
        total = (ahead * counted.unsqueeze(-1)).sum(1), (back * (counted.gather(1, mirrored) & mask).unsqueeze(-1)).sum(1)
        return torch.cat(total, dim=1) / counted.sum(1, keepdim=True).clamp(min=1)
