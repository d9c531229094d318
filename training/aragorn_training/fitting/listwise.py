"""Train rankers on short lists of arguments, validated by the correlation of scores with labels on
held-out topics.

A topic is split into lists that are stratified by quality and labelled by rank, as in Favreau,
Zouaq, Bhatnagar: Learning to Rank with BERT for Argument Quality Evaluation. FLAIRS 2022. They
split a topic into 12 slices and take the i-th item of each, which leaves a remainder unstratified.
Here items are dealt to the lists in turn (see `stratify`), so all are stratified.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import pandas as pd
import torch
from scipy.stats import rankdata
from torch import Tensor
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from aragorn.inference.device import batch_by_length
from aragorn.inference.pair_scoring import TokenisedPairs, score_pairs
from aragorn.models.network import PaddedTexts, Ranker
from aragorn.text.tokenisers import Tokeniser
from aragorn_training.evaluation.similarity import average_correlations, group_rows_by_topic
from aragorn_training.fitting.task import CurveSpec, Task, check_scores
from aragorn_training.fitting.validation import use_evaluation_mode

LossName = Literal["pointwise", "mse", "hinge", "logistic", "softmax", "list_mle", "approx_ndcg"]
APPROX_NDCG_TEMPERATURE = 0.1


@dataclass(frozen=True)
class ListwiseLoss:
    """A listwise loss, defined by its terms (per item, pair or list) and their weights.

    As in the estimators of TF-Ranking (Pasumarthi et al., KDD 2019; Favreau et al. 2022, table 2),
    it is the weighted sum of the terms, divided by the number of non-zero weights. Labels (B, n)
    are those of B lists of up to n items: higher is better, -1 is padding.
    """

    # f(labels, scores); must be finite for padding
    compute_terms: Callable[[Tensor, Tensor], Tensor]
    compute_weights: Callable[[Tensor], Tensor]  # f(labels), shaped like the loss terms

    def __call__(self, labels: Tensor, scores: Tensor) -> Tensor:
        """Return the loss of the lists, a scalar; 0 if all weights are zero."""
        return self.sum_terms(labels, scores) / self.count_weights(labels)

    def sum_terms(self, labels: Tensor, scores: Tensor) -> Tensor:
        """Return the weighted sum of terms; divide it by `count_weights` of the batch."""
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


RankScope = Literal["list", "topic"]

LISTWISE_CURVE = CurveSpec(
    "listwise loss", ("Pearson", "Spearman", "Kendall"), "Spearman", "%, mean over topics", "topics"
)
LENGTH_BASELINE = "length in words"  # baseline that scores an argument by its length
PADDING = -1


@dataclass(frozen=True)
class TrainingLists:
    """N training lists of at most n labelled rows of a table; -1 is padding."""

    rows: np.ndarray  # (N, n) int64 row numbers
    labels: np.ndarray  # (N, n) float32


class ListwiseTask(Task[Ranker]):
    """Base of listwise tasks: lists of rows of `train`, and held-out topics (`validation`)."""

    def __init__(
        self,
        train: pd.DataFrame,
        lists: TrainingLists,
        loss: ListwiseLoss,
        validation: pd.DataFrame,
        tokeniser: Tokeniser,
        device: str,
    ) -> None:
        self._lists = lists
        self._loss = loss
        self._validation = validation
        self._device = device
        self._train_pairs = encode_pairs(train, tokeniser)
        self._validation_pairs = encode_pairs(validation, tokeniser)
        self.train_size = len(lists.rows)
        self.validation_size = len(validation[["data", "topic"]].drop_duplicates())

    def compute_loss(self, ranker: Ranker, micro_batch: np.ndarray, batch: np.ndarray) -> Tensor:
        """Return the micro-batch's share of the batch loss; items are batched by length."""
        labels, batch_labels = (
            torch.from_numpy(self._lists.labels[rows]).to(self._device)
            for rows in (micro_batch, batch)
        )
        items = self._lists.rows[micro_batch]
        item_rows = items[items >= 0]
        lengths = self._train_pairs.get_premise_lengths()[item_rows]
        item_batches = batch_by_length(lengths, items.shape[1])
        parts = [ranker(*self._collate_pairs(item_rows[positions])) for positions in item_batches]
        outputs = torch.cat(parts)
        inverse = torch.from_numpy(np.argsort(np.concatenate(item_batches))).to(self._device)
        scores = torch.zeros_like(labels).masked_scatter(labels >= 0, outputs[inverse])  # (b, n)
        return self._loss.sum_terms(labels, scores) / self._loss.count_weights(batch_labels)

    def _collate_pairs(self, rows: np.ndarray) -> tuple[Tensor, ...]:
        """Return ids and masks of the queries and premises of training pairs."""
        pairs = self._train_pairs
        queries = pairs.queries.batch(pairs.query_rows[rows], self._device)
        return *queries, *pairs.premises.batch(pairs.premise_rows[rows], self._device)

    def measure_baselines(self) -> dict[str, dict[str, float]]:
        """Measure the correlations of argument length with the labels, in percent."""
        lengths = self._validation["premise"].str.split().str.len().to_numpy()
        return {LENGTH_BASELINE: average_correlations(self._validation, lengths)}

    def validate(self, ranker: Ranker, step: int) -> dict[str, float]:
        """Measure Pearson, Spearman and Kendall correlations of scores and labels, in percent."""
        with use_evaluation_mode(ranker):
            scores = score_pairs(ranker, self._validation_pairs, self._device)
        check_scores(scores, step)
        return average_correlations(self._validation, scores)


