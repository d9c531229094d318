"""Train listwise on argument quality; Spearman on held-out debates selects the checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
import torch
from msgspec import Meta

from submission.errors import InputError
from submission.storage.atomic_files import sha256_file
from submission.text.tokenisers import Tokeniser
from training.data.quality import CREDITS, load_table, prepare_quality, source_hashes, table_path
from training.data.split import hold_out
from training.fitting.initialisation import TextNetworkSpec
from training.fitting.listwise import LISTWISE_CURVE, ListwiseTask, RankScope, build_ranked_lists
from training.fitting.listwise_losses import LOSSES, LossName
from training.fitting.recipe import Recipe
from training.fitting.trainable import TrainableNetwork

HOLD_OUT_ONE_IN = 5


class QualitySpec(TextNetworkSpec, frozen=True):
    """Data, lists and loss; batch sizes count lists."""

    curve: ClassVar = LISTWISE_CURVE
    supported_networks: ClassVar = ("tfr_bert",)
    datasets: tuple[Literal["ukp", "ibm"], ...]  # other data sets are for testing only
    list_size: Annotated[int, Meta(ge=2)] = 12  # arguments per list, at most
    ranks_within: RankScope = "list"  # labels: dense ranks within the list or its topic
    loss: LossName = "softmax"

    def __post_init__(self) -> None:
        """Raise ValueError if data sets are missing or repeated."""
        if not self.datasets or len(set(self.datasets)) < len(self.datasets):
            raise ValueError(f"quality.datasets is {list(self.datasets)}; expected ukp, ibm or both")

    def build_task(self, recipe: Recipe, trainee: TrainableNetwork[Any, Any], work: Path, device: torch.device) -> QualityTask:
        """Load training lists and validation topics. Raises InputError: missing, or of a single debate."""
        return QualityTask.of(self, recipe.seed, trainee.reader, work, device)

    def check_prepared(self, work: Path) -> None:
        """Raise InputError if a table is missing."""
        for name in self.datasets:
            source_hashes(work, name)

    def prepare_again(self, source: Path, work: Path, made: dict[str, Any]) -> dict[str, str]:
        """Prepare the tables again."""
        prepare_quality(source, self.datasets, work)
        return {file: value for name in self.datasets for file, value in source_hashes(work, name).items()}


class QualityTask(ListwiseTask):
    """Lists of arguments by quality, and topics of held-out debates for validation."""

    metrics_description = "Percent, means over the topics of held-out debates."

    def __init__(
        self, train: pd.DataFrame, validation: pd.DataFrame, lists: QualitySpec, tokeniser: Tokeniser, device: torch.device
    ) -> None:
        """Build training lists from one table; validate on another. See `quality_table`."""
        labelled = build_ranked_lists(train, lists.list_size, lists.ranks_within, lists.loss)
        super().__init__(train, labelled, LOSSES[lists.loss], validation, tokeniser, device)

    @classmethod
    def of(cls, lists: QualitySpec, seed: int, tokeniser: Tokeniser, work: Path, device: torch.device) -> Self:
        """Load the tables and split them by debate. Raises InputError: missing, or of a single debate."""
        tables = [load_table(work, name) for name in lists.datasets]
        masks = [held_out_debates(table, seed) for table in tables]
        train = pd.concat([table[~mask] for table, mask in zip(tables, masks, strict=True)], ignore_index=True)
        validation = pd.concat([table[mask] for table, mask in zip(tables, masks, strict=True)], ignore_index=True)
        task = cls(train, validation, lists, tokeniser, device)
        sources = [CREDITS[name] for name in lists.datasets]
        task.data_description = " and ".join(f"{source.name} ({source.publisher}, {source.licence})" for source in sources)
        task.training_data = {
            "input": {file: value for name in lists.datasets for file, value in source_hashes(work, name).items()},
            "data": " and ".join(source.name for source in sources),
            "licence": " and ".join(source.licence for source in sources),
        }
        task.file_hashes = {name: sha256_file(table_path(work, name)) for name in lists.datasets}
        return task


def held_out_debates(table: pd.DataFrame, seed: int) -> np.ndarray:
    """Return a mask (N,) of the rows whose debate is held out. Raises InputError: a single debate."""
    debates = sorted(set(table["debate"]))
    if len(debates) < 2:
        names = ", ".join(sorted(set(table["data"])))
        raise InputError(f"{names}: {len(debates)} debate; at least 2 are needed to hold one out")
    indices, _ = hold_out(len(debates), len(debates) // HOLD_OUT_ONE_IN, seed)
    return table["debate"].isin([debates[index] for index in indices]).to_numpy()
