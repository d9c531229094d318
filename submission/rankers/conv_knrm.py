"""Conv-KNRM: KNRM over word n-grams of both sides that a convolution composes, every n-gram length against every other.

Dai, Xiong, Callan, Liu: Convolutional Neural Networks for Soft-Matching N-Grams in Ad-hoc Search. WSDM 2018. Thesis 3.4.4:
128 channels, windows of 1, 2 and 3 words, 21 kernels, one linear layer 189:1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from submission.rankers.base import Explanation, Part, TopicRanker
from submission.rankers.layers import KernelPooling, convolve, cosine, distinct, known

WINDOWS = (1, 2, 3)
DOCUMENTS_AT_A_TIME = 32  # documents of a topic computed at a time
PAIRINGS = (
    (1, 1),
    (1, 3),
    (1, 2),
    (2, 1),
    (3, 1),
    (2, 2),
    (2, 3),
    (3, 2),
    (3, 3),
)  # query, document; the authors' order


class ConvKNRM(TopicRanker):
    """Kernel pooling over cosines of n-grams."""

    @dataclass(frozen=True)
    class Config:
        """Sizes; rows of the word table include padding and unknown."""

        vocabulary: int
        dimensions: int = 300
        channels: int = 128
        kernels: int = 21
        dropout: float = 0.2

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.embedding = nn.Embedding(config.vocabulary, config.dimensions, padding_idx=0)
        self.convolutions = nn.ModuleList(nn.Conv1d(config.dimensions, config.channels, window) for window in WINDOWS)
        self.pooling = KernelPooling(config.kernels)
        self.dropout = nn.Dropout(config.dropout)
        self.linear = nn.Linear(len(PAIRINGS) * config.kernels, 1)

    def forward(self, query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor) -> Tensor:
        """Scores (B,) in (-1, 1): tanh(w · phi + b) over the kernel features phi of the nine pairings."""
        queries, documents = self.ngrams(query, query_mask), self.ngrams(document, document_mask)
        features = [
            self.pooling.pool(cosine(queries[q][0], documents[d][0]), queries[q][1], documents[d][1]) for q, d in PAIRINGS
        ]  # 9 of (B, K)
        return self.score(features)

    def prepare(self, queries: Tensor) -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
        """Queries share nothing; what the documents of one share, `of_topic` computes once."""
        return self.of_topic

    def of_topic(self, query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor) -> Tensor:
        """Scores (B,) of documents (B, D) for one query (1, Q): each distinct word is convolved once, all n-grams of the query
        lie side by side.
        """
        queries = self.ngrams(query, query_mask)
        ours = torch.cat([queries[window][0][0] for window in WINDOWS])  # (N, C)
        missing = max(0, WINDOWS[-1] - document.shape[1])
        counted = functional.pad(known(document, document_mask), (0, missing))
        words, place = distinct(functional.pad(document, (0, missing)) * counted, self.config.vocabulary)
        vectors = self.embedding(words)
        sizes = [queries[window][0].shape[1] for window in WINDOWS]
        matches = {}
        for window, convolution in zip(WINDOWS, self.convolutions, strict=True):
            weight, bias = convolution.parameters()
            masks = torch.split(counted.unfold(1, window, 1).all(-1), DOCUMENTS_AT_A_TIME)
            counts = [
                self.pooling(cosine(ours, (part + bias).relu() + 1e-9), mask)
                for part, mask in zip(convolve(vectors, place, weight, DOCUMENTS_AT_A_TIME), masks, strict=True)
            ]
            matches[window] = dict(zip(WINDOWS, torch.split(torch.cat(counts), sizes, dim=1), strict=True))  # (B, Q, K) each
        return self.score([self.pooling.logs(matches[d][q], queries[q][1]).sum(1) for q, d in PAIRINGS])

    def score(self, features: list[Tensor]) -> Tensor:
        """Compute scores (B,) from the features (B, K) of the nine pairings."""
        score: Tensor = self.linear(self.dropout(torch.cat(features, dim=1)))  # (B, 1)
        return score.squeeze(-1).tanh()

    def explain(self, query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor) -> Explanation:
        """Tanh of a sum over pairings, kernels and query n-grams, and a bias; positions are those of an n-gram's first word."""
        queries, documents = self.ngrams(query, query_mask), self.ngrams(document, document_mask)
        parts = [Part("bias", self.linear.bias.item())]
        for (q, d), weights in zip(PAIRINGS, self.linear.weight[0].chunk(len(PAIRINGS)), strict=True):
            similarity = cosine(queries[q][0], documents[d][0])
            name = f"{q} × {d} words, similarity"
            parts += self.pooling.explain(similarity, queries[q][1], documents[d][1], weights, name)
        return Explanation(parts, Tensor.tanh)

    def ngrams(self, ids: Tensor, mask: Tensor) -> dict[int, tuple[Tensor, Tensor]]:
        """Per window h the n-grams' vectors (B, L-h+1, C) and their mask: true where all h words are in the text and known."""
        missing = max(0, WINDOWS[-1] - ids.shape[1])
        ids, counted = functional.pad(ids, (0, missing)), functional.pad(known(ids, mask), (0, missing))
        vectors = self.embedding(ids).transpose(1, 2)  # (B, E, L)
        result = {}
        for window, convolution in zip(WINDOWS, self.convolutions, strict=True):
            # 1e-9: a position where no channel fires is a uniform vector, not zero (the authors' code).
            grams = convolution(vectors).relu().transpose(1, 2) + 1e-9
            result[window] = grams, counted.unfold(1, window, 1).all(-1)
        return result
