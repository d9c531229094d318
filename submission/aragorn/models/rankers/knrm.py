"""KNRM: kernel pooling over the similarities of query and document terms.

Xiong, Dai, Callan, Liu, Power: End-to-End Neural Ad-hoc Ranking with Kernel Pooling. SIGIR 2017.
Entezari 2020, 3.4.3.1 and table 4.1: 21 kernels, one linear layer, no idf.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from aragorn.bounds import KernelCount, Rows, Share, Width
from aragorn.explanation import Explanation, Row
from aragorn.models.layers import (
    VOCABULARY_BATCH,
    KernelPooling,
    cosine,
    find_unique_tokens,
    get_known_mask,
)
from aragorn.models.network import TopicRanker


class KNRM(TopicRanker):
    """Kernel pooling over cosine similarities of trained word embeddings."""

    version = 1

    @dataclass(frozen=True)
    class Config:
        """Configuration of the network; `vocabulary` counts embedding rows."""

        vocabulary: Rows
        dimensions: Width = 300
        kernels: KernelCount = 21
        dropout: Share = 0.2

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.embedding = nn.Embedding(config.vocabulary, config.dimensions, padding_idx=0)
        self.pooling = KernelPooling(config.kernels)
        self.dropout = nn.Dropout(config.dropout)
        self.linear = nn.Linear(config.kernels, 1)

    def forward(
        self, query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor
    ) -> Tensor:
        """Compute scores (B,) of pairs, in (-1, 1): tanh(w · phi + b) of kernel features phi."""
        similarity = cosine(self.embedding(query), self.embedding(document))  # (B, Q, D)
        masks = get_known_mask(query, query_mask), get_known_mask(document, document_mask)
        return self.score_features(self.pooling.pool(similarity, *masks))

    def prepare_queries(
        self, queries: Tensor
    ) -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
        """Precompute the similarity of each query word to each vocabulary word.

        Kernel values are computed once per distinct word of a batch, and summed over each document.
        """
        words = torch.unique(queries)
        vectors = self.embedding(words)
        batches = torch.split(self.embedding.weight, VOCABULARY_BATCH)
        # (W, vocabulary)
        similarity = torch.cat([cosine(vectors, batch) for batch in batches], dim=1)

        def score(
            query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor
        ) -> Tensor:
            terms, index = find_unique_tokens(
                document * get_known_mask(document, document_mask), self.config.vocabulary
            )
            # (Q, T)
            rows = similarity.index_select(0, torch.searchsorted(words, query[0])).index_select(
                1, terms
            )
            # (T, Q, K), contiguous for each word
            kernels = self.pooling.compute_kernel_values(rows.t().contiguous())
            kernels[0] = 0  # padding
            matches = functional.embedding_bag(index, kernels.flatten(1), mode="sum").reshape(
                -1, *kernels.shape[1:]
            )
            return self.score_features(
                self.pooling.compute_features(matches, get_known_mask(query, query_mask)).sum(1)
            )

        return score

    def score_features(self, features: Tensor) -> Tensor:
        """Compute the scores (B,) of pairs from features (B, K)."""
        return torch.squeeze(self.linear(self.dropout(features)), -1).tanh()

    def explain(
        self, query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor
    ) -> Explanation:
        """Break the score before tanh down by kernel and query term, plus bias."""
        similarity = cosine(self.embedding(query), self.embedding(document))  # (1, Q, D)
        masks = get_known_mask(query, query_mask), get_known_mask(document, document_mask)
        rows = self.pooling.explain(similarity, *masks, self.linear.weight[0], "similarity")
        rows.append(Row(self.linear.bias.item(), "bias"))
        score = self(query, query_mask, document, document_mask).item()
        return Explanation(score, rows, activation=math.tanh)
