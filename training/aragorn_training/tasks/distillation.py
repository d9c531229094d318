"""Learn a teacher's scores, or labels of pairs, listwise; Spearman on held-out queries selects the
checkpoint."""

from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np
from msgspec import Meta

from aragorn_training.data.corpora import format_credit
from aragorn_training.data.distillation import get_table_path, load_table
from aragorn_training.data.split import hold_out_names
from aragorn_training.fitting.initialisation import TextNetworkSpec
from aragorn_training.fitting.listwise import (
    LISTWISE_CURVE,
    LOSSES,
    MARGIN_MSE,
    ListwiseTask,
    build_lists,
)
from aragorn_training.fitting.recipe import Recipe
from aragorn_training.fitting.task import TrainableNetwork

HOLD_OUT_ONE_IN = 10  # one in ten queries is held out


class DistillationSpec(TextNetworkSpec, frozen=True):
    """Settings of listwise distillation; the batch size is a number of lists."""

    version: ClassVar[int] = 1

    curve: ClassVar = LISTWISE_CURVE
    data_kind: ClassVar = "distillation"
    # squared error of scores, or of score differences
    loss: Literal["mse", "margin_mse"] = "margin_mse"
    list_size: Annotated[int, Meta(ge=2, le=1_000)] = 12  # maximum documents per list

    def build_task(
        self, recipe: Recipe, trainee: TrainableNetwork, work_dir: Path, device: str
    ) -> ListwiseTask:
        """Load the scored documents, some titles held out; InputError for fewer than two."""
        table, manifest = load_table(work_dir)
        titles = table["topic"].unique().tolist()
        file = get_table_path(work_dir)
        held_out = hold_out_names(titles, HOLD_OUT_ONE_IN, recipe.seed, "title", file)
        is_held_out = table["topic"].isin(held_out)
        train, validation = (
            table[rows].reset_index(drop=True) for rows in (~is_held_out, is_held_out)
        )
        lists = build_lists(train, self.list_size, _shift_to_zero)
        loss = MARGIN_MSE if self.loss == "margin_mse" else LOSSES["mse"]
        task = DistillationTask(train, lists, loss, validation, trainee.tokeniser, device)
        if "teacher" in manifest.inputs:
            arguments = format_credit(manifest.inputs)
            teacher = table["data"].iloc[0]
            task.data_description = f"{arguments}, scored by {teacher} for debate titles"
        else:
            task.data_description = f"the labelled pairs of {manifest.inputs['data']}"
        task.training_data = manifest.inputs
        task.file_hashes = {name: file.xxh3 for name, file in manifest.files.items()}
        return task

    def check_prepared(self, work_dir: Path) -> None:
        """Raise InputError if the table of scored documents is missing."""
        load_table(work_dir)


class DistillationTask(ListwiseTask):
    """Training lists scored by a teacher for debate titles, or labelled, and held-out queries."""

    metrics_description = (
        "Percent, mean over held-out queries: correlation with the teacher's scores or labels."
    )


def _shift_to_zero(scores: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """Return a list's scores minus the topic's lowest, as labels must not be negative."""
    return np.asarray(scores[indices] - scores.min())
