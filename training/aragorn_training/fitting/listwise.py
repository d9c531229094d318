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
from torch.nn.utils.rnn import pad_sequence

from aragorn.inference.device import batch_by_length
from aragorn.inference.pair_scoring import TokenisedPairs, score_pairs
from aragorn.models.network import PaddedTexts, Ranker
from aragorn.text.tokenisers import Tokeniser
from aragorn_training.evaluation.similarity import average_correlations, group_rows_by_topic
from aragorn_training.fitting.listwise_losses import ListwiseLoss
from aragorn_training.fitting.task import (
    CurveSpec,
    Task,
    build_dead_network_error,
    build_divergence_error,
)
from aragorn_training.fitting.validation import use_evaluation_mode

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
        if not np.isfinite(scores).all():
            raise build_divergence_error(step, "a validation score is not finite")
        if (scores == scores[0]).all():
            raise build_dead_network_error(step)
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
