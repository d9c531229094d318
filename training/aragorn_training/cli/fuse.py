"""Define the subcommand `fuse`, which fits the weights of fusions."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from aragorn.cli import Commands, add_options, add_path
from aragorn.errors import UsageError, escape_undecodable

from aragorn_training.cli.options import (
    QRELS_HELP,
    add_inputs,
    add_output,
    add_work_dir,
    get_output,
    open_execution,
    parse_named_path,
)

if TYPE_CHECKING:
    from aragorn.systems.catalogue import System


def add_parsers(commands: Commands) -> None:
    """Add the parser of `fuse`."""
    parser = commands.add(
        "fuse",
        _fuse,
        "fit the weights of a learned fusion to qrels, or those of an ensemble to validation pairs",
    )
    help_text = "name in training/aragorn_training/configs/fusions, .toml file, or ensemble system"
    parser.add_argument("fusion", metavar="FUSION", help=help_text)
    help_text = f"learned fusion only: {QRELS_HELP}; with a second file, e.g. quality=FILE, labels are weighted means of both"
    parser.add_argument(
        "--qrels",
        type=parse_named_path,
        action="append",
        default=[],
        metavar="[NAME=]FILE",
        help=help_text,
    )
    add_inputs(
        parser, "learned fusion only: judged input (topics and corpus); repeatable", required=False
    )
    add_work_dir(
        parser,
        "working directory, which caches finished steps; for an ensemble: prepared by `prepare pairs`",
    )
    add_options(parser, "checkpoint_dir")
    add_output(parser, "checkpoint directory (default: WORK_DIR/checkpoints/FUSION)")
    help_text = "ensemble only: require weights ≥ 0"
    parser.add_argument("--non-negative", "--positive", action="store_true", help=help_text)
    help_text = "learned fusion only: also evaluate the fusion with each candidate member, whose networks score the pool"
    parser.add_argument("--candidates", action="store_true", help=help_text)
    help_text = "learned fusion only: directory for the result tables (default: WORK_DIR/results)"
    add_path(parser, "--results", "--tables", help=help_text)
    add_options(parser, "device")


def _fuse(args: argparse.Namespace) -> None:
    from aragorn.systems.catalogue import SYSTEMS
    from aragorn.systems.fusion import EnsembleStage

    system = SYSTEMS.get(args.fusion)
    if system and isinstance(system.stage, EnsembleStage):
        _fuse_ensemble(system, args)
    elif missing_flags := [
        flag for flag, value in (("-i", args.inputs), ("--qrels", args.qrels)) if not value
    ]:
        raise UsageError(
            f"fuse {args.fusion}: a learned fusion is fitted to judgments; add {' and '.join(missing_flags)}"
        )
    else:
        _fuse_learned(args)


def _fuse_ensemble(system: System, args: argparse.Namespace) -> None:
    from aragorn.inference.device import choose_device
    from aragorn.systems.execution import CheckpointStore

    from aragorn_training.data.work_directory import lock_run
    from aragorn_training.fusion.ensemble import fit_ensemble

    if args.qrels:
        raise UsageError(
            f"fuse {system.name}: an ensemble is fitted to the validation pairs in --work-dir; remove --qrels"
        )
    output, device = (
        get_output(args, "checkpoints", system.stage.checkpoint or system.name),
        choose_device(args.device),
    )
    with lock_run(output.name, args.work_dir):
        fit_ensemble(
            system,
            args.work_dir,
            CheckpointStore(args.checkpoint_dir),
            output,
            device,
            args.non_negative,
        )


def _fuse_learned(args: argparse.Namespace) -> None:
    import msgspec

    from aragorn_training.evaluation.evaluate import HEADLINE_MEASURES
    from aragorn_training.fusion.learned import fit_fusion
    from aragorn_training.fusion.recipe import read_recipe

    recipe, name = read_recipe(args.fusion), escape_undecodable(Path(args.fusion).stem)
    if not args.candidates:
        recipe = msgspec.structs.replace(recipe, candidates=())
    output = get_output(args, "checkpoints", name)
    with open_execution(args, args.work_dir, output.parent) as execution:
        tables = fit_fusion(
            name, recipe, args.qrels, execution, output, args.results or args.work_dir / "results"
        )
    for table in tables.values():
        headline_rows = (
            table[table["measure"].isin(HEADLINE_MEASURES)] if "measure" in table else table
        )
        print(headline_rows.to_string(index=False, float_format="%.4f"), end="\n\n")
