"""Topics → lists that a loss can read: short, each spread over the whole range of its topic's quality, with ranks as labels.

Favreau, Zouaq, Bhatnagar: Learning to Rank with BERT for Argument Quality Evaluation. FLAIRS 2022. There a topic's arguments
are cut into 12 slices, and list i has the i-th of each, which leaves a remainder unspread. Here the slices have as many
neighbours as there are lists, so that all lists are spread and none is longer than it may be.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from scipy.stats import rankdata

Labels = Literal["list", "topic"]

PADDING = -1


@dataclass(frozen=True)
class LabelledLists:
    """The lists of a table: rows (N, n) int, numbers of the table's rows, and labels (N, n) float32; both -1 where none is."""

    rows: np.ndarray
    labels: np.ndarray


def topics_of(table: pd.DataFrame) -> list[np.ndarray]:
    """The numbers of the rows of each list to rank: a topic of a data set."""
    number = table.groupby(["data", "topic"], sort=False).ngroup().to_numpy()
    return [np.flatnonzero(number == one) for one in range(number.max(initial=-1) + 1)]


def dense_ranks(scores: np.ndarray) -> np.ndarray:
    """Ranks from 1, the lowest score's; equal scores share one, and none is left out."""
    return np.asarray(rankdata(scores, method="dense"))


def stratified(scores: np.ndarray, size: int) -> list[np.ndarray]:
    """The items of a topic in m = ceil(items / size) lists, by their numbers: list i has the i-th of every m neighbours."""
    order = np.argsort(scores, kind="stable")
    number = -(-len(scores) // size)
    return [order[first::number] for first in range(number)]


def lists_of(table: pd.DataFrame, size: int, within: Labels, loss: str) -> LabelledLists:
    """Cut all topics of a table into lists.

    Labels are dense ranks, within the list or the whole topic. For squared errors they are divided by the largest of these: a
    network need not learn to say 91.
    """

    def ranks(scores: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        of_topic = dense_ranks(scores)
        found = of_topic[chosen] if within == "topic" else dense_ranks(of_topic[chosen])
        highest = max(of_topic) if within == "topic" else max(found)
        return found / highest if loss == "mse" else found

    return labelled_lists(table, size, ranks)


def labelled_lists(table: pd.DataFrame, size: int, labels_of: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> LabelledLists:
    """The lists of all topics of a table, of so many items at most.

    Args:
        table: `data topic score`.
        size: of a list.
        labels_of: gives the labels of some items, by their numbers, of a topic with such scores.
    """
    rows: list[np.ndarray] = []
    labels: list[np.ndarray] = []
    scores = table["score"].to_numpy()
    for numbers in topics_of(table):
        for chosen in stratified(scores[numbers], size):
            rows.append(numbers[chosen])
            labels.append(labels_of(scores[numbers], chosen))
    return LabelledLists(_padded(rows, np.int64), _padded(labels, np.float32))


def _padded(lists: list[np.ndarray], dtype: type[np.number]) -> np.ndarray:
    """Pad lists of at most n to an array (N, n)."""
    padded = np.full((len(lists), max(map(len, lists), default=0)), PADDING, dtype=dtype)
    for row, values in zip(padded, lists, strict=True):
        row[: len(values)] = values
    return padded
