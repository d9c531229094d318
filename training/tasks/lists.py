"""Learning to order lists of arguments by their quality; Spearman, over the topics of held-out debates, picks the network."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
import torch
from msgspec import Meta

from submission.disk.files import sha256
from submission.errors import InputError
from submission.text.tokenisers import Tokeniser
from training.data.seeds import Stream, generator
from training.fitting.network import NetworkOfTexts
from training.fitting.recipe import Recipe
from training.fitting.trainee import Trainee
from training.quality.listwise import CURVE, Labels, Listwise, lists_of
from training.quality.losses import LOSSES, LossName
from training.quality.prepare import SOURCES, place, prepare_quality, published, quality_table

HELD_OUT = 5  # one debate of so many validates


class Lists(NetworkOfTexts, frozen=True):
    """The lists of arguments that a network learns to order by their quality; batches are then counted in lists."""

    curve: ClassVar = CURVE
    networks: ClassVar = ("tfr_bert",)
    data: tuple[Literal["ukp", "ibm"], ...]  # the others are for tests alone
    size: Annotated[int, Meta(ge=2)] = 12  # arguments at most
    labels: Labels = "list"  # dense ranks within the list, or within the topic that it was taken from
    loss: LossName = "softmax"

    def __post_init__(self) -> None:
        """Raise ValueError where data are none, or repeated."""
        if not self.data or len(set(self.data)) < len(self.data):
            raise ValueError(f"lists.data is {list(self.data)}; expected ukp, ibm or both")

    def task(self, recipe: Recipe, trainee: Trainee[Any, Any], work: Path, device: torch.device) -> QualityLists:
        """Read the lists and the topics to validate on. Raises InputError: they are missing, or of a single debate."""
        return QualityLists.of(self, recipe.seed, trainee.reader, work, device)

    def require(self, work: Path) -> None:
        """Raise InputError where a working directory has no table of some of the data."""
        for name in self.data:
            published(work, name)

    def prepare(self, source: Path, work: Path, made: dict[str, Any]) -> dict[str, str]:
        """Prepare the tables of the lists in `source` again."""
        prepare_quality(source, self.data, work)
        return {file: value for name in self.data for file, value in published(work, name).items()}


class QualityLists(Listwise):
    """Lists by the quality of their arguments, and the topics of other debates to validate on."""

    measured = "Percent, means over the topics of debates that were held out."

    def __init__(
        self, train: pd.DataFrame, dev: pd.DataFrame, lists: Lists, tokeniser: Tokeniser, device: torch.device
    ) -> None:
        """Make the lists of one table to learn from, and validate on another; see `quality_table`."""
        labelled = lists_of(train, lists.size, lists.labels, lists.loss)
        super().__init__(train, labelled, LOSSES[lists.loss], dev, tokeniser, device)

    @classmethod
    def of(cls, lists: Lists, seed: int, tokeniser: Tokeniser, work: Path, device: torch.device) -> Self:
        """Read what `prepare lists` wrote. Raises InputError: it is missing, or of a single debate."""
        tables = [quality_table(work, name) for name in lists.data]
        held = [held_out(table, seed) for table in tables]
        train = pd.concat([table[~rows] for table, rows in zip(tables, held, strict=True)], ignore_index=True)
        dev = pd.concat([table[rows] for table, rows in zip(tables, held, strict=True)], ignore_index=True)
        task = cls(train, dev, lists, tokeniser, device)
        sources = [SOURCES[name] for name in lists.data]
        task.data = " and ".join(f"{source.name} ({source.publisher}, {source.licence})" for source in sources)
        task.decided_by = {
            "input": {file: value for name in lists.data for file, value in published(work, name).items()},
            "data": " and ".join(source.name for source in sources),
            "licence": " and ".join(source.licence for source in sources),
        }
        task.files = {name: sha256(place(work, name)) for name in lists.data}
        return task


def held_out(table: pd.DataFrame, seed: int) -> np.ndarray:
    """Mark the rows (N,) bool of a data set whose debates, as a whole, validate. Raises InputError: it has one alone."""
    debates = sorted(set(table["debate"]))
    if len(debates) < 2:
        raise InputError(
            f"{', '.join(sorted(set(table['data'])))}: {len(debates)} debates; expected two or more, to hold one out"
        )
    chosen = generator(seed, Stream.SPLIT).permutation(len(debates))[: max(1, len(debates) // HELD_OUT)]
    return table["debate"].isin([debates[number] for number in chosen]).to_numpy()
