"""Tune parameters on judged topics and fit fusion weights."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from submission.cli import Verbs, add_checkpoints, add_device, add_input, folder
from submission.errors import UsageError
from submission.paths import CHECKPOINTS
from training.cli.options import MEASURES, QRELS, add_fold_qrels, add_output, add_work, by_name, computing, named
from training.paths import MEASURED

if TYPE_CHECKING:
    from submission.systems.catalogue import System


def add(verbs: Verbs) -> None:
    """Add the parsers of `tune` and `fuse`."""
    _add_tune(verbs)
    _add_fuse(verbs)


def _add_tune(verbs: Verbs) -> None:
    parser = verbs.add("tune", _tune, "grid-search retrieval parameters on judged topics, cross-validated; write a checkpoint")
    parser.add_argument("grid", metavar="GRID", help="grid in training/configs/grids, .toml file, or `tfr_bert`")
    add_fold_qrels(parser)
    add_input(parser)
    parser.add_argument("--measure", choices=MEASURES, default=MEASURES[0], help="measure to optimise (mean over topics)")
    help_text = "cache for finished points (default: temporary directory); for tfr_bert: WORK prepared by `prepare lists`"
    parser.add_argument("--work", type=folder, metavar="DIR", help=help_text)
    add_checkpoints(parser)
    add_device(parser)
    add_output(parser, "checkpoint directory (default: checkpoints/GRID, or the system's checkpoint)")


def _add_fuse(verbs: Verbs) -> None:
    parser = verbs.add("fuse", _fuse, "fit fusion weights: learned fusion on qrels, ensemble on validation pairs")
    parser.add_argument(
        "fusion", metavar="FUSION", help="fusion in training/configs/fusions, .toml file, or an ensemble system"
    )
    help_text = f"learned fusion only: {QRELS}; with a second file, e.g. quality=FILE, labels are a weighted mean of both"
    parser.add_argument("--qrels", type=named, action="append", default=[], metavar="[NAME=]FILE", help=help_text)
    add_input(parser)
    add_work(parser, "working directory; caches finished steps; for an ensemble: prepared by `prepare pairs`")
    add_checkpoints(parser)
    add_output(parser, "checkpoint directory (default: checkpoints/FUSION; for an ensemble: WORK/checkpoints/FUSION)")
    parser.add_argument("--positive", action="store_true", help="ensemble only: constrain weights to ≥ 0")
    parser.add_argument("--tables", type=folder, default=MEASURED.parent, metavar="DIR", help="directory for result CSVs")
    add_device(parser)


def _tune(options: argparse.Namespace) -> None:
    from submission.systems.catalogue import SYSTEMS
    from submission.systems.quality_reranking import QualityReranking

    system = SYSTEMS.get(options.grid)
    if system and isinstance(system.stage, QualityReranking):
        _tune_quality(system, options)
    else:
        _tune_grid(options)


def _tune_grid(options: argparse.Namespace) -> None:
    from training.tuning.grid import read_grid, tune

    grid, name, qrels = read_grid(options.grid), Path(options.grid).stem, by_name(options.qrels, "qrels")
    output = options.output or CHECKPOINTS / name
    with computing(options, output.parent) as execution:
        table = tune(name, grid, qrels, execution, output, options.measure)
    print(table.sort_values(options.measure, ascending=False).head(10).to_string(index=False, float_format="%.4f"))


def _tune_quality(system: System, options: argparse.Namespace) -> None:
    from training.tuning.quality import tune_quality

    if len(options.qrels) > 1 or options.work is None:
        raise UsageError(f"tune {system.name}: expected exactly one --qrels, and --work prepared by `prepare lists`")
    output = options.output or CHECKPOINTS / (system.stage.checkpoint or system.name)
    with computing(options, output.parent) as execution:
        table = tune_quality(system, options.qrels[0][1], execution, output)
    print(table.to_string(index=False, float_format="%.4f"))


def _fuse(options: argparse.Namespace) -> None:
    from submission.systems.catalogue import SYSTEMS
    from submission.systems.ensemble import Ensemble

    system = SYSTEMS.get(options.fusion)
    if system and isinstance(system.stage, Ensemble):
        _fit_ensemble(system, options)
    elif options.qrels:
        _fit_fusion(options)
    else:
        raise UsageError(f"fuse {options.fusion}: a learned fusion is fitted to judgments; add --qrels")


def _fit_ensemble(system: System, options: argparse.Namespace) -> None:
    from submission.inference.device import choose_device
    from submission.systems.checkpoint_store import Checkpoints
    from training.data.work_directory import held
    from training.fusion.ensemble import aggregate

    if options.qrels:
        raise UsageError(f"fuse {system.name}: an ensemble is fitted to the validation pairs in --work; remove --qrels")
    output = options.output or options.work / "checkpoints" / (system.stage.checkpoint or system.name)
    with held(options.work):
        aggregate(
            system, options.work, Checkpoints(options.checkpoints), output, choose_device(options.device), options.positive
        )


def _fit_fusion(options: argparse.Namespace) -> None:
    from training.evaluation.evaluate import HEADLINES
    from training.fusion.learned import fuse
    from training.fusion.recipe import read_recipe

    recipe, name = read_recipe(options.fusion), Path(options.fusion).stem
    output = options.output or CHECKPOINTS / name
    with computing(options, output.parent) as execution:
        tables = fuse(name, recipe, options.qrels, execution, output, options.tables)
    for table in tables.values():
        headline_rows = table[table["measure"].isin(HEADLINES)] if "measure" in table else table
        print(headline_rows.to_string(index=False, float_format="%.4f"), end="\n\n")
