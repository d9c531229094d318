"""Define the subcommand `tune`, which tunes parameters on judged topics."""

import argparse
from pathlib import Path

from aragorn.cli import Commands, add_options
from aragorn.errors import UsageError, escape_undecodable

from aragorn_training.cli import options


def add_parsers(commands: Commands) -> None:
    """Add the parser of `tune`."""
    description = (
        "grid-search parameters on judged topics with cross-validation and write a checkpoint"
    )
    parser = commands.add("tune", _tune, description)
    parser.add_argument(
        "grid",
        metavar="GRID",
        help="grid name in training/aragorn_training/configs/grids, .toml file, or `tfr_bert`",
    )
    options.add_fold_qrels(parser)
    options.add_inputs(parser, "judged input: topics and corpus; repeatable")
    options.add_measure(parser)
    help_text = "cache of finished points (default: a temporary directory); for `tfr_bert`: prepared by `prepare quality`"
    options.add_work_dir(parser, help_text, required=False)
    add_options(parser, "checkpoint_dir", "device")
    options.add_output(
        parser,
        "checkpoint directory (default: WORK_DIR/checkpoints/GRID, or the system's checkpoint)",
    )


def _tune(args: argparse.Namespace) -> None:
    from aragorn.systems.catalogue import SYSTEMS
    from aragorn.systems.quality_reranking import QualityRerankingStage

    from aragorn_training.tuning.grid import load_grid, tune_grid
    from aragorn_training.tuning.quality import tune_quality

    system = SYSTEMS.get(args.grid)
    if system and isinstance(system.stage, QualityRerankingStage):
        if len(args.qrels) > 1:
            raise UsageError(
                f"tune {system.name}: {len(args.qrels)} qrels files; pass exactly one --qrels"
            )
        if args.work_dir is None:
            raise UsageError(
                f"tune {system.name}: no --work-dir; add the directory prepared by `prepare quality`"
            )
        output = options.get_output(args, "checkpoints", system.stage.checkpoint or system.name)
        with options.open_execution(args, args.work_dir, output.parent) as execution:
            table = tune_quality(system, args.qrels[0][1], execution, output)
    else:
        grid, name = load_grid(args.grid), escape_undecodable(Path(args.grid).stem)
        qrels = options.index_files_by_name(args.qrels, "qrels")
        output = options.get_output(args, "checkpoints", name)
        with options.open_execution(args, args.work_dir, output.parent) as execution:
            table = tune_grid(name, grid, qrels, execution, output, args.measure)
        table = table.sort_values(args.measure, ascending=False).head(10)
    print(table.to_string(index=False, float_format="%.4f"))
