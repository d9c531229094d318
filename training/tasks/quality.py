"""Train listwise on argument quality; Spearman on held-out debates selects the checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
import torch
from msgspec import Meta

from submission.errors import InputError
from submission.storage.atomic_files import sha256
from submission.text.tokenisers import Tokeniser
from training.data.quality import SOURCES, place, prepare_quality, published, quality_table
from training.data.split import hold_out
from training.fitting.initialisation import NetworkOfTexts
from training.fitting.listwise import CURVE, Labels, Listwise, lists_of
from training.fitting.listwise_losses import LOSSES, LossName
from training.fitting.recipe import Recipe
from training.fitting.trainable import Trainee

HELD_OUT = 5


class Lists(NetworkOfTexts, frozen=True):
    """Data, lists and loss; batch sizes count lists."""

    curve: ClassVar = CURVE
    networks: ClassVar = ("tfr_bert",)
    data: tuple[Literal["ukp", "ibm"], ...]  # other data sets are for testing only
    size: Annotated[int, Meta(ge=2)] = 12  # arguments per list, at most
    labels: Labels = "list"  # labels: dense ranks within the list or its topic
    loss: LossName = "softmax"

    def __post_init__(self) -> None:
        """Raise ValueError if data sets are missing or repeated."""
        if not self.data or len(set(self.data)) < len(self.data):
            raise ValueError(f"lists.data is {list(self.data)}; expected ukp, ibm or both")

    def task(self, recipe: Recipe, trainee: Trainee[Any, Any], work: Path, device: torch.device) -> QualityLists:
        """Load training lists and validation topics. Raises InputError: missing, or of a single debate."""
        return QualityLists.of(self, recipe.seed, trainee.reader, work, device)

    def require(self, work: Path) -> None:
        """Raise InputError if a table is missing."""
        for name in self.data:
            published(work, name)

    def prepare(self, source: Path, work: Path, made: dict[str, Any]) -> dict[str, str]:
        """Prepare the tables again."""
        prepare_quality(source, self.data, work)
        return {file: value for name in self.data for file, value in published(work, name).items()}


class QualityLists(Listwise):
    """Lists of arguments by quality, and topics of held-out debates for validation."""

    measured = "Percent, means over the topics of held-out debates."

    def __init__(
        self, train: pd.DataFrame, dev: pd.DataFrame, lists: Lists, tokeniser: Tokeniser, device: torch.device
    ) -> None:
        """Build training lists from one table; validate on another. See `quality_table`."""
        labelled = lists_of(train, lists.size, lists.labels, lists.loss)
        super().__init__(train, labelled, LOSSES[lists.loss], dev, tokeniser, device)

    @classmethod
    def of(cls, lists: Lists, seed: int, tokeniser: Tokeniser, work: Path, device: torch.device) -> Self:
        """Load the tables and split them by debate. Raises InputError: missing, or of a single debate."""
        tables = [quality_table(work, name) for name in lists.data]
        masks = [held_out(table, seed) for table in tables]
        train = pd.concat([table[~mask] for table, mask in zip(tables, masks, strict=True)], ignore_index=True)
        validation = pd.concat([table[mask] for table, mask in zip(tables, masks, strict=True)], ignore_index=True)
        task = cls(train, validation, lists, tokeniser, device)
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
    """Return a mask (N,) of the rows whose debate is held out. Raises InputError: a single debate."""
    debates = sorted(set(table["debate"]))
    if len(debates) < 2:
        names = ", ".join(sorted(set(table["data"])))
        raise InputError(f"{names}: {len(debates)} debate; at least 2 are needed to hold one out")
    indices, _ = hold_out(len(debates), len(debates) // HELD_OUT, seed)
    return table["debate"].isin([debates[index] for index in indices]).to_numpy()
