"""Checkpoints of what judged topics decide: parameters and weights."""

from __future__ import annotations

import argparse
from pathlib import Path

from submission.command import Verbs, add_checkpoints, add_device, add_input, folder
from submission.paths import CHECKPOINTS
from training.commands.shared import MEASURES, QRELS, by_name, computing, named
from training.paths import MEASURED


def add(verbs: Verbs) -> None:
    """The flags of these verbs."""
    verb = verbs.add("tune", _tune, "a grid of parameters over judged topics → a lexical system's checkpoint")
    verb.add_argument("grid", metavar="GRID", help="a name in training/grids, or a .toml file")
    what = f"{QRELS}; one: five folds over its topics; several: each is a fold"
    verb.add_argument("--qrels", type=named, action="append", required=True, metavar="[NAME=]FILE", help=what)
    add_input(verb)
    verb.add_argument("--measure", choices=MEASURES, default=MEASURES[0], help="by whose mean points are compared")
    verb.add_argument(
        "--work", type=folder, metavar="DIR", help="what is finished is kept there (default: a temporary directory)"
    )
    add_checkpoints(verb)
    add_device(verb)
    verb.add_argument("-o", "--output", type=folder, metavar="DIR", help="the checkpoint (default: checkpoints/GRID)")

    verb = verbs.add("tune-quality", _tune_quality, "how many documents a system re-orders by quality, and how much")
    verb.add_argument("system", metavar="SYSTEM", help="one that re-orders")
    verb.add_argument("--qrels", type=folder, required=True, metavar="FILE", help=f"of relevance: {QRELS}")
    add_input(verb)
    verb.add_argument("--work", type=folder, required=True, metavar="WORK", help="what `prepare-quality` wrote")
    add_checkpoints(verb)
    add_device(verb)
    verb.add_argument("-o", "--output", type=folder, metavar="DIR", help="the checkpoint (default: in checkpoints/)")

    verb = verbs.add("fuse", _fuse, "a learned fusion's weights by judged topics → its checkpoint, and what each feature adds")
    verb.add_argument("recipe", metavar="FUSION", help="a name in training/fusions, or a .toml file")
    what = f"{QRELS}; a second one, e.g. quality=FILE: the labels are a mixture of both"
    verb.add_argument("--qrels", type=named, action="append", required=True, metavar="[NAME=]FILE", help=what)
    add_input(verb)
    verb.add_argument("--work", type=folder, required=True, metavar="WORK", help="what is finished is kept there")
    add_checkpoints(verb)
    verb.add_argument("-o", "--output", type=folder, metavar="DIR", help="the checkpoint (default: checkpoints/FUSION)")
    verb.add_argument("--tables", type=folder, default=MEASURED.parent, metavar="DIR", help="where the tables go, as CSV")
    add_device(verb)


def _tune(options: argparse.Namespace) -> None:
    from training.tune import read_grid, tune

    grid, name, qrels = read_grid(options.grid), Path(options.grid).stem, by_name(options.qrels, "qrels")
    output = options.output or CHECKPOINTS / name
    with computing(options, output.parent) as execution:
        table = tune(name, grid, qrels, execution, output, options.measure)
    print(table.sort_values(options.measure, ascending=False).head(10).to_string(index=False, float_format="%.4f"))


def _tune_quality(options: argparse.Namespace) -> None:
    from submission.systems.catalogue import find
    from training.studies.argument_quality.tune import tune_quality

    system = find(options.system)
    output = options.output or CHECKPOINTS / (system.stage.checkpoint or system.name)
    with computing(options, output.parent) as execution:
        table = tune_quality(system, options.qrels, execution, output)
    print(table.to_string(index=False, float_format="%.4f"))


def _fuse(options: argparse.Namespace) -> None:
    from training.fuse import fuse
    from training.fusing.recipe import read_recipe
    from training.measuring.evaluate import HEADLINES

    recipe, name = read_recipe(options.recipe), Path(options.recipe).stem
    output = options.output or CHECKPOINTS / name
    with computing(options, output.parent) as execution:
        tables = fuse(name, recipe, options.qrels, execution, output, options.tables)
    for table in tables.values():
        shown = table[table["measure"].isin(HEADLINES)] if "measure" in table else table
        print(shown.to_string(index=False, float_format="%.4f"), end="\n\n")
