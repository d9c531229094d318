"""Learning to order lists of arguments by their quality; Spearman, over the topics of held-out debates, picks the network."""

from __future__ import annotations

from pathlib import Path
from typing import Self

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from submission.disk.files import sha256
from submission.errors import InputError
from submission.rankers.base import Ranker
from submission.scoring.batches import Padded, PaddedPairs, batches
from submission.scoring.pairs import score_pairs
from submission.text.tokenisers import Tokeniser
from training.data.seeds import Stream, generator
from training.fitting.curves import LISTS
from training.fitting.network import Trainee
from training.fitting.recipe import Recipe
from training.fitting.task import Task, dead, diverged
from training.fitting.validation import evaluating
from training.quality.lists import LabelledLists, lists_of
from training.quality.losses import LOSSES, Loss
from training.quality.tables import SOURCES, place, published, quality_table
from training.quality.validation import macro

LENGTH = "number of words"  # the baseline that quality must be told apart from
HELD_OUT = 5  # one debate of so many validates


class Ordering(Task[Ranker]):
    """The lists of some topics, and other topics to validate on."""

    curve = LISTS

    def __init__(
        self,
        train: pd.DataFrame,
        lists: LabelledLists,
        loss: Loss,
        dev: pd.DataFrame,
        tokeniser: Tokeniser,
        device: torch.device,
    ) -> None:
        """From two tables (see `quality_table`), the lists of the first one, and what is learned of them."""
        self._lists, self._loss = lists, loss
        self._read, self._dev, self._read_dev = read(train, tokeniser), dev, read(dev, tokeniser)
        self._device = device
        self.size, self.number = len(lists.rows), len(dev[["data", "topic"]].drop_duplicates())

    def loss(self, ranker: Ranker, part: np.ndarray, rows: np.ndarray) -> Tensor:
        """What the lists of the part add to the loss of all lists of the batch.

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
        """The same: all topics pick the network."""
        return self.validated(ranker, step)


class Listed(Ordering):
    """Lists by the quality of their arguments, and the topics of other debates to validate on."""

    measured = "Percent, means over the topics of debates that were held out."

    def __init__(
        self, train: pd.DataFrame, dev: pd.DataFrame, recipe: Recipe, tokeniser: Tokeniser, device: torch.device
    ) -> None:
        """From two tables (see `quality_table`) and a recipe with lists."""
        assert recipe.lists is not None
        super().__init__(train, lists_of(train, recipe.lists), LOSSES[recipe.lists.loss], dev, tokeniser, device)

    @classmethod
    def of(cls, recipe: Recipe, trainee: Trainee[Ranker, Tokeniser], work: Path, device: torch.device) -> Self:
        """From what `prepare-quality` wrote. Raises InputError: nothing, or a single debate."""
        assert recipe.lists is not None
        tables = [quality_table(work, name) for name in recipe.lists.data]
        held = [held_out(table, recipe.seed) for table in tables]
        train = pd.concat([table[~rows] for table, rows in zip(tables, held, strict=True)], ignore_index=True)
        dev = pd.concat([table[rows] for table, rows in zip(tables, held, strict=True)], ignore_index=True)
        task = cls(train, dev, recipe, trainee.reader, device)
        names = recipe.lists.data
        sources = [SOURCES[name] for name in names]
        task.data = " and ".join(f"{source.name} ({source.publisher}, {source.licence})" for source in sources)
        task.decided_by = {
            "input": {file: value for name in names for file, value in published(work, name).items()},
            "data": " and ".join(source.name for source in sources),
            "licence": " and ".join(source.licence for source in sources),
        }
        task.files = {name: sha256(place(work, name)) for name in names}
        return task


def held_out(table: pd.DataFrame, seed: int) -> np.ndarray:
    """Which rows (N,) bool of a data set are of the debates that validate, as a whole. Raises InputError: it has one alone."""
    debates = sorted(set(table["debate"]))
    if len(debates) < 2:
        raise InputError(
            f"{', '.join(sorted(set(table['data'])))}: {len(debates)} debates; expected two or more, to hold one out"
        )
    chosen = generator(seed, Stream.SPLIT).permutation(len(debates))[: max(1, len(debates) // HELD_OUT)]
    return table["debate"].isin([debates[number] for number in chosen]).to_numpy()


def read(table: pd.DataFrame, tokeniser: Tokeniser) -> PaddedPairs:
    """A pair of topic and argument for each row of a table."""
    codes, topics = pd.factorize(table["topic"])
    queries, premises = [tokeniser.query(text) for text in topics], [tokeniser.premise(text) for text in table["premise"]]
    return PaddedPairs(Padded.of(queries), Padded.of(premises), codes, np.arange(len(table)))


def _taken(pairs: PaddedPairs, rows: np.ndarray, device: torch.device) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Some pairs, as a ranker reads them."""
    return *pairs.queries.take(pairs.query[rows], device), *pairs.premises.take(pairs.premise[rows], device)
