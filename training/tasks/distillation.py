"""Distil another system's scores, list by list; Spearman on held-out titles selects the checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import torch
from msgspec import Meta

from submission.errors import InputError, UsageError
from submission.text.tokenisers import Tokeniser
from training.data.distillation import distilled_table, place
from training.data.split import hold_out
from training.fitting.initialisation import NetworkOfTexts
from training.fitting.listwise import CURVE, Listwise, labelled_lists
from training.fitting.listwise_losses import LOSSES, MARGIN_MSE
from training.fitting.recipe import Recipe
from training.fitting.trainable import Trainee

HELD_OUT = 10


class Distilled(NetworkOfTexts, frozen=True):
    """Loss of the distillation; batch sizes count lists."""

    curve: ClassVar = CURVE
    loss: Literal["mse", "margin_mse"] = "margin_mse"  # on scores, or on score differences (MarginMSE)
    size: Annotated[int, Meta(ge=2)] = 12  # documents per list, at most

    def task(self, recipe: Recipe, trainee: Trainee[Any, Any], work: Path, device: torch.device) -> Distillation:
        """Load the scored lists. Raises InputError: missing, or lists of a single title."""
        return Distillation.of(self, recipe.seed, trainee.reader, work, device)

    def require(self, work: Path) -> None:
        """Raise InputError if the scored titles are missing."""
        distilled_table(work)

    def prepare(self, source: Path, work: Path, made: dict[str, Any]) -> dict[str, str]:
        """Raise UsageError: teacher scores cannot be rebuilt from a corpus alone."""
        raise UsageError("trained on a system's scores, not on a corpus; run `prepare distilled` and `fit` again")


class Distillation(Listwise):
    """Debate titles scored by a teacher for training, and held-out titles for validation."""

    measured = "Percent, mean over held-out debate titles: correlation with the teacher's scores."

    @classmethod
    def of(cls, distilled: Distilled, seed: int, tokeniser: Tokeniser, work: Path, device: torch.device) -> Self:
        """Load the teacher's scores and split the titles. Raises InputError: missing, or scores of a single title."""
        table, record = distilled_table(work)
        titles = table["topic"].unique()
        if len(titles) < 2:
            raise InputError(f"{place(work)}: {len(titles)} title; at least 2 are needed to hold one out")
        indices, _ = hold_out(len(titles), len(titles) // HELD_OUT, seed)
        is_held_out = table["topic"].isin(titles[indices])
        train, validation = (table[rows].reset_index(drop=True) for rows in (~is_held_out, is_held_out))
        lists = labelled_lists(train, distilled.size, _above_the_lowest)
        loss = MARGIN_MSE if distilled.loss == "margin_mse" else LOSSES["mse"]
        task = cls(train, lists, loss, validation, tokeniser, device)
        task.data = f"args.me arguments (Webis, CC BY 4.0), scored by {table['data'].iloc[0]} for debate titles"
        task.decided_by, task.files = record.decided_by, {name: file.xxh3 for name, file in record.files.items()}
        return task


def _above_the_lowest(scores: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Shift scores to a minimum of 0 per topic: labels must not be negative."""
    return np.asarray(scores[chosen] - scores.min())
