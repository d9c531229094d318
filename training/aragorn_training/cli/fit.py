"""Define the subcommands `fit`, which trains networks, and `reproduce`, which retrains
checkpoints."""

import argparse
from contextlib import nullcontext
from pathlib import Path

from aragorn.cli import Commands, add_options, add_path

from aragorn_training.cli.options import (
    add_input,
    add_output,
    add_work_dir,
    get_output,
    open_work_dir,
)


def add_parsers(commands: Commands) -> None:
    """Add the parsers of `fit` and `reproduce`."""
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

    description = (
        "retrain a checkpoint and compare its metrics with the stored ones "
        "(exit code 8: a difference of more than 2 points)"
    )
    parser = commands.add("reproduce", _reproduce, description)
    parser.add_argument(
        "recipe",
        metavar="NAME",
        help="recipe name or .toml file of a stored checkpoint, or ensemble system",
    )
    add_input(parser, "training data: the corpus, or the published data sets")
    add_work_dir(parser, "working directory; finished steps are reused")
    add_options(parser, "checkpoint_dir", "device")


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


def _reproduce(args: argparse.Namespace) -> None:
    from aragorn.inference.device import choose_device

    from aragorn_training.cli.reproduce import reproduce_checkpoint

    with open_work_dir(args.work_dir):
        device = choose_device(args.device)
        table, weights_result = reproduce_checkpoint(
            args.recipe, args.input_dir, args.work_dir, args.checkpoint_dir, device
        )
    print(f"{table.to_string(float_format=lambda value: f'{value:.2f}')}\n{weights_result}")
