"""The training and test sets of all parts: leaving debates out, leaving lists out, and across data sets.

The published work leaves some topics out whose other side it trains on; here a debate is left out with both its sides, and the
other way stands beside it (ukp_32_folds). The parts that train most often, of 16 and 32 folds, have one seed; all parts but
"ukp" have the recipe's loss alone.
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
from training.fitting.recipe import Recipe
from training.quality.losses import LOSSES
from training.quality.prepare import COLUMNS
from training.studies.argument_quality.folds import Fold, folds
from training.studies.argument_quality.training import scores, trained
from training.tasks.lists import Lists

DEV = {"ukp": 3, "ibm": 2}  # debates, or lists, of a data set that choose the epoch
DIVISION = 0  # the seed of all divisions: networks of all seeds are tested on the same


@dataclass(frozen=True)
class Part:
    """Data sets that train, in folds of which each tests once, and those that test beside."""

    trains: tuple[str, ...]
    tests: tuple[str, ...] = ()
    folds: int = 1  # 1: all of it trains
    by: str = "debate"  # what is left out as a whole; or topic, a list
    all_losses: bool = False
    once: bool = False  # of several seeds the first alone
    alone: bool = False  # also a network that sees the argument without its topic


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
    """A network that is trained once."""

    part: str
    seed: int
    loss: str
    topic: bool  # whether it sees the topic
    fold: int

    @property
    def network(self) -> str:
        """Return the name of the network, the same for all folds and seeds."""
        return self.loss if self.topic else f"{self.loss}, argument alone"


def cells(parts: Sequence[str], recipe: Recipe, seeds: int) -> list[Cell]:
    """The networks of some parts, in the order in which they are trained: a whole seed after the other."""
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
    """A part with its arguments and folds, and what trains a network on one of them."""

    def __init__(self, part: Part, tables: dict[str, pd.DataFrame], recipe: Recipe, device: torch.device) -> None:
        """Divide the data sets into folds; train nothing.

        Args:
            part: of PARTS.
            tables: of all data sets.
            recipe: loss, seed and topic are the cells'.
            device: where to compute.

        Raises:
            InputError: too few debates.
        """
        self.table = pd.concat([tables[name] for name in (*part.trains, *part.tests)], ignore_index=True)
        self.part, self._recipe, self._device = part, recipe, device
        divided = [_divided(tables[name], name, part) for name in part.trains]
        self.folds = [
            Fold(*(frozenset[str]().union(*(getattr(own, which) for own in same)) for which in ("train", "dev", "test")))
            for same in zip(*divided, strict=True)
        ]

    def rows(self, fold: int, which: str) -> np.ndarray:
        """Whether each argument is of a fold's `train`, `dev` or `test`, (rows,)."""
        inside = self.table[self.part.by].isin(getattr(self.folds[fold], which))
        trains = self.table["data"].isin(self.part.trains)
        return (inside & trains | (~trains & (which == "test"))).to_numpy()

    def scored(self, fold: int) -> np.ndarray:
        """Whether a fold's network scores an argument, (rows,): to choose, to test, and where it is standardised by them."""
        asked = ("train", "dev", "test") if self.part.all_losses else ("dev", "test")
        found: np.ndarray = np.any([self.rows(fold, which) for which in asked], axis=0)
        return found

    def computed(self, cell: Cell) -> np.ndarray:
        """Train a network: its scores, (rows,) float32, NaN where it is not asked. Raises TrainingError: it learns nothing."""
        task, network = replace(self._recipe.task, loss=cell.loss), {**self._recipe.network, "topic": cell.topic}
        recipe = replace(self._recipe, seed=cell.seed, network=network, task=task)
        train, dev = (self.table.loc[self.rows(cell.fold, which), COLUMNS] for which in ("train", "dev"))
        try:
            learned = trained(recipe, train, dev, self._device)
        except TrainingError as error:
            raise TrainingError(f"{cell.part}, {cell.network}, seed {cell.seed}, fold {cell.fold + 1}: {error}") from None
        found, asked = np.full(len(self.table), np.nan, dtype=np.float32), self.scored(cell.fold)
        found[asked] = scores(learned, self.table.loc[asked, COLUMNS], self._device)
        return found

    def tested(self, found: Sequence[np.ndarray], standardised: bool = False) -> np.ndarray:
        """One array (rows,) of what each fold's network, (rows,) each, scores where the fold tests; elsewhere NaN.

        Standardised: less the mean, divided by the deviation, of what the network scores where it was trained.
        """
        whole = np.full(len(self.table), np.nan)
        for fold, own in enumerate(found):
            test, train = (self.rows(fold, which) for which in ("test", "train"))
            whole[test] = (own[test] - own[train].mean()) / own[train].std() if standardised else own[test]
        return whole


def _divided(table: pd.DataFrame, name: str, part: Part) -> list[Fold]:
    names = table[part.by].unique().tolist()
    try:
        return folds(names, part.folds, DEV[name], DIVISION)
    except ValueError as error:
        raise InputError(f"{name}, divided by {part.by}: {error}; take the whole data set") from None
