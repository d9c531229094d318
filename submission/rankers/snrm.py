"""SNRM: query and document each become a sparse vector of latent terms, and the score is their dot product.

Zamani, Dehghani, Croft, Learned-Miller, Kamps: From Neural Re-Ranking to Neural Ranking: Learning a Sparse Representation for
Inverted Indexing. CIKM 2018. Thesis 3.4.5: 5-grams, no hidden layer, no bias.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from submission.rankers.base import Explanation, LatentRanker, Part, best
from submission.rankers.layers import convolve, distinct, known

WINDOW = 5
BESIDE = WINDOW // 2  # words on either side of a window's middle
TEXTS_AT_A_TIME = 8  # texts computed at a time
TERMS_AT_A_TIME = 250  # latent terms computed at a time, but for training: what 12,000 words add to these takes 60 MB


class SNRM(LatentRanker):
    """The sum over a text's 5-grams of what a small network with ReLUs makes of each, in relation to their number."""

    stored_in_half = ("embedding.", "layers.")

    @dataclass(frozen=True)
    class Config:
        """Sizes; rows of the word table include padding and unknown.

        `hidden`: the layers of an hourglass, none by default. `padded`: as in the authors' code, each word is the middle of a
        window, and zeros lie beside the text; false: windows lie wholly inside it (thesis eq. 3.17). `length`: the power of the
        number of windows that divides their sum. 1: the mean, as in the thesis, which prefers short premises; 0: but for a
        constant, the authors' mean over as many positions for all texts, which prefers long ones.
        """

        vocabulary: int
        dimensions: int = 300
        latent: int = 2000
        hidden: tuple[int, ...] = ()
        padded: bool = False
        length: float = 1.0

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.embedding = nn.Embedding(config.vocabulary, config.dimensions, padding_idx=0)
        sizes = [config.dimensions, *config.hidden, config.latent]
        self.layers = nn.ModuleList(
            nn.Conv1d(size, next_size, 1 if depth else WINDOW, bias=False)
            for depth, (size, next_size) in enumerate(pairwise(sizes))
        )

    def represent(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Latent vectors (B, latent) of texts: the sum over windows, divided by a power of their number (thesis eq. 3.17).

        A text of fewer than 5 words is filled up with zeros to a single window unless it is padded; an empty one gives zero.
        """
        total = self.activations(ids, mask).sum(2)
        divided: Tensor = total / self._windows(mask).to(total.dtype) ** self.config.length
        return divided

    def represent_many(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Compute `represent` by a convolution that computes each distinct word once; gradients pass as through `represent`."""
        first, *others = self.layers.parameters()  # weights (C, E, 5) and (C, C, 1)
        words, place = distinct(self._framed(ids * known(ids, mask)), self.config.vocabulary)
        windows = self._windows(mask)  # (B, 1)
        vectors = self.embedding(words)
        inside = (torch.arange(place.shape[1] - WINDOW + 1, device=ids.device) < windows).to(vectors.dtype)  # (B, W)
        shares = inside / windows.to(vectors.dtype) ** self.config.length
        if not others:
            rows = place.unfold(1, WINDOW, 1) + torch.arange(WINDOW, device=ids.device) * len(vectors)  # (B, W, 5)
            totals, at_a_time = [], len(first) if torch.is_grad_enabled() else TERMS_AT_A_TIME
            for some in torch.split(first, at_a_time):
                added = torch.cat([vectors @ some[:, :, number].t() for number in range(WINDOW)])  # (5 · T, c)
                totals.append(_SumOfActivations.apply(added, rows, shares))  # type: ignore[no-untyped-call]
            return torch.cat(totals, dim=1)
        sums = []
        parts = torch.split(shares, TEXTS_AT_A_TIME)
        for grams, share in zip(convolve(vectors, place, first, TEXTS_AT_A_TIME), parts, strict=True):
            grams = grams.relu_()  # (b, W, ·)
            for weight in others:
                grams = (grams @ weight[:, :, 0].t()).relu_()
            sums.append((share.unsqueeze(1) @ grams).squeeze(1))  # (b, latent)
        return torch.cat(sums)

    def activations(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Compute the activations (B, latent, W) of each window, 0 for windows that reach past the text's end."""
        vectors = self.embedding(ids) * known(ids, mask).unsqueeze(-1)  # (B, L, E)
        grams = self._framed(vectors.transpose(1, 2))  # (B, E, ·)
        for layer in self.layers:
            grams = layer(grams).relu()  # (B, ·, W)
        inside = grams.new_ones(grams.shape[2]).cumsum(0) <= self._windows(mask)  # (B, W)
        return grams * inside.unsqueeze(1)

    def _framed(self, texts: Tensor) -> Tensor:
        """Pad the last axis of texts (…, L) with zeros: on either side if `padded`, else behind up to a whole window."""
        if self.config.padded:
            return functional.pad(texts, (BESIDE, BESIDE))
        return functional.pad(texts, (0, max(0, WINDOW - texts.shape[-1])))

    def _windows(self, mask: Tensor) -> Tensor:
        """Count the windows of each text, (B, 1); at least one."""
        words = mask.sum(1, keepdim=True)
        return (words if self.config.padded else words - WINDOW + 1).clamp(min=1)

    def explain(self, query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor) -> Explanation:
        """A sum over the latent terms that both have; positions: where the windows begin that say it most, or their middles."""
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


class _SumOfActivations(torch.autograd.Function):
    """The weighted sum over each text's windows of ReLUs of sums of rows, some texts at a time.

    Few activations are above 0, so that the gradient is added up over these alone: autograd would fill, for every few texts, a
    matrix as large as that of the words.
    """

    @staticmethod
    def forward(ctx: Any, added: Tensor, rows: Tensor, shares: Tensor) -> Tensor:
        """Compute sums (B, C).

        Args:
            ctx: keeps where activations are above 0.
            added: (R, C), what each word adds at each place of a window.
            rows: (B, W, h), the rows that are summed for each window.
            shares: (B, W), each window's weight in its text's sum; 0 behind the last one.
        """
        sums, active = [], []
        for part, share in _in_parts(rows, shares):
            grams = functional.embedding_bag(part.flatten(0, 1), added, mode="sum").relu_()  # (b · W, C)
            if ctx.needs_input_grad[0]:
                active.append(grams.nonzero())  # (N, 2)
            sums.append((share.unsqueeze(1) @ grams.view(*share.shape, -1)).squeeze(1))  # (b, C)
        ctx.active, ctx.size = active, added.shape
        ctx.save_for_backward(rows, shares)
        return torch.cat(sums)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        """Compute the gradient (R, C) of `added` from that of the sums (B, C)."""
        [gradient] = gradients
        result = gradient.new_zeros(ctx.size)
        parts = zip(_in_parts(*ctx.saved_tensors), torch.split(gradient, TEXTS_AT_A_TIME), ctx.active, strict=True)
        for (part, share), of_sums, active in parts:
            window, term = active.unbind(1)
            value = of_sums[window // share.shape[1], term] * share.flatten()[window]
            for row in part.flatten(0, 1).unbind(1):
                result.view(-1).index_add_(0, row[window] * result.shape[1] + term, value)
        return result, None, None


def _in_parts(rows: Tensor, shares: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Some texts' rows (b, W, h) and shares (b, W) at a time, cut to the longest of them: 0 is no share."""
    for part, share in zip(torch.split(rows, TEXTS_AT_A_TIME), torch.split(shares, TEXTS_AT_A_TIME), strict=True):
        longest = max(1, int((share > 0).sum(1).max()))
        yield part[:, :longest], share[:, :longest]
