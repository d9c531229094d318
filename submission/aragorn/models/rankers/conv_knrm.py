"""Conv-KNRM: kernel pooling over the similarities of convolutional n-gram embeddings, for all pairs
of n-gram lengths.

Dai, Xiong, Callan, Liu: Convolutional Neural Networks for Soft-Matching N-Grams in Ad-hoc Search.
WSDM 2018. Entezari 2020, 3.4.3.2 and table 4.1: 128 channels, windows of 1, 2 and 3 words, 21
kernels, one linear layer 189:1.
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
    KernelPooling,
    convolve_unique,
    cosine,
    find_unique_tokens,
    get_known_mask,
)
from aragorn.models.network import TopicRanker

WINDOWS = (1, 2, 3)
DOCUMENT_BATCH = 32  # documents per batch
# n-gram lengths of query and document, in the authors' order
NGRAM_PAIRS = ((1, 1), (1, 3), (1, 2), (2, 1), (3, 1), (2, 2), (2, 3), (3, 2), (3, 3))


class ConvKNRM(TopicRanker):
    """Kernel pooling over cosine similarities of n-grams."""

    version = 1

    @dataclass(frozen=True)
    class Config:
        """Configuration of the network; `vocabulary` counts embedding rows."""

        vocabulary: Rows
        dimensions: Width = 300
        channels: Width = 128
        kernels: KernelCount = 21
        dropout: Share = 0.2

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.embedding = nn.Embedding(config.vocabulary, config.dimensions, padding_idx=0)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(config.dimensions, config.channels, window) for window in WINDOWS
        )
        self.pooling = KernelPooling(config.kernels)
        self.dropout = nn.Dropout(config.dropout)
        self.linear = nn.Linear(len(NGRAM_PAIRS) * config.kernels, 1)

    def forward(
        self, query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor
    ) -> Tensor:
        """Compute scores (B,) in (-1, 1): tanh(w · phi + b) of n-gram pairs' kernel features."""
        queries = self.compute_ngrams(query, query_mask)
        documents = self.compute_ngrams(document, document_mask)
        return self.score_features(
            [
                self.pooling.pool(
                    cosine(queries[q][0], documents[d][0]), queries[q][1], documents[d][1]
                )
                for q, d in NGRAM_PAIRS
            ]
        )

    def prepare_queries(
        self, queries: Tensor
    ) -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
        """Return `score_topic`; nothing is shared between queries."""
        return self.score_topic

    def score_topic(
        self, query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor
    ) -> Tensor:
        """Compute the scores (B,) of documents (B, D) for a query (1, Q), each word once."""
        queries = self.compute_ngrams(query, query_mask)
        query_ngrams = torch.cat([queries[window][0][0] for window in WINDOWS])  # (N, C)
        padding = max(0, WINDOWS[-1] - document.shape[1])
        is_known = functional.pad(get_known_mask(document, document_mask), (0, padding))
        token_ids, index = find_unique_tokens(
            functional.pad(document, (0, padding)) * is_known, self.config.vocabulary
        )
        vectors = self.embedding(token_ids)
        sizes = [queries[window][0].shape[1] for window in WINDOWS]
        matches = {}
        for window, convolution in zip(WINDOWS, self.convolutions, strict=True):
            weight, bias = convolution.parameters()
            masks = torch.split(is_known.unfold(1, window, 1).all(-1), DOCUMENT_BATCH)
            counts = [
                self.pooling(cosine(query_ngrams, (batch + bias).relu() + 1e-9), mask)
                for batch, mask in zip(
                    convolve_unique(vectors, index, weight, DOCUMENT_BATCH), masks, strict=True
                )
            ]
            # (B, Q, K) each
            matches[window] = dict(
                zip(WINDOWS, torch.split(torch.cat(counts), sizes, dim=1), strict=True)
            )
        return self.score_features(
            [
                self.pooling.compute_features(matches[d][q], queries[q][1]).sum(1)
                for q, d in NGRAM_PAIRS
            ]
        )

    def score_features(self, features: list[Tensor]) -> Tensor:
        """Compute the scores (B,) from the features (B, K) of the pairs of n-gram lengths."""
        return torch.squeeze(self.linear(self.dropout(torch.cat(features, dim=1))), -1).tanh()

    def explain(
        self, query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor
    ) -> Explanation:
        """Break the score before tanh down by n-gram lengths, kernel, query n-gram; plus bias."""
        queries = self.compute_ngrams(query, query_mask)
        documents = self.compute_ngrams(document, document_mask)
        rows = [Row(self.linear.bias.item(), "bias")]
        for (q, d), weights in zip(
            NGRAM_PAIRS, self.linear.weight[0].chunk(len(NGRAM_PAIRS)), strict=True
        ):
            similarity = cosine(queries[q][0], documents[d][0])
            name = f"{q}-gram × {d}-gram, similarity"
            rows += self.pooling.explain(similarity, queries[q][1], documents[d][1], weights, name)
        score = self(query, query_mask, document, document_mask).item()
        return Explanation(score, rows, activation=math.tanh)

    def compute_ngrams(self, ids: Tensor, mask: Tensor) -> dict[int, tuple[Tensor, Tensor]]:
        """Compute, by window h, n-gram vectors (B, L - h + 1, C) and mask (B, L - h + 1)."""
        padding = max(0, WINDOWS[-1] - ids.shape[1])
        is_known = functional.pad(get_known_mask(ids, mask), (0, padding))
        ids = functional.pad(ids, (0, padding))
        vectors = self.embedding(ids).transpose(1, 2)  # (B, E, L)
        ngrams_by_window = {}
        for window, convolution in zip(WINDOWS, self.convolutions, strict=True):
            # As in the authors' code, 1e-9 prevents zero vectors if no channel is active.
            ngrams = convolution(vectors).relu().transpose(1, 2) + 1e-9
            ngrams_by_window[window] = ngrams, is_known.unfold(1, window, 1).all(-1)
        return ngrams_by_window
