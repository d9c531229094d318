"""Define the listwise losses of TF-Ranking.

As in the estimators of TF-Ranking, a loss is the weighted sum of its terms divided by the number of
non-zero weights.

Pasumarthi et al.: TF-Ranking: Scalable TensorFlow Library for Learning-to-Rank. KDD 2019.
Favreau, Zouaq, Bhatnagar: Learning to Rank with BERT for Argument Quality Evaluation. FLAIRS 2022,
table 2.

Shapes: B lists of up to n items. Labels (B, n): higher is better; -1 is padding.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

LossName = Literal["pointwise", "mse", "hinge", "logistic", "softmax", "list_mle", "approx_ndcg"]
APPROX_NDCG_TEMPERATURE = 0.1


@dataclass(frozen=True)
class ListwiseLoss:
    """A listwise loss, defined by its terms (per item, pair or list) and their weights."""

    # f(labels, scores); must be finite for padding
    compute_terms: Callable[[Tensor, Tensor], Tensor]
    compute_weights: Callable[[Tensor], Tensor]  # f(labels), shaped like the loss terms

    def __call__(self, labels: Tensor, scores: Tensor) -> Tensor:
        """Return the loss of the lists, a scalar; 0 if all weights are zero."""
        return self.sum_terms(labels, scores) / self.count_weights(labels)

    def sum_terms(self, labels: Tensor, scores: Tensor) -> Tensor:
        """Return the weighted sum of terms, to be divided by `count_weights` of the batch."""
        return (
            self.compute_weights(labels)
            * self.compute_terms(labels, scores.masked_fill(labels < 0, 0))
        ).sum()

    def count_weights(self, labels: Tensor) -> Tensor:
        """Return the number of non-zero weights of a batch, at least 1."""
        return self.compute_weights(labels).count_nonzero().clamp(min=1)


def _is_preference(labels: Tensor) -> Tensor:
    """Return a mask (B, n, n) of the pairs of items whose first item has the higher label."""
    return (labels.unsqueeze(2) > labels.unsqueeze(1)) & (labels >= 0).unsqueeze(1)


def _sum_labels(labels: Tensor) -> Tensor:
    """Return the sum of each list's labels (B,), without padding."""
    return labels.clamp(min=0).sum(1)


def _pairwise_differences(scores: Tensor) -> Tensor:
    """Compute differences (B, n, n) of scores or labels in each list, first minus second."""
    return scores.unsqueeze(2) - scores.unsqueeze(1)


def _pairwise_hinge(labels: Tensor, scores: Tensor) -> Tensor:
    return functional.relu(1 - _pairwise_differences(scores))


def _pairwise_logistic(labels: Tensor, scores: Tensor) -> Tensor:
    return -functional.logsigmoid(_pairwise_differences(scores))


def _squared_margin_error(labels: Tensor, scores: Tensor) -> Tensor:
    return (_pairwise_differences(labels) - _pairwise_differences(scores)).square()


def _softmax_cross_entropy(labels: Tensor, scores: Tensor) -> Tensor:
    """Compute cross-entropies (B,) of labels, normalised to sum 1, and softmax of scores."""
    is_padding = labels < 0
    sums = _sum_labels(labels)
    log_probabilities = (
        scores.masked_fill(is_padding, torch.finfo(scores.dtype).min)
        .log_softmax(1)
        .masked_fill(is_padding, 0)
    )
    return -(labels * log_probabilities).sum(1) / torch.where(sums > 0, sums, 1)


def _list_mle(labels: Tensor, scores: Tensor) -> Tensor:
    """Compute Plackett-Luce negative log-likelihoods (B,) of the labels, ties at random."""
    is_item = labels >= 0
    # sampled on the CPU, to be the same with a GPU
    tie_breaks = torch.rand(labels.shape).to(labels.device)
    is_worse = labels.unsqueeze(1) < labels.unsqueeze(2)
    is_tied = labels.unsqueeze(1) == labels.unsqueeze(2)
    # (B, n, n): whether the second item remains when the first is selected
    is_remaining = is_worse | (is_tied & (tie_breaks.unsqueeze(1) <= tie_breaks.unsqueeze(2)))
    is_remaining &= is_item.unsqueeze(1) | ~is_item.unsqueeze(2)  # padding remains for padding only
    log_normaliser = (
        scores.unsqueeze(1)
        .expand_as(is_remaining)
        .masked_fill(~is_remaining, -torch.inf)
        .logsumexp(2)
    )
    return ((log_normaliser - scores) * is_item).sum(1)


def _approx_ndcg(labels: Tensor, scores: Tensor) -> Tensor:
    """Compute negative ApproxNDCG (B,) (Qin, Liu, Li 2010)."""
    is_item = labels >= 0
    differences = _pairwise_differences(scores) / APPROX_NDCG_TEMPERATURE
    soft_precedence = torch.sigmoid(-differences) * is_item.unsqueeze(1)  # (B, n, n)
    ranks = 0.5 + soft_precedence.sum(2)  # an item's own sigmoid is 1/2
    max_label = labels.amax(1, keepdim=True)  # factored out to keep gains small
    gains = (2 ** (labels - max_label) - 2**-max_label) * is_item
    ideal = _dcg(gains.sort(1, descending=True)[0], torch.arange(1, labels.shape[1] + 1).to(labels))
    return -_dcg(gains, ranks) / torch.where(ideal > 0, ideal, 1)


def _dcg(gains: Tensor, ranks: Tensor) -> Tensor:
    return (gains / torch.log1p(ranks)).sum(1)


_SQUARED_ERROR = ListwiseLoss(
    lambda labels, scores: (labels - scores).square(), lambda labels: labels >= 0
)

LOSSES: dict[str, ListwiseLoss] = {
    # of scores instead of ranks, see `build_ranked_lists`; not in TF-Ranking
    "pointwise": _SQUARED_ERROR,
    "mse": _SQUARED_ERROR,
    "hinge": ListwiseLoss(_pairwise_hinge, _is_preference),
    "logistic": ListwiseLoss(_pairwise_logistic, _is_preference),
    "softmax": ListwiseLoss(_softmax_cross_entropy, _sum_labels),
    "list_mle": ListwiseLoss(_list_mle, lambda labels: (labels >= 0).any(1)),
    "approx_ndcg": ListwiseLoss(_approx_ndcg, lambda labels: _sum_labels(labels) > 0),
}

# MarginMSE (Hofstätter et al. 2020, eq. 4); not in TF-Ranking.
MARGIN_MSE = ListwiseLoss(_squared_margin_error, _is_preference)
