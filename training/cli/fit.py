"""Define the subcommands `fit`, which trains networks, and `reproduce`, which retrains checkpoints."""

import argparse
import os
from contextlib import nullcontext
from pathlib import Path

from submission.cli import Commands, add_options, add_path
from training.cli.options import add_input, add_output, add_work_dir, get_output, open_work_dir


def add_parsers(commands: Commands) -> None:
    """Add the parsers of `fit` and `reproduce`."""
    parser = commands.add("fit", _fit, "train a network from a recipe; an interrupted run is resumed")
    parser.add_argument("recipe", nargs="?", metavar="RECIPE", help="recipe name in training/configs/recipes, or .toml file")
    parser.add_argument("--all", action="store_true", help="train the networks of all systems, one process per GPU")
    add_work_dir(parser, "working directory prepared by `prepare`")
    add_path(parser, "--vectors", help="directory of the word vectors (default: the output of `prepare vectors` in WORK_DIR)")
    add_output(parser, "checkpoint directory (default: WORK_DIR/checkpoints/RECIPE)")
    add_options(parser, "device")
    parser.add_argument("--restart", action="store_true", help="discard an interrupted run and start again")

    description = (
        "retrain a checkpoint and compare its metrics with the stored ones (exit code 8: a difference of more than 2 points)"
    )
    parser = commands.add("reproduce", _reproduce, description)
    parser.add_argument("recipe", metavar="NAME", help="name of a recipe with a stored checkpoint, or `ensemble`")
    add_input(parser, "training data: the corpus, or the published data sets")
    add_work_dir(parser, "working directory; finished steps are reused")
    add_options(parser, "checkpoint_dir", "device")


def _fit(args: argparse.Namespace) -> None:
    from submission.errors import UsageError, escape_undecodable
    from submission.inference.device import choose_device
    from training.data.word_vectors import get_default_folder_name
    from training.data.work_directory import lock_run
    from training.fitting.distributed import join_process_group
    from training.fitting.fit import fit
    from training.tasks import load_recipe

    if args.all:
        _fit_all(args)
        return
    if not args.recipe:
        raise UsageError("fit: no recipe; add RECIPE or --all")
    recipe, name = load_recipe(args.recipe), escape_undecodable(Path(args.recipe).stem)
    output = get_output(args, "checkpoints", name)
    vectors = args.vectors or args.work_dir / get_default_folder_name(recipe.task.surface_vector_method)
    device = choose_device(args.device)
    with join_process_group(device) as process, nullcontext() if process.rank else lock_run(name, args.work_dir):
        fit(name, recipe, args.work_dir, vectors, output, device, args.restart, process)


def _fit_all(args: argparse.Namespace) -> None:
    import torch

    from submission.errors import UsageError
    from submission.inference.device import choose_device
    from training.cli.fit_all import fit_all, load_recipes_in_order

    for name, is_present in (("RECIPE", args.recipe), ("--output", args.output), ("torchrun", "WORLD_SIZE" in os.environ)):
        if is_present:
            raise UsageError(f"fit --all cannot be combined with {name}; omit one of the two")
    n_gpus = torch.cuda.device_count() if choose_device(args.device).type == "cuda" else 0
    fit_args = ["--device", args.device, *(["--vectors", str(args.vectors)] if args.vectors else [])]
    if args.restart:
        fit_args.append("--restart")
    fit_all(load_recipes_in_order(), fit_args, args.work_dir, args.vectors, n_gpus)


def _reproduce(args: argparse.Namespace) -> None:
    from submission.inference.device import choose_device
    from training.cli.reproduce import reproduce_checkpoint

    with open_work_dir(args.work_dir):
        device = choose_device(args.device)
        table, weights_result = reproduce_checkpoint(args.recipe, args.input_dir, args.work_dir, args.checkpoint_dir, device)
    print(f"{table.to_string(float_format=lambda value: f'{value:.2f}')}\n{weights_result}")
