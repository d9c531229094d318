"""Define the training and test data of all settings: held-out debates, held-out topics, cross-data-set transfer.

Favreau et al. (2022) hold out topics but train on the opposite side of the same debate. We hold out whole debates, and
replicate the published split as ukp_32_folds. The 16- and 32-fold settings use one seed. Only "ukp" compares all losses; the
others use the recipe's loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from msgspec.structs import replace

from submission.errors import InputError, TrainingError
from training.data.quality import COLUMNS
from training.fitting.listwise_losses import LOSSES
from training.fitting.recipe import Recipe
from training.studies.argument_quality.fit import scores, trained
from training.studies.argument_quality.folds import Fold, folds
from training.tasks.quality import Lists

DEV = {"ukp": 3, "ibm": 2}  # dev debates (or topics) for early stopping, by data set
DIVISION = 0  # one split for all network seeds


@dataclass(frozen=True)
class Part:
    """Training data sets, their folds, and further test data sets."""

    trains: tuple[str, ...]
    tests: tuple[str, ...] = ()
    folds: int = 1  # 1: train on everything
    by: str = "debate"  # held-out unit: debate or topic
    all_losses: bool = False
    once: bool = False  # first seed only
    alone: bool = False  # also train a network without the topic


PARTS = {
    "ukp": Part(("ukp",), folds=4, all_losses=True),
    "ukp_16_folds": Part(("ukp",), folds=16, once=True),
    "ukp_32_folds": Part(("ukp",), folds=32, by="topic", once=True),
    "ibm": Part(("ibm",), folds=4),
    "ukp_to_others": Part(("ukp",), ("ibm", "webis"), alone=True),
    "ibm_to_others": Part(("ibm",), ("ukp", "webis"), alone=True),
    "both_to_webis": Part(("ukp", "ibm"), ("webis",), alone=True),
}


class Cell(NamedTuple):
    """One training: setting, seed, loss, input and fold."""

    part: str
    seed: int
    loss: str
    topic: bool  # topic and argument, or argument only
    fold: int

    @property
    def network(self) -> str:
        """Return the network's name, independent of fold and seed."""
        return self.loss if self.topic else f"{self.loss}, argument alone"


def cells(parts: Sequence[str], recipe: Recipe, seeds: int) -> list[Cell]:
    """List the cells of settings in training order, seed by seed."""
    assert isinstance(recipe.task, Lists)
    return [
        Cell(name, seed, loss, topic, fold)
        for seed in range(seeds)
        for name in parts
        if not (seed and PARTS[name].once)
        for topic in ((True, False) if PARTS[name].alone else (True,))
        for loss in (LOSSES if PARTS[name].all_losses else [recipe.task.loss])
        for fold in range(PARTS[name].folds)
    ]


class Trial:
    """Trains and scores the networks of a setting."""

    def __init__(self, part: Part, tables: dict[str, pd.DataFrame], recipe: Recipe, device: torch.device) -> None:
        """Split the data sets into folds without training.

        Args:
            part: Setting.
            tables: Tables by data set.
            recipe: Recipe; loss, seed and topic come from the cell.
            device: Device to compute on.

        Raises:
            InputError: If there are too few debates.
        """
        self.table = pd.concat([tables[name] for name in (*part.trains, *part.tests)], ignore_index=True)
        self.part, self._recipe, self._device = part, recipe, device
        fold_splits = [_divided(tables[name], name, part) for name in part.trains]
        self.folds = [
            Fold(*(frozenset[str]().union(*(getattr(fold, split) for fold in same)) for split in ("train", "dev", "test")))
            for same in zip(*fold_splits, strict=True)
        ]

    def rows(self, fold: int, which: str) -> np.ndarray:
        """Return a mask (rows,) of a fold's `train`, `dev` or `test` arguments."""
        in_split = self.table[self.part.by].isin(getattr(self.folds[fold], which))
        is_training_data = self.table["data"].isin(self.part.trains)
        return (in_split & is_training_data | (~is_training_data & (which == "test"))).to_numpy()

    def scored(self, fold: int) -> np.ndarray:
        """Return a mask (rows,) of the arguments that a fold's network scores: dev, test, and training if standardised."""
        splits = ("train", "dev", "test") if self.part.all_losses else ("dev", "test")
        mask: np.ndarray = np.any([self.rows(fold, split) for split in splits], axis=0)
        return mask

    def computed(self, cell: Cell) -> np.ndarray:
        """Train a network and return its scores (rows,) float32; NaN for arguments that it does not score.

        Raises:
            TrainingError: If the network does not learn.
        """
        task, network = replace(self._recipe.task, loss=cell.loss), {**self._recipe.network, "topic": cell.topic}
        recipe = replace(self._recipe, seed=cell.seed, network=network, task=task)
        train, dev = (self.table.loc[self.rows(cell.fold, split), COLUMNS] for split in ("train", "dev"))
        try:
            trainee = trained(recipe, train, dev, self._device)
        except TrainingError as error:
            raise TrainingError(f"{cell.part}, {cell.network}, seed {cell.seed}, fold {cell.fold + 1}: {error}") from None
        values, mask = np.full(len(self.table), np.nan, dtype=np.float32), self.scored(cell.fold)
        values[mask] = scores(trainee, self.table.loc[mask, COLUMNS], self._device)
        return values

    def tested(self, fold_scores: Sequence[np.ndarray], standardised: bool = False) -> np.ndarray:
        """Combine the folds' test scores into one array (rows,); NaN for untested arguments.

        If `standardised`, scores are z-scores relative to the network's training scores.
        """
        combined = np.full(len(self.table), np.nan)
        for fold, values in enumerate(fold_scores):
            test, train = (self.rows(fold, split) for split in ("test", "train"))
            combined[test] = (values[test] - values[train].mean()) / values[train].std() if standardised else values[test]
        return combined


def _divided(table: pd.DataFrame, name: str, part: Part) -> list[Fold]:
    names = table[part.by].unique().tolist()
    try:
        return folds(names, part.folds, DEV[name], DIVISION)
    except ValueError as error:
        raise InputError(f"{name}, split by {part.by}: {error}; use the full data set") from None
