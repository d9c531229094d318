"""Learning another system's scores, list by list; Spearman with them, over titles that were held out, picks the network."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import torch
from msgspec import Meta

from submission.errors import InputError, UsageError
from submission.text.tokenisers import Tokeniser
from training.data.seeds import Stream, generator
from training.distilling.prepare import distilled_table, place
from training.fitting.network import NetworkOfTexts
from training.fitting.recipe import Recipe
from training.fitting.trainee import Trainee
from training.quality.listwise import CURVE, Listwise, labelled_lists
from training.quality.losses import LOSSES, MARGIN_MSE

HELD_OUT = 10  # one title of so many validates


class Distilled(NetworkOfTexts, frozen=True):
    """The loss by which a network learns another system's scores; batches are then counted in lists."""

    curve: ClassVar = CURVE
    loss: Literal["mse", "margin_mse"] = "margin_mse"  # of the scores, or of the differences between two documents'
    size: Annotated[int, Meta(ge=2)] = 12  # documents of a list at most

    def task(self, recipe: Recipe, trainee: Trainee[Any, Any], work: Path, device: torch.device) -> Distillation:
        """Read the scored lists. Raises InputError: they are missing, or of a single title."""
        return Distillation.of(self, recipe.seed, trainee.reader, work, device)

    def require(self, work: Path) -> None:
        """Raise InputError where a working directory has no scored titles."""
        distilled_table(work)

    def prepare(self, source: Path, work: Path, made: dict[str, Any]) -> dict[str, str]:
        """Raise UsageError: one directory does not have what a teacher scored."""
        raise UsageError("learned from a system's scores, not from a corpus; `prepare distilled` and `fit` make it anew")


class Distillation(Listwise):
    """The lists of some titles of debates as a teacher scores them, and other titles to validate on."""

    measured = "Percent, means over titles of debates that were held out: how well the network agrees with its teacher."

    @classmethod
    def of(cls, distilled: Distilled, seed: int, tokeniser: Tokeniser, work: Path, device: torch.device) -> Self:
        """Read what `prepare distilled` wrote. Raises InputError: it is missing, or of a single title."""
        table, record = distilled_table(work)
        titles = table["topic"].unique()
        if len(titles) < 2:
            raise InputError(f"{place(work)}: {len(titles)} titles; expected two or more, to hold one out")
        held = generator(seed, Stream.SPLIT).permutation(titles)[: max(1, len(titles) // HELD_OUT)]
        validates = table["topic"].isin(held)
        train, dev = (table[rows].reset_index(drop=True) for rows in (~validates, validates))
        lists = labelled_lists(train, distilled.size, _above_the_lowest)
        loss = MARGIN_MSE if distilled.loss == "margin_mse" else LOSSES["mse"]
        task = cls(train, lists, loss, dev, tokeniser, device)
        task.data = f"args.me arguments (Webis, CC BY 4.0), scored by {table['data'].iloc[0]} for titles of debates"
        task.decided_by, task.files = record.decided_by, {name: file.xxh3 for name, file in record.files.items()}
        return task


def _above_the_lowest(scores: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Subtract the topic's lowest score: labels must not be negative, and the zero of scores means nothing."""
    return np.asarray(scores[chosen] - scores.min())
