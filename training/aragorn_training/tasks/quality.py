"""Train rankers listwise on quality; Spearman on held-out debates selects the checkpoint."""

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pandas as pd
from msgspec import Meta

from aragorn.storage.atomic_files import sha256_file
from aragorn.text.tokenisers import Tokeniser
from aragorn_training.data.quality import (
    CREDITS,
    FOLDERS,
    get_table_path,
    load_source_hashes,
    load_table,
)
from aragorn_training.data.split import hold_out_names
from aragorn_training.fitting.initialisation import TextNetworkSpec
from aragorn_training.fitting.listwise import (
    LISTWISE_CURVE,
    LOSSES,
    ListwiseTask,
    LossName,
    RankScope,
    build_ranked_lists,
)
from aragorn_training.fitting.recipe import Recipe
from aragorn_training.fitting.task import Task, TrainableNetwork

HOLD_OUT_ONE_IN = 5  # one in five debates is held out


class QualitySpec(TextNetworkSpec, frozen=True):
    """Settings of listwise training on argument quality; the batch size is a number of lists."""

    version: ClassVar[int] = 1

    curve: ClassVar = LISTWISE_CURVE
    data_kind: ClassVar = "quality"
    supported_networks: ClassVar = ("tfr_bert",)
    datasets: tuple[Literal["ukp", "ibm"], ...]  # other data sets are for testing only
    list_size: Annotated[int, Meta(ge=2, le=1_000)] = 12  # maximum arguments per list
    ranks_within: RankScope = "list"  # labels are dense ranks within the list or within its topic
    loss: LossName = "softmax"

    def __post_init__(self) -> None:
        """Raise ValueError if no data set is named or a name is repeated."""
        if not self.datasets or len(set(self.datasets)) < len(self.datasets):
            raise ValueError(
                f"quality.datasets is {list(self.datasets)}; expected ukp, ibm or both"
            )

    @property
    def published_files(self) -> tuple[str, ...]:
        """Names of the folders of the data sets."""
        return tuple(FOLDERS[name] for name in self.datasets)

    def build_task(
        self, recipe: Recipe, trainee: TrainableNetwork, work_dir: Path, device: str
    ) -> Task[Any]:
        """Load the tables of the data sets and hold out some debates of each for validation."""
        tables = [load_table(work_dir, name) for name in self.datasets]
        table = pd.concat(tables, ignore_index=True)
        mask = np.concatenate([mask_held_out_debates(part, recipe.seed) for part in tables])
        train, validation = (table[rows].reset_index(drop=True) for rows in (~mask, mask))
        task = QualityTask(train, validation, self, trainee.tokeniser, device)
        sources = [CREDITS[name] for name in self.datasets]
        task.data_description = " and ".join(
            f"{source.name} ({source.publisher}, {source.licence})" for source in sources
        )
        task.training_data = {
            "input": self._load_source_hashes(work_dir),
            "data": " and ".join(source.name for source in sources),
            "licence": " and ".join(source.licence for source in sources),
        }
        task.file_hashes = {
            name: sha256_file(get_table_path(work_dir, name)) for name in self.datasets
        }
        return task

    def check_prepared(self, work_dir: Path) -> None:
        """Raise InputError if a table is missing."""
        self._load_source_hashes(work_dir)

    def _load_source_hashes(self, work_dir: Path) -> dict[str, str]:
        return {
            file: value
            for name in self.datasets
            for file, value in load_source_hashes(work_dir, name).items()
        }


class QualityTask(ListwiseTask):
    """Training lists of arguments labelled by quality, and topics of held-out debates."""

    metrics_description = "Percent, means over the topics of held-out debates."

    def __init__(
        self,
        train: pd.DataFrame,
        validation: pd.DataFrame,
        spec: QualitySpec,
        tokeniser: Tokeniser,
        device: str,
    ) -> None:
        lists = build_ranked_lists(train, spec.list_size, spec.ranks_within, spec.loss)
        super().__init__(train, lists, LOSSES[spec.loss], validation, tokeniser, device)


def mask_held_out_debates(table: pd.DataFrame, seed: int) -> np.ndarray:
    """Return a mask (N,) of rows of held-out debates; InputError if there is only one debate."""
    debates = sorted(set(table["debate"]))
    names = ", ".join(sorted(set(table["data"])))
    held_out = hold_out_names(debates, HOLD_OUT_ONE_IN, seed, "debate", names)
    return table["debate"].isin(held_out).to_numpy()
