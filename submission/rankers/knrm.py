"""KNRM: which similarities do the words of a query have to those of a document, softly counted by kernels.

Xiong, Dai, Callan, Liu, Power: End-to-End Neural Ad-hoc Ranking with Kernel Pooling. SIGIR 2017. Thesis 3.4.3: 21 kernels,
one linear layer, no idf.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from submission.rankers.base import Explanation, Part, TopicRanker
from submission.rankers.layers import WORDS_AT_A_TIME, KernelPooling, cosine, distinct, known


class KNRM(TopicRanker):
    """Kernel pooling over cosines of trained word vectors."""

    @dataclass(frozen=True)
    class Config:
        """Sizes; rows of the word table include padding and unknown."""

        vocabulary: int
        dimensions: int = 300
        kernels: int = 21
        dropout: float = 0.2

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.embedding = nn.Embedding(config.vocabulary, config.dimensions, padding_idx=0)
        self.pooling = KernelPooling(config.kernels)
        self.dropout = nn.Dropout(config.dropout)
        self.linear = nn.Linear(config.kernels, 1)

    def forward(self, query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor) -> Tensor:
        """Scores (B,) in (-1, 1): tanh(w · phi + b) over the kernel features phi."""
        similarity = cosine(self.embedding(query), self.embedding(document))  # (B, Q, D)
        features = self.pooling.pool(similarity, known(query, query_mask), known(document, document_mask))  # (B, K)
        return self.score(features)

    def prepare(self, queries: Tensor) -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
        """The similarities of the queries' words and all others are found by one product, and looked up.

        The kernels of each distinct word of a topic's documents are computed once, and added up by each document that has it.
        """
        words = torch.unique(queries)
        vectors, parts = self.embedding(words), torch.split(self.embedding.weight, WORDS_AT_A_TIME)
        similarity = torch.cat([cosine(vectors, part) for part in parts], dim=1)  # (W, vocabulary)

        def scores(query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor) -> Tensor:
            terms, place = distinct(document * known(document, document_mask), self.config.vocabulary)
            found = similarity.index_select(0, torch.searchsorted(words, query[0])).index_select(1, terms)  # (Q, T)
            kernels = self.pooling.values(found.t().contiguous())  # (T, Q, K), a word's together: they are added up as one row
            kernels[0] = 0  # padding
            matches = functional.embedding_bag(place, kernels.flatten(1), mode="sum")
            return self.score(self.pooling.logs(matches.reshape(-1, *kernels.shape[1:]), known(query, query_mask)).sum(1))

        return scores

    def score(self, features: Tensor) -> Tensor:
        """Compute scores (B,) from features (B, K)."""
        score: Tensor = self.linear(self.dropout(features))  # (B, 1)
        return score.squeeze(-1).tanh()

    def explain(self, query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor) -> Explanation:
        """Tanh of a sum over kernels and query words, and a bias."""
        similarity = cosine(self.embedding(query), self.embedding(document))  # (1, Q, D)
        masks = known(query, query_mask), known(document, document_mask)
        parts = self.pooling.explain(similarity, *masks, self.linear.weight[0], "similarity")
        return Explanation([*parts, Part("bias", self.linear.bias.item())], Tensor.tanh)
