"""Tune parameters on judged topics and fit fusion weights."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from submission.cli import Commands, add_checkpoints, add_device, add_input, path_argument
from submission.errors import UsageError
from submission.paths import CHECKPOINT_DIR
from training.cli.options import (
    QRELS_HELP,
    SELECTION_MEASURES,
    add_fold_qrels,
    add_output,
    add_work_argument,
    named_path,
    open_execution,
    unique_names,
)
from training.paths import RESULTS

if TYPE_CHECKING:
    from submission.systems.catalogue import System


def add_parsers(commands: Commands) -> None:
    """Add the parsers of `tune` and `fuse`."""
    _add_tune(commands)
    _add_fuse(commands)


def _add_tune(commands: Commands) -> None:
    parser = commands.add(
        "tune", _run_tune, "grid-search retrieval parameters on judged topics, cross-validated; write a checkpoint"
    )
    parser.add_argument("grid", metavar="GRID", help="grid in training/configs/grids, .toml file, or `tfr_bert`")
    add_fold_qrels(parser)
    add_input(parser)
    parser.add_argument(
        "--measure", choices=SELECTION_MEASURES, default=SELECTION_MEASURES[0], help="measure to optimise (mean over topics)"
    )
    help_text = "cache for finished points (default: temporary directory); for tfr_bert: WORK prepared by `prepare lists`"
    parser.add_argument("--work", type=path_argument, metavar="DIR", help=help_text)
    add_checkpoints(parser)
    add_device(parser)
    add_output(parser, "checkpoint directory (default: checkpoints/GRID, or the system's checkpoint)")


def _add_fuse(commands: Commands) -> None:
    parser = commands.add("fuse", _run_fuse, "fit fusion weights: learned fusion on qrels, ensemble on validation pairs")
    parser.add_argument(
        "fusion", metavar="FUSION", help="fusion in training/configs/fusions, .toml file, or an ensemble system"
    )
    help_text = f"learned fusion only: {QRELS_HELP}; with a second file, e.g. quality=FILE, labels are a weighted mean of both"
    parser.add_argument("--qrels", type=named_path, action="append", default=[], metavar="[NAME=]FILE", help=help_text)
    add_input(parser)
    add_work_argument(parser, "working directory; caches finished steps; for an ensemble: prepared by `prepare pairs`")
    add_checkpoints(parser)
    add_output(parser, "checkpoint directory (default: checkpoints/FUSION; for an ensemble: WORK/checkpoints/FUSION)")
    parser.add_argument("--positive", action="store_true", help="ensemble only: constrain weights to ≥ 0")
    parser.add_argument("--tables", type=path_argument, default=RESULTS, metavar="DIR", help="directory for result CSVs")
    add_device(parser)


def _run_tune(options: argparse.Namespace) -> None:
    from submission.systems.catalogue import SYSTEMS
    from submission.systems.quality_reranking import QualityRerankingStage

    system = SYSTEMS.get(options.grid)
    if system and isinstance(system.stage, QualityRerankingStage):
        _tune_quality(system, options)
    else:
        _tune_lexical(options)


def _tune_lexical(options: argparse.Namespace) -> None:
    from training.tuning.grid import load_grid, tune_grid

    grid, name, qrels = load_grid(options.grid), Path(options.grid).stem, unique_names(options.qrels, "qrels")
    output = options.output or CHECKPOINT_DIR / name
    with open_execution(options, output.parent) as execution:
        table = tune_grid(name, grid, qrels, execution, output, options.measure)
    print(table.sort_values(options.measure, ascending=False).head(10).to_string(index=False, float_format="%.4f"))


def _tune_quality(system: System, options: argparse.Namespace) -> None:
    from training.tuning.quality import tune_quality

    if len(options.qrels) > 1 or options.work_dir is None:
        raise UsageError(f"tune {system.name}: expected exactly one --qrels, and --work prepared by `prepare lists`")
    output = options.output or CHECKPOINT_DIR / (system.stage.checkpoint or system.name)
    with open_execution(options, output.parent) as execution:
        table = tune_quality(system, options.qrels[0][1], execution, output)
    print(table.to_string(index=False, float_format="%.4f"))


def _run_fuse(options: argparse.Namespace) -> None:
    from submission.systems.catalogue import SYSTEMS
    from submission.systems.ensemble import EnsembleStage

    system = SYSTEMS.get(options.fusion)
    if system and isinstance(system.stage, EnsembleStage):
        _fuse_ensemble(system, options)
    elif options.qrels:
        _fuse_learned(options)
    else:
        raise UsageError(f"fuse {options.fusion}: a learned fusion is fitted to judgments; add --qrels")


def _fuse_ensemble(system: System, options: argparse.Namespace) -> None:
    from submission.inference.device import choose_device
    from submission.systems.checkpoint_store import CheckpointStore
    from training.data.work_directory import lock_work_directory
    from training.fusion.ensemble import fit_ensemble

    if options.qrels:
        raise UsageError(f"fuse {system.name}: an ensemble is fitted to the validation pairs in --work; remove --qrels")
    output = options.output or options.work_dir / "checkpoints" / (system.stage.checkpoint or system.name)
    with lock_work_directory(options.work_dir):
        fit_ensemble(
            system,
            options.work_dir,
            CheckpointStore(options.checkpoint_dir),
            output,
            choose_device(options.device),
            options.positive,
        )


def _fuse_learned(options: argparse.Namespace) -> None:
    from training.evaluation.evaluate import HEADLINE_MEASURES
    from training.fusion.learned import fit_fusion
    from training.fusion.recipe import read_recipe

    recipe, name = read_recipe(options.fusion), Path(options.fusion).stem
    output = options.output or CHECKPOINT_DIR / name
    with open_execution(options, output.parent) as execution:
        tables = fit_fusion(name, recipe, options.qrels, execution, output, options.tables)
    for table in tables.values():
        headline_rows = table[table["measure"].isin(HEADLINE_MEASURES)] if "measure" in table else table
        print(headline_rows.to_string(index=False, float_format="%.4f"), end="\n\n")
