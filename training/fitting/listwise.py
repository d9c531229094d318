"""Train rankers listwise on short lists of arguments; rank correlations on held-out topics validate the network.

A topic is cut into lists that are stratified by quality and labelled by rank, as in Favreau, Zouaq, Bhatnagar: Learning to
Rank with BERT for Argument Quality Evaluation. FLAIRS 2022. They cut a topic into 12 slices and take the i-th item of each,
which leaves a remainder unstratified. Here the stride is the number of lists, so all lists are stratified.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
import torch
from scipy.stats import rankdata
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from submission.inference.batching import Padded, PaddedPairs, batches
from submission.inference.pair_scoring import score_pairs
from submission.models.ranker import Ranker
from submission.text.tokenisers import Tokeniser
from training.evaluation.correlation import macro, topics_of
from training.fitting.learning_curve import Curve
from training.fitting.listwise_losses import Loss
from training.fitting.task import Task, dead, diverged
from training.fitting.validation import evaluating

Labels = Literal["list", "topic"]

CURVE = Curve("listwise loss", ("Pearson", "Spearman", "Kendall"), "Spearman", "%, mean over topics", "topics")
LENGTH = "number of words"  # baseline: quality must not be length
PADDING = -1


@dataclass(frozen=True)
class LabelledLists:
    """Row numbers (N, n) int64 and labels (N, n) float32 of training lists; -1 is padding."""

    rows: np.ndarray
    labels: np.ndarray


class Listwise(Task[Ranker]):
    """Base of listwise tasks: training lists and held-out topics."""

    def __init__(
        self,
        train: pd.DataFrame,
        lists: LabelledLists,
        loss: Loss,
        dev: pd.DataFrame,
        tokeniser: Tokeniser,
        device: torch.device,
    ) -> None:
        """Store training lists with their loss, and the validation table."""
        self._lists, self._loss = lists, loss
        self._read, self._dev, self._read_dev = read(train, tokeniser), dev, read(dev, tokeniser)
        self._device = device
        self.size, self.number = len(lists.rows), len(dev[["data", "topic"]].drop_duplicates())

    def loss(self, ranker: Ranker, part: np.ndarray, rows: np.ndarray) -> Tensor:
        """Return the micro-batch's contribution to the batch loss.

        Items are re-batched by length across lists to reduce padding.
        """
        labels, batch_labels = (torch.from_numpy(self._lists.labels[lists]).to(self._device) for lists in (part, rows))
        items = self._lists.rows[part]
        item_rows = items[items >= 0]
        item_batches = batches(self._read.lengths()[item_rows], items.shape[1])
        outputs = torch.cat([ranker(*_taken(self._read, item_rows[batch], self._device)) for batch in item_batches])
        inverse = torch.from_numpy(np.argsort(np.concatenate(item_batches))).to(self._device)
        scores = torch.zeros_like(labels).masked_scatter(labels >= 0, outputs[inverse])  # (b, n)
        return self._loss.total(labels, scores) / self._loss.counted(batch_labels)

    def baselines(self) -> dict[str, dict[str, float]]:
        """Measure argument length."""
        return {LENGTH: macro(self._dev, self._dev["premise"].str.split().str.len().to_numpy())}

    def validated(self, ranker: Ranker, step: int) -> dict[str, float]:
        """Measure Pearson, Spearman and Kendall correlations."""
        with evaluating(ranker):
            scores = score_pairs(ranker, self._read_dev, self._device)
        if not np.isfinite(scores).all():
            raise diverged(step, "a validation score is not finite")
        if (scores == scores[0]).all():
            raise dead(step)
        return macro(self._dev, scores)

    def final(self, ranker: Ranker, step: int) -> dict[str, float]:
        """Validate the selected network; the same topics selected it."""
        return self.validated(ranker, step)


def read(table: pd.DataFrame, tokeniser: Tokeniser) -> PaddedPairs:
    """Encode topic and argument of each row."""
    codes, topics = pd.factorize(table["topic"])
    queries, premises = [tokeniser.query(text) for text in topics], [tokeniser.premise(text) for text in table["premise"]]
    return PaddedPairs(Padded.of(queries), Padded.of(premises), codes, np.arange(len(table)))


def _taken(pairs: PaddedPairs, rows: np.ndarray, device: torch.device) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return some pairs as ranker input."""
    return *pairs.queries.take(pairs.query[rows], device), *pairs.premises.take(pairs.premise[rows], device)


def dense_ranks(scores: np.ndarray) -> np.ndarray:
    """Return dense ranks, starting at 1 for the lowest score."""
    return np.asarray(rankdata(scores, method="dense"))


def stratified(scores: np.ndarray, size: int) -> list[np.ndarray]:
    """Split a topic into m = ceil(items / size) lists of every m-th item by score."""
    order = np.argsort(scores, kind="stable")
    list_count = -(-len(scores) // size)
    return [order[offset::list_count] for offset in range(list_count)]


def lists_of(table: pd.DataFrame, size: int, within: Labels, loss: str) -> LabelledLists:
    """Cut all topics into lists labelled by dense rank, within the list or the topic.

    For squared errors labels are divided by the largest rank, so that all are at most 1.
    """

    def rank_labels(scores: np.ndarray, list_items: np.ndarray) -> np.ndarray:
        topic_ranks = dense_ranks(scores)
        labels = topic_ranks[list_items] if within == "topic" else dense_ranks(topic_ranks[list_items])
        highest = max(topic_ranks) if within == "topic" else max(labels)
        return labels / highest if loss == "mse" else labels

    return labelled_lists(table, size, rank_labels)


def labelled_lists(table: pd.DataFrame, size: int, labels_of: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> LabelledLists:
    """Cut all topics into lists of at most `size` items.

    Args:
        table: `data topic score`.
        size: maximum list length.
        labels_of: maps a topic's scores and the item numbers of a list to labels.
    """
    rows: list[Tensor] = []
    labels: list[Tensor] = []
    scores = table["score"].to_numpy()
    for topic_rows in topics_of(table):
        for list_items in stratified(scores[topic_rows], size):
            rows.append(torch.from_numpy(topic_rows[list_items]))
            labels.append(torch.from_numpy(labels_of(scores[topic_rows], list_items)).float())
    padded = (pad_sequence(lists, batch_first=True, padding_value=PADDING).numpy() for lists in (rows, labels))
    return LabelledLists(*padded)
