"""DRMM: how many document words are how similar to each query word, as a histogram that a small network reads.

Guo, Fan, Ai, Croft: A Deep Relevance Matching Model for Ad-hoc Retrieval. CIKM 2016. Thesis 3.4.2: 1024 bins of log counts,
layers 1024:256:5:1 with tanh, softmax gates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log

import torch
from torch import Tensor, nn
from torch.nn import functional

from submission.rankers.base import Explanation, Part, TopicRanker, best
from submission.rankers.layers import WORDS_AT_A_TIME, FrozenTable, bins_of, cosine, known, log_histogram
from submission.text.ids import PADDING, UNKNOWN

RANGES = ((0.999, 2, "exact"), (0.5, 0.999, "from .5"), (0.3, 0.5, "from .3"), (0, 0.3, "from 0"), (-1.1, 0, "below"))


class DRMM(TopicRanker):
    """A gated sum over query words of what a network makes of their matching histograms."""

    @dataclass(frozen=True)
    class Config:
        """Sizes; rows of the word table include padding and unknown.

        `smoothing` is c in ln(count + c). With 1, empty bins are 0; CEDR's 1e-5 makes nearly all of 1024 inputs -11.5, which
        saturates the tanh, and the network does not learn.
        """

        vocabulary: int
        dimensions: int = 300
        bins: int = 1024
        smoothing: float = 1.0
        hidden: tuple[int, int] = (256, 5)
        dropout: float = 0.2

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        first, second = config.hidden
        self.embedding = FrozenTable(config.vocabulary, config.dimensions)
        self.first = nn.Linear(config.bins, first)
        self.second = nn.Linear(first, second)
        self.dropout = nn.Dropout(config.dropout)
        self.third = nn.Linear(second, 1)
        self.gate = nn.Linear(config.dimensions, 1, bias=False)

    def forward(self, query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor) -> Tensor:
        """Scores (B,) in (-1, 1): the sum over query words of gate (eq. 3.7) times match (eq. 3.6)."""
        gate, match, _ = self.shares(query, query_mask, document, document_mask)
        return (gate * match).sum(-1)

    def prepare(self, queries: Tensor) -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
        """The bins of the queries' words and all others are found by one product, and looked up for each document.

        A histogram of 1024 bins has at most D that are not empty, so the first layer adds up the rows of those, instead of
        multiplying with all. A position weighs ln(count + c) - ln c of its bin, shared among the count positions there.
        """
        size, smoothing, weights = self.config.bins, self.config.smoothing, self.first.weight
        words = torch.unique(queries)
        parts = torch.split(torch.arange(self.config.vocabulary, device=words.device), WORDS_AT_A_TIME)
        bins = torch.cat([bins_of(self.similarity(words, part), size).int() for part in parts], dim=1)  # (W, vocabulary)
        bins[:, [PADDING, UNKNOWN]] = size  # these count in a bin of their own, which weighs nothing
        rows = functional.pad(weights.t(), (0, 0, 0, 1))  # (size + 1, ·)
        empty = self.first.bias + log(smoothing) * weights.sum(1)  # what a histogram without any count gives

        def scores(query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor) -> Tensor:
            ids = (document * document_mask).flatten()
            found = [bins[number].index_select(0, ids) for number in torch.searchsorted(words, query[0]).tolist()]
            at = torch.cat(found).long().reshape(-1, document.shape[1])  # (Q · B, D)
            counts = rows.new_zeros(len(at), size + 1).scatter_add_(1, at, rows.new_ones(1, 1).expand(at.shape)).gather(1, at)
            shares = ((counts + smoothing).log() - log(smoothing)) / counts
            hidden = functional.embedding_bag(at, rows, mode="sum", per_sample_weights=shares)
            match = self.matches(hidden + empty).reshape(-1, len(document)).t()  # (B, Q)
            return (self.gates(query, query_mask) * match).sum(-1)

        return scores

    def shares(
        self, query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Gates (B, Q), zero where no query word is, matches (B, Q), and the similarities (B, Q, D) that were counted."""
        similarity = self.similarity(query, document)
        counted, config = known(document, document_mask)[:, None], self.config
        histogram = log_histogram(similarity, counted, config.bins, config.smoothing, self.first.weight.dtype)
        return self.gates(query, query_mask), self.matches(self.first(histogram)), similarity

    def similarity(self, query: Tensor, document: Tensor) -> Tensor:
        """Cosines (…, Q, D) of words (…, Q) and (…, D), in float64.

        In float32 the last digits depend on what else is in the product, and with them the bin of a word near a bin's edge:
        the score of a pair would depend on its batch and on the machine.
        """
        return cosine(self.embedding(query).double(), self.embedding(document).double())

    def matches(self, hidden: Tensor) -> Tensor:
        """Matches (…) from what the first layer gives (…, ·)."""
        hidden = (2 * hidden).sigmoid() * 2 - 1  # tanh, in twice its speed
        match: Tensor = self.second(hidden).tanh()
        match = self.third(self.dropout(match)).squeeze(-1)
        return match.tanh()

    def gates(self, query: Tensor, query_mask: Tensor) -> Tensor:
        """The gates (B, Q) of query words."""
        words, counted = self.embedding(query), known(query, query_mask)
        gate: Tensor = self.gate(words).squeeze(-1).masked_fill(~counted, torch.finfo(words.dtype).min).softmax(-1)
        return gate * counted

    def explain(self, query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor) -> Explanation:
        """A sum over query words; how a word's match comes from its histogram is not additive."""
        gate, match, similarity = (values[0] for values in self.shares(query, query_mask, document, document_mask))
        similarity = similarity.masked_fill(~known(document, document_mask)[0], -torch.inf)
        parts = []
        for place in gate.nonzero().flatten().tolist():
            row = similarity[place]
            counts = [f"{int(((row >= low) & (row < high)).sum())} {words}" for low, high, words in RANGES]
            note = f"gate {gate[place]:.3f} × match {match[place]:+.3f}; similarities: {', '.join(counts)}"
            parts.append(Part("word", (gate[place] * match[place]).item(), place, best(row, 0.3), note))
        return Explanation(
            parts, remark="a word's match is a network's reading of its whole histogram: not a sum over its bins"
        )
