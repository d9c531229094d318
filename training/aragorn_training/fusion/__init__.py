"""Fit and evaluate fusions: learned fusions on judgments, and ensembles on validation pairs."""

from dataclasses import dataclass
from pathlib import Path

from aragorn.options import argument, option
from aragorn_training.options import (
    QRELS_HELP,
    CheckpointOptions,
    DeviceOptions,
    NamedPath,
    WorkOptions,
    input_option,
    output_option,
    qrels_option,
)


@dataclass(frozen=True, kw_only=True)
class Options(DeviceOptions, CheckpointOptions, WorkOptions):
    """Options of `fuse`."""

    fusion: str = argument(
        metavar="FUSION",
        help="name in training/aragorn_training/configs/fusions, .toml file, or ensemble system",
    )
    qrels: tuple[NamedPath, ...] = qrels_option(
        f"learned fusion only: {QRELS_HELP}; with a second file, e.g. quality=FILE, labels are "
        "weighted means of both",
        (),
    )
    inputs: tuple[Path, ...] = input_option(
        "learned fusion only: judged input (topics and corpus); repeatable", (), metavar="INPUT"
    )
    output: Path | None = output_option(
        "checkpoint directory (default: WORK_DIR/checkpoints/FUSION)"
    )
    non_negative: bool = option(False, help="ensemble only: require weights ≥ 0")
    candidates: bool = option(
        False,
        help="learned fusion only: also evaluate the fusion with each candidate member, "
        "whose networks score the pool",
    )
    results: Path | None = option(
        None,
        help="learned fusion only: directory for the result tables (default: WORK_DIR/results)",
    )
