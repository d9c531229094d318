"""SNRM: query and document each become a sparse vector of latent terms, and the score is their dot product.

Zamani, Dehghani, Croft, Learned-Miller, Kamps: From Neural Re-Ranking to Neural Ranking: Learning a Sparse Representation for
Inverted Indexing. CIKM 2018. Thesis 3.4.5: 5-grams, no hidden layer, no bias.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from submission.rankers.base import Explanation, LatentRanker, Part, best
from submission.rankers.layers import convolve, distinct, known

WINDOW = 5
TEXTS_AT_A_TIME = 8  # texts computed at a time


class SNRM(LatentRanker):
    """The mean over a text's 5-grams of what a small network with ReLUs makes of each."""

    stored_in_half = ("embedding.", "layers.")

    @dataclass(frozen=True)
    class Config:
        """Sizes; rows of the word table include padding and unknown. `hidden`: the layers of an hourglass, none by default."""

        vocabulary: int
        dimensions: int = 300
        latent: int = 2000
        hidden: tuple[int, ...] = ()

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.embedding = nn.Embedding(config.vocabulary, config.dimensions, padding_idx=0)
        sizes = [config.dimensions, *config.hidden, config.latent]
        self.layers = nn.ModuleList(
            nn.Conv1d(size, next_size, 1 if depth else WINDOW, bias=False)
            for depth, (size, next_size) in enumerate(pairwise(sizes))
        )

    def represent(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Latent vectors (B, latent) of texts (thesis eq. 3.17).

        Windows lie wholly inside the text; one of fewer than 5 words is filled up with zeros; an empty one gives zero.
        """
        return self.activations(ids, mask).sum(2) / _windows(mask)

    def represent_many(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Compute `represent` by a convolution that computes each distinct word once."""
        first, *others = self.layers.parameters()  # weights (C, E, 5) and (C, C, 1)
        missing = max(0, WINDOW - ids.shape[1])
        words, place = distinct(functional.pad(ids * known(ids, mask), (0, missing)), self.config.vocabulary)
        windows = _windows(mask)  # (B, 1)
        shares = (torch.arange(place.shape[1] - WINDOW + 1, device=ids.device) < windows) / windows  # (B, W)
        means = []
        for grams, share in zip(
            convolve(self.embedding(words), place, first, TEXTS_AT_A_TIME), torch.split(shares, TEXTS_AT_A_TIME), strict=True
        ):
            grams = grams.relu_()  # (b, W, ·)
            for weight in others:
                grams = (grams @ weight[:, :, 0].t()).relu_()
            means.append((share.to(grams.dtype).unsqueeze(1) @ grams).squeeze(1))  # (b, latent)
        return torch.cat(means)

    def activations(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Compute the activations (B, latent, W) of each window, 0 for windows that reach past the text's end."""
        vectors = self.embedding(ids) * known(ids, mask).unsqueeze(-1)  # (B, L, E)
        grams = functional.pad(vectors.transpose(1, 2), (0, max(0, WINDOW - ids.shape[1])))  # (B, E, L)
        for layer in self.layers:
            grams = layer(grams).relu()  # (B, ·, W)
        inside = grams.new_ones(grams.shape[2]).cumsum(0) <= _windows(mask)  # (B, W)
        return grams * inside.unsqueeze(1)

    def explain(self, query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor) -> Explanation:
        """A sum over the latent terms that both have; positions: where the windows begin that say it most."""
        ours, theirs = self.represent(query, query_mask)[0], self.represent(document, document_mask)[0]  # (latent,)
        ours_by_window = self.activations(query, query_mask)[0]  # (latent, W)
        theirs_by_window = self.activations(document, document_mask)[0]
        parts = [
            Part(
                f"latent term {term}", (ours[term] * theirs[term]).item(), int(ours_by_window[term].argmax()),
                best(theirs_by_window[term], 0.0), f"query {ours[term]:.4f} × document {theirs[term]:.4f}",
            )
            for term in (ours * theirs).nonzero().flatten().tolist()
        ]  # fmt: skip
        return Explanation(parts)


def _windows(mask: Tensor) -> Tensor:
    """Count the windows of each text, (B, 1); at least one."""
    return (mask.sum(1, keepdim=True) - WINDOW + 1).clamp(min=1)
