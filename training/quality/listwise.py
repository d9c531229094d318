"""Learning to order lists of arguments; correlations with their labels over held-out topics validate the network."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from submission.rankers.base import Ranker
from submission.scoring.batches import Padded, PaddedPairs, batches
from submission.scoring.pairs import score_pairs
from submission.text.tokenisers import Tokeniser
from training.fitting.curves import Curve
from training.fitting.task import Task, dead, diverged
from training.fitting.validation import evaluating
from training.quality.lists import LabelledLists
from training.quality.losses import Loss
from training.quality.validation import macro

CURVE = Curve("loss over lists", ("Pearson", "Spearman", "Kendall"), "Spearman", "percent, means over topics", "topics")
LENGTH = "number of words"  # the baseline that quality must be told apart from


class Listwise(Task[Ranker]):
    """Lists of some topics to learn to order, and other topics to validate on."""

    def __init__(
        self,
        train: pd.DataFrame,
        lists: LabelledLists,
        loss: Loss,
        dev: pd.DataFrame,
        tokeniser: Tokeniser,
        device: torch.device,
    ) -> None:
        """Take a table to learn from (see `quality_table`) with its lists and loss, and a table to validate on."""
        self._lists, self._loss = lists, loss
        self._read, self._dev, self._read_dev = read(train, tokeniser), dev, read(dev, tokeniser)
        self._device = device
        self.size, self.number = len(lists.rows), len(dev[["data", "topic"]].drop_duplicates())

    def loss(self, ranker: Ranker, part: np.ndarray, rows: np.ndarray) -> Tensor:
        """Compute the share of the part's lists in the loss of the batch.

        The network reads as many arguments at a time as a list has, not a list's but such of similar length: half of what it
        read of a list would be padding.
        """
        of_part, of_batch = (torch.from_numpy(self._lists.labels[some]).to(self._device) for some in (part, rows))
        items = self._lists.rows[part]
        numbers = items[items >= 0]
        order = batches(self._read.lengths()[numbers], items.shape[1])
        found = torch.cat([ranker(*_taken(self._read, numbers[own], self._device)) for own in order])
        back = torch.from_numpy(np.argsort(np.concatenate(order))).to(self._device)
        scores = torch.zeros_like(of_part).masked_scatter(of_part >= 0, found[back])  # (b, n)
        return self._loss.total(of_part, scores) / self._loss.counted(of_batch)

    def baselines(self) -> dict[str, dict[str, float]]:
        """The length of the arguments."""
        return {LENGTH: macro(self._dev, self._dev["premise"].str.split().str.len().to_numpy())}

    def validated(self, ranker: Ranker, step: int) -> dict[str, float]:
        """Pearson, Spearman and Kendall."""
        with evaluating(ranker):
            found = score_pairs(ranker, self._read_dev, self._device)
        if not np.isfinite(found).all():
            raise diverged(step, "a validation score is not finite")
        if (found == found[0]).all():
            raise dead(step)
        return macro(self._dev, found)

    def final(self, ranker: Ranker, step: int) -> dict[str, float]:
        """Validate the kept network: all topics pick it."""
        return self.validated(ranker, step)


def read(table: pd.DataFrame, tokeniser: Tokeniser) -> PaddedPairs:
    """A pair of topic and argument for each row of a table."""
    codes, topics = pd.factorize(table["topic"])
    queries, premises = [tokeniser.query(text) for text in topics], [tokeniser.premise(text) for text in table["premise"]]
    return PaddedPairs(Padded.of(queries), Padded.of(premises), codes, np.arange(len(table)))


def _taken(pairs: PaddedPairs, rows: np.ndarray, device: torch.device) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Some pairs, as a ranker reads them."""
    return *pairs.queries.take(pairs.query[rows], device), *pairs.premises.take(pairs.premise[rows], device)
