"""`tune` and `fuse`: checkpoints whose parameters or weights are fitted to judgments."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from submission.command import Verbs, add_checkpoints, add_device, add_input, folder
from submission.errors import UsageError
from submission.paths import CHECKPOINTS
from training.commands.shared import MEASURES, QRELS, add_work, by_name, computing, named
from training.paths import MEASURED

if TYPE_CHECKING:
    from submission.systems.catalogue import System


def add(verbs: Verbs) -> None:
    """Add these verbs with their flags."""
    verb = verbs.add("tune", _tune, "a grid of parameters over judged topics → a checkpoint with the best of them")
    verb.add_argument(
        "grid", metavar="GRID", help="a name in training/grids, a .toml file, or a system that re-ranks by quality"
    )
    what = f"{QRELS}; one: five folds over its topics; several: each is a fold"
    verb.add_argument("--qrels", type=named, action="append", required=True, metavar="[NAME=]FILE", help=what)
    add_input(verb)
    verb.add_argument("--measure", choices=MEASURES, default=MEASURES[0], help="by whose mean points of a grid are compared")
    what = "finished points are kept there (default: a temporary directory); by quality, it has what `prepare lists` wrote"
    verb.add_argument("--work", type=folder, metavar="DIR", help=what)
    add_checkpoints(verb)
    add_device(verb)
    what = "the checkpoint (default: checkpoints/GRID, or the system's)"
    verb.add_argument("-o", "--output", type=folder, metavar="DIR", help=what)

    verb = verbs.add(
        "fuse", _fuse, "fit a fusion's weights: a learned fusion's to judged topics, an ensemble's to validation pairs"
    )
    verb.add_argument(
        "fusion", metavar="FUSION", help="a name in training/fusions, a .toml file, or an ensemble of the systems"
    )
    what = f"of a learned fusion: {QRELS}; a second one, e.g. quality=FILE: the labels are a mixture of both"
    verb.add_argument("--qrels", type=named, action="append", default=[], metavar="[NAME=]FILE", help=what)
    add_input(verb)
    add_work(verb, "finished parts are kept there; for an ensemble, it has what `prepare pairs` wrote")
    add_checkpoints(verb)
    what = "the checkpoint (default: checkpoints/FUSION; of an ensemble, in WORK/checkpoints)"
    verb.add_argument("-o", "--output", type=folder, metavar="DIR", help=what)
    verb.add_argument("--positive", action="store_true", help="of an ensemble: no network's weight may be below 0")
    verb.add_argument("--tables", type=folder, default=MEASURED.parent, metavar="DIR", help="where the tables go, as CSV")
    add_device(verb)


def _tune(options: argparse.Namespace) -> None:
    from submission.systems.catalogue import SYSTEMS
    from submission.systems.quality_reranking import QualityReranking

    system = SYSTEMS.get(options.grid)
    if system and isinstance(system.stage, QualityReranking):
        _tune_quality(system, options)
    else:
        _tune_grid(options)


def _tune_grid(options: argparse.Namespace) -> None:
    from training.tune import read_grid, tune

    grid, name, qrels = read_grid(options.grid), Path(options.grid).stem, by_name(options.qrels, "qrels")
    output = options.output or CHECKPOINTS / name
    with computing(options, output.parent) as execution:
        table = tune(name, grid, qrels, execution, output, options.measure)
    print(table.sort_values(options.measure, ascending=False).head(10).to_string(index=False, float_format="%.4f"))


def _tune_quality(system: System, options: argparse.Namespace) -> None:
    from training.studies.argument_quality.tune import tune_quality

    if len(options.qrels) > 1 or options.work is None:
        raise UsageError(f"tune {system.name}: expected one --qrels, and --work with what `prepare lists` wrote")
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
        raise UsageError(f"fuse {options.fusion}: expected --qrels, the judgments that a learned fusion is fitted to")


def _fit_ensemble(system: System, options: argparse.Namespace) -> None:
    from submission.scoring.device import choose_device
    from submission.systems.remembered import Checkpoints
    from training.data.work import held
    from training.fusing.aggregate import aggregate

    if options.qrels:
        raise UsageError(f"fuse {system.name}: is fitted to the validation pairs in --work, and takes no --qrels")
    output = options.output or options.work / "checkpoints" / (system.stage.checkpoint or system.name)
    with held(options.work):
        aggregate(
            system, options.work, Checkpoints(options.checkpoints), output, choose_device(options.device), options.positive
        )


def _fit_fusion(options: argparse.Namespace) -> None:
    from training.fuse import fuse
    from training.fusing.recipe import read_recipe
    from training.measuring.evaluate import HEADLINES

    recipe, name = read_recipe(options.fusion), Path(options.fusion).stem
    output = options.output or CHECKPOINTS / name
    with computing(options, output.parent) as execution:
        tables = fuse(name, recipe, options.qrels, execution, output, options.tables)
    for table in tables.values():
        shown = table[table["measure"].isin(HEADLINES)] if "measure" in table else table
        print(shown.to_string(index=False, float_format="%.4f"), end="\n\n")
