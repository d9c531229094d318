"""Define the subcommand `fit`, which trains networks."""

import argparse
from contextlib import nullcontext
from pathlib import Path

from aragorn.cli import Commands, add_options, add_path

from aragorn_training.cli.options import (
    add_output,
    add_work_dir,
    get_output,
)


def add_parsers(commands: Commands) -> None:
    """Add the parser of `fit`."""
    parser = commands.add(
        "fit", _fit, "train a network from a recipe; an interrupted run is resumed"
    )
    parser.add_argument(
        "recipe",
        metavar="RECIPE",
        help="recipe name in training/aragorn_training/configs/recipes, or .toml file",
    )
    add_work_dir(parser, "working directory prepared by `prepare`")
    add_path(
        parser,
        "--vectors",
        help="directory of the word vectors (default: the output of `prepare vectors` in WORK_DIR)",
    )
    add_output(parser, "checkpoint directory (default: WORK_DIR/checkpoints/RECIPE)")
    add_options(parser, "device")
    parser.add_argument(
        "--restart", action="store_true", help="discard an interrupted run and start again"
    )


def _fit(args: argparse.Namespace) -> None:
    from aragorn.errors import escape_undecodable
    from aragorn.inference.device import choose_device

    from aragorn_training.data.word_vectors import get_default_folder_name
    from aragorn_training.data.work_directory import lock_run
    from aragorn_training.fitting.distributed import join_process_group
    from aragorn_training.fitting.fit import fit
    from aragorn_training.tasks import load_recipe

    recipe, name = load_recipe(args.recipe), escape_undecodable(Path(args.recipe).stem)
    output = get_output(args, "checkpoints", name)
    vectors = args.vectors or args.work_dir / get_default_folder_name(
        recipe.task.surface_vector_method
    )
    device = choose_device(args.device)
    with (
        join_process_group(device) as process,
        nullcontext() if process.rank else lock_run(name, args.work_dir),
    ):
        fit(name, recipe, args.work_dir, vectors, output, device, args.restart, process)
