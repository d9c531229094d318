"""Learning another system's scores, list by list; Spearman with them, over titles that were held out, picks the network."""

from __future__ import annotations

from pathlib import Path
from typing import Self

import numpy as np
import torch

from submission.errors import InputError
from submission.rankers.base import Ranker
from submission.text.tokenisers import Tokeniser
from training.data.seeds import Stream, generator
from training.distilling.prepare import distilled_table, place
from training.fitting.network import Trainee
from training.fitting.recipe import Recipe
from training.quality.lists import labelled_lists
from training.quality.losses import LOSSES, MARGIN_MSE
from training.quality.task import Ordering

HELD_OUT = 10  # one title of so many validates


class Distilled(Ordering):
    """The lists of some titles of debates as a teacher scores them, and other titles to validate on."""

    measured = "Percent, means over titles of debates that were held out: how well the network agrees with its teacher."

    @classmethod
    def of(cls, recipe: Recipe, trainee: Trainee[Ranker, Tokeniser], work: Path, device: torch.device) -> Self:
        """From what `prepare-distilled` wrote. Raises InputError: nothing, or a single title."""
        assert recipe.distilled is not None
        table, record = distilled_table(work)
        titles = table["topic"].unique()
        if len(titles) < 2:
            raise InputError(f"{place(work)}: {len(titles)} titles; expected two or more, to hold one out")
        held = generator(recipe.seed, Stream.SPLIT).permutation(titles)[: max(1, len(titles) // HELD_OUT)]
        validates = table["topic"].isin(held)
        train, dev = (table[rows].reset_index(drop=True) for rows in (~validates, validates))
        lists = labelled_lists(train, recipe.distilled.size, _above_the_lowest)
        loss = MARGIN_MSE if recipe.distilled.loss == "margin_mse" else LOSSES["mse"]
        task = cls(train, lists, loss, dev, trainee.reader, device)
        task.data = f"args.me arguments (Webis, CC BY 4.0), scored by {table['data'].iloc[0]} for titles of debates"
        task.decided_by, task.files = record.decided_by, {name: file.xxh3 for name, file in record.files.items()}
        return task


def _above_the_lowest(scores: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """How far the chosen items are above the topic's lowest: labels are not negative, and a sum's zero says nothing."""
    return np.asarray(scores[chosen] - scores.min())
