"""DRMM: a feed-forward network over the histogram of each query term's similarities to document
terms.

Guo, Fan, Ai, Croft: A Deep Relevance Matching Model for Ad-hoc Retrieval. CIKM 2016. Entezari 2020,
3.4.2 and table 4.1: 1024 bins of log counts, layers 1024:256:5:1 with tanh, softmax gates.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import log

import torch
from torch import Tensor, nn
from torch.nn import functional

from aragorn.bounds import Positive, Rows, Share, Width
from aragorn.explanation import Explanation, Row
from aragorn.models.layers import (
    VOCABULARY_BATCH,
    FrozenEmbedding,
    build_histogram,
    compute_bins,
    cosine,
    get_known_mask,
)
from aragorn.models.network import TopicRanker, find_top_positions
from aragorn.text.tokenisers import PADDING_ID, UNKNOWN_ID

SIMILARITY_RANGES = (
    (0.999, 2, "exact"),
    (0.5, 0.999, "≥ 0.5"),
    (0.3, 0.5, "≥ 0.3"),
    (0, 0.3, "≥ 0"),
    (-1.1, 0, "< 0"),
)


class DRMM(TopicRanker):
    """A sum of the query terms' match scores, weighted by gates."""

    version = 1

    @dataclass(frozen=True)
    class Config:
        """Configuration of the network; `vocabulary` counts embedding rows.

        `smoothing` is c in ln(count + c). With 1, empty bins are 0. With CEDR's 1e-5, nearly all
        inputs would be -11.5, which saturates tanh and prevents learning.
        """

        vocabulary: Rows
        dimensions: Width = 300
        bins: Width = 1024
        smoothing: Positive = 1.0
        hidden: tuple[Width, Width] = (256, 5)
        dropout: Share = 0.2

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        units1, units2 = config.hidden
        self.embedding = FrozenEmbedding(config.vocabulary, config.dimensions)
        self.fc1 = nn.Linear(config.bins, units1)
        self.fc2 = nn.Linear(units1, units2)
        self.dropout = nn.Dropout(config.dropout)
        self.fc3 = nn.Linear(units2, 1)
        self.gate = nn.Linear(config.dimensions, 1, bias=False)

    def forward(
        self, query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor
    ) -> Tensor:
        """Compute scores (B,) in (-1, 1): Σ gate · match (Entezari 2020, eq. 3.7 and 3.6)."""
        gate, match, _ = self.compute_gates_and_matches(query, query_mask, document, document_mask)
        return (gate * match).sum(-1)

    def prepare_queries(
        self, queries: Tensor
    ) -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
        """Precompute the bin of each query term's similarity to each vocabulary word.

        A document of D words fills at most D bins, so the first layer sums only those bins' weight
        rows. Each document position contributes its bin's input, ln(count + c) - ln c, divided by
        the bin's count, so that a bin's positions add up to it.
        """
        n_bins = self.config.bins
        smoothing = self.config.smoothing
        weight = self.fc1.weight
        words = torch.unique(queries)
        batches = torch.split(
            torch.arange(self.config.vocabulary, device=words.device), VOCABULARY_BATCH
        )
        bins = torch.cat(
            [
                compute_bins(self.compute_similarity(words, batch), n_bins).int()
                for batch in batches
            ],
            dim=1,
        )  # (W, V)
        bins[:, [PADDING_ID, UNKNOWN_ID]] = n_bins  # in an extra bin of weight 0
        rows = functional.pad(weight.t(), (0, 0, 0, 1))  # (bins + 1, ·)
        # first-layer output of an empty histogram
        empty_output = self.fc1.bias + log(smoothing) * weight.sum(1)

        def score(
            query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor
        ) -> Tensor:
            ids = (document * document_mask).flatten()
            term_bins = [
                bins[row].index_select(0, ids)
                for row in torch.searchsorted(words, query[0]).tolist()
            ]
            index = torch.cat(term_bins).long().reshape(-1, document.shape[1])  # (Q · B, D)
            increments = rows.new_ones(1, 1).expand(index.shape)
            counts = (
                rows.new_zeros(len(index), n_bins + 1)
                .scatter_add_(1, index, increments)
                .gather(1, index)
            )
            weights = ((counts + smoothing).log() - log(smoothing)) / counts
            hidden = functional.embedding_bag(index, rows, mode="sum", per_sample_weights=weights)
            # (B, Q)
            match = self.compute_matches(hidden + empty_output).reshape(-1, len(document)).t()
            return (self.compute_gates(query, query_mask) * match).sum(-1)

        return score

    def compute_gates_and_matches(
        self, query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Compute gates (B, Q), match scores (B, Q) and similarities (B, Q, D)."""
        similarity = self.compute_similarity(query, document)
        is_known = get_known_mask(document, document_mask)[:, None]
        config = self.config
        histogram = build_histogram(
            similarity, is_known, config.bins, config.smoothing, self.fc1.weight.dtype
        )
        return (
            self.compute_gates(query, query_mask),
            self.compute_matches(self.fc1(histogram)),
            similarity,
        )

    def compute_similarity(self, query: Tensor, document: Tensor) -> Tensor:
        """Compute cosine similarities (…, Q, D) of words (…, Q) and (…, D) in float64.

        In float32, rounding depends on the machine, and could move a similarity across a bin edge.
        """
        return cosine(self.embedding(query).double(), self.embedding(document).double())

    def compute_matches(self, hidden: Tensor) -> Tensor:
        """Compute match scores (…) from the first layer's output (…, H), before its activation."""
        hidden = (2 * hidden).sigmoid() * 2 - 1  # tanh, twice as fast as torch.tanh
        return torch.squeeze(self.fc3(self.dropout(self.fc2(hidden).tanh())), -1).tanh()

    def compute_gates(self, query: Tensor, query_mask: Tensor) -> Tensor:
        """Compute gates (B, Q): a softmax over known words; 0 for unknown words and padding."""
        vectors = self.embedding(query)
        is_known = get_known_mask(query, query_mask)
        gate: Tensor = (
            self.gate(vectors)
            .squeeze(-1)
            .masked_fill(~is_known, torch.finfo(vectors.dtype).min)
            .softmax(-1)
        )
        return gate * is_known

    def explain(
        self, query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor
    ) -> Explanation:
        """Break the score down by query term; match scores are not sums over histogram bins."""
        (gate,), (match,), (similarity,) = self.compute_gates_and_matches(
            query, query_mask, document, document_mask
        )
        similarity = similarity.masked_fill(~get_known_mask(document, document_mask)[0], -torch.inf)
        rows = []
        for position in gate.nonzero().flatten().tolist():
            row = similarity[position]
            counts = [
                f"{int(((row >= low) & (row < high)).sum())} {label}"
                for low, high, label in SIMILARITY_RANGES
            ]
            note = (
                f"gate {gate[position]:.3f} × match {match[position]:+.3f}; similarities: "
                f"{', '.join(counts)}"
            )
            value = (gate[position] * match[position]).item()
            top_positions = find_top_positions(row, 0.3)
            rows.append(Row(value, "query term", note, position, top_positions))
        caveat = (
            "a term's match score is a feed-forward network's output for its histogram and not a "
            "sum over bins"
        )
        return Explanation(
            self(query, query_mask, document, document_mask).item(), rows, caveat=caveat
        )
