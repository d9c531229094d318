"""The losses over lists of TF-Ranking, each the sum of weight · element divided by the number of weights that are not 0.

Pasumarthi et al.: TF-Ranking: Scalable TensorFlow Library for Learning-to-Rank. KDD 2019; as its estimators reduce them.
Favreau, Zouaq, Bhatnagar: Learning to Rank with BERT for Argument Quality Evaluation. FLAIRS 2022, table 2.

Shapes: B lists, n items of the longest. Labels (B, n): the larger the better, -1 is padding, whose scores do not matter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

LossName = Literal["mse", "hinge", "logistic", "softmax", "list_mle", "approx_ndcg"]
TEMPERATURE = 0.1  # of ApproxNDCG


@dataclass(frozen=True)
class Loss:
    """Elements, one an item, a pair of items or a list, and what each counts."""

    elements: Callable[[Tensor, Tensor], Tensor]  # of labels and scores; finite under padding
    weights: Callable[[Tensor], Tensor]  # of labels, in the elements' shape

    def __call__(self, labels: Tensor, scores: Tensor) -> Tensor:
        """The loss of lists, a scalar; 0 where nothing counts."""
        return self.total(labels, scores) / self.counted(labels)

    def total(self, labels: Tensor, scores: Tensor) -> Tensor:
        """Sum the weighted elements of lists, before the batch's loss is divided by `counted`."""
        return (self.weights(labels) * self.elements(labels, scores.masked_fill(labels < 0, 0))).sum()

    def counted(self, labels: Tensor) -> Tensor:
        """Count the non-zero weights of a batch, at least 1."""
        return self.weights(labels).count_nonzero().clamp(min=1)


def _each_item(labels: Tensor) -> Tensor:
    return labels >= 0


def _each_pair(labels: Tensor) -> Tensor:
    """Weight the pairs (B, n, n) whose first item is the better one."""
    return (labels.unsqueeze(2) > labels.unsqueeze(1)) & (labels >= 0).unsqueeze(1)


def _each_list(labels: Tensor) -> Tensor:
    return (labels >= 0).any(1)


def _each_graded_list(labels: Tensor) -> Tensor:
    return _sums(labels) > 0


def _sums(labels: Tensor) -> Tensor:
    """Sum the labels of each list, (B,)."""
    return labels.clamp(min=0).sum(1)


def _differences(scores: Tensor) -> Tensor:
    """Compute score differences (B, n, n), first item minus second."""
    return scores.unsqueeze(2) - scores.unsqueeze(1)


def _squares(labels: Tensor, scores: Tensor) -> Tensor:
    return (labels - scores).square()


def _hinges(labels: Tensor, scores: Tensor) -> Tensor:
    return functional.relu(1 - _differences(scores))


def _logistics(labels: Tensor, scores: Tensor) -> Tensor:
    return -functional.logsigmoid(_differences(scores))


def _margins(labels: Tensor, scores: Tensor) -> Tensor:
    return (_differences(labels) - _differences(scores)).square()


def _cross_entropies(labels: Tensor, scores: Tensor) -> Tensor:
    """Compute cross-entropies (B,) of the scores' softmax from the labels, normalised to a sum of 1."""
    outside, sums = labels < 0, _sums(labels)
    logarithms = scores.masked_fill(outside, torch.finfo(scores.dtype).min).log_softmax(1).masked_fill(outside, 0)
    return -(labels * logarithms).sum(1) / torch.where(sums > 0, sums, 1)


def _likelihoods(labels: Tensor, scores: Tensor) -> Tensor:
    """Compute negative log-likelihoods (B,) of drawing the items, each among those left, in the order of their labels.

    Items of one label are ordered at random, anew each time.
    """
    inside = labels >= 0
    drawn = torch.rand(labels.shape).to(labels.device)  # of the CPU's numbers: the same on a GPU
    worse, same = labels.unsqueeze(1) < labels.unsqueeze(2), labels.unsqueeze(1) == labels.unsqueeze(2)
    left = worse | (same & (drawn.unsqueeze(1) <= drawn.unsqueeze(2)))  # (B, n, n): the second item when the first is drawn
    left &= inside.unsqueeze(1) | ~inside.unsqueeze(2)  # padding is left for padding alone
    among = scores.unsqueeze(1).expand_as(left).masked_fill(~left, -torch.inf).logsumexp(2)
    return ((among - scores) * inside).sum(1)


def _approximate_ndcgs(labels: Tensor, scores: Tensor) -> Tensor:
    """Compute minus NDCG (B,) by smooth ranks: 1 plus a sigmoid per item that may come before (Qin, Liu, Li 2010)."""
    inside = labels >= 0
    before = torch.sigmoid(-_differences(scores) / TEMPERATURE) * inside.unsqueeze(1)  # (B, n, n)
    ranks = 0.5 + before.sum(2)  # half of the 1 is its own sigmoid
    largest = labels.amax(1, keepdim=True)  # taken out of the gains, so that they stay small
    gains = (2 ** (labels - largest) - 2**-largest) * inside
    ideal = _discounted(gains.sort(1, descending=True)[0], torch.arange(1, labels.shape[1] + 1).to(labels))
    return -_discounted(gains, ranks) / torch.where(ideal > 0, ideal, 1)


def _discounted(gains: Tensor, ranks: Tensor) -> Tensor:
    return (gains / torch.log1p(ranks)).sum(1)


LOSSES: dict[str, Loss] = {
    "mse": Loss(_squares, _each_item),
    "hinge": Loss(_hinges, _each_pair),
    "logistic": Loss(_logistics, _each_pair),
    "softmax": Loss(_cross_entropies, _sums),
    "list_mle": Loss(_likelihoods, _each_list),
    "approx_ndcg": Loss(_approximate_ndcgs, _each_graded_list),
}

# Not of TF-Ranking: that two documents are as far apart as a teacher has them (Hofstätter et al.: Improving Efficient Neural
# Ranking Models with Cross-Architecture Knowledge Distillation. 2020, eq. 4).
MARGIN_MSE = Loss(_margins, _each_pair)