def encode_pairs(table: pd.DataFrame, tokeniser: Tokeniser) -> TokenisedPairs:
    """Encode each row of a table `topic premise` as a pair, with the topic as query."""
    query_rows, topics = pd.factorize(table["topic"])
    queries = PaddedTexts.from_ids([tokeniser.encode_query(text) for text in topics])
    premises = PaddedTexts.from_ids([tokeniser.encode_premise(text) for text in table["premise"]])
    return TokenisedPairs(queries, premises, query_rows, np.arange(len(table)))


def compute_dense_ranks(scores: np.ndarray) -> np.ndarray:
    """Return dense ranks: 1 for the lowest score, 2 for the next higher score, and so on."""
    return np.asarray(rankdata(scores, method="dense"))


def stratify(scores: np.ndarray, size: int) -> list[np.ndarray]:
    """Deal sorted items in turn to ceil(items / size) lists; return each list's indices."""
    order = np.argsort(scores, kind="stable")
    n_lists = -(-len(scores) // size)
    return [order[offset::n_lists] for offset in range(n_lists)]


def build_ranked_lists(
    table: pd.DataFrame, size: int, scope: RankScope, loss: str
) -> TrainingLists:
    """Split all topics into lists of at most `size` items, labelled by dense rank within `scope`:
    the list or the topic.

    If `loss` is "mse", labels are divided by the largest rank within `scope`, so that they are at
    most 1. If it is "pointwise", labels are the scores themselves, scaled to [0, 1] over all topics
    of their data set.
    """
    if loss == "pointwise":
        scores_by_data = table.groupby("data")["score"]
        low = scores_by_data.transform("min")
        high = scores_by_data.transform("max")
        scaled_table = table.assign(score=(table["score"] - low) / (high - low).clip(lower=1e-9))
        return build_lists(scaled_table, size, lambda scores, indices: scores[indices])

    def compute_rank_labels(scores: np.ndarray, indices: np.ndarray) -> np.ndarray:
        topic_ranks = compute_dense_ranks(scores)
        labels = topic_ranks[indices]
        if scope == "list":
            topic_ranks = labels = compute_dense_ranks(labels)
        return np.asarray(labels / max(topic_ranks)) if loss == "mse" else labels

    return build_lists(table, size, compute_rank_labels)


def build_lists(
    table: pd.DataFrame, size: int, compute_labels: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> TrainingLists:
    """Split all topics of a table `data topic score` into lists of at most `size` items.

    `compute_labels(scores, indices)` returns a list's labels from its topic's scores and the
    indices of its items in them.
    """
    rows: list[Tensor] = []
    labels: list[Tensor] = []
    scores = table["score"].to_numpy()
    for topic_rows in group_rows_by_topic(table):
        for indices in stratify(scores[topic_rows], size):
            rows.append(torch.from_numpy(topic_rows[indices]))
            labels.append(torch.from_numpy(compute_labels(scores[topic_rows], indices)).float())
    pad = partial(pad_sequence, batch_first=True, padding_value=PADDING)
    return TrainingLists(pad(rows).numpy(), pad(labels).numpy())
