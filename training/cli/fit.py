"""Train networks from recipes and reproduce checkpoints."""

from __future__ import annotations

import argparse
import os
from contextlib import nullcontext
from pathlib import Path

from submission.cli import Commands, add_checkpoints, add_device, path_argument
from training.cli.options import add_data_argument, add_output, add_work_argument, locked_work_dir


def add_parsers(commands: Commands) -> None:
    """Add the parsers of `fit` and `reproduce`."""
    parser = commands.add("fit", _fit, "train a network from a recipe; an interrupted run is resumed")
    parser.add_argument("recipe", nargs="?", metavar="RECIPE", help="recipe name in training/configs/recipes, or .toml file")
    parser.add_argument("--all", action="store_true", help="train the recipes of all systems, one process per GPU")
    add_work_argument(parser, "working directory prepared by `prepare`")
    help_text = "word vectors from `prepare vectors` (default: its output in WORK)"
    parser.add_argument("--vectors", type=path_argument, metavar="DIR", help=help_text)
    add_output(parser, "checkpoint directory (default: WORK/checkpoints/RECIPE)")
    add_device(parser)
    parser.add_argument("--restart", action="store_true", help="discard the interrupted run")

    help_text = "retrain a checkpoint and compare metrics (OK: ≤ 0.1 points, near: ≤ 2, else exit code 8)"
    parser = commands.add("reproduce", _reproduce, help_text)
    parser.add_argument("recipe", metavar="NAME", help="recipe that has a stored checkpoint, or ensemble")
    add_data_argument(parser, "training data: the corpus, or the published data sets")
    add_work_argument(parser, "working directory; finished steps are reused")
    add_checkpoints(parser)
    add_device(parser)


def _fit(options: argparse.Namespace) -> None:
    from submission.errors import UsageError
    from submission.inference.device import choose_device
    from training.data.word_vectors import default_folder
    from training.data.work_directory import lock_run
    from training.fitting.distributed import join_process_group
    from training.fitting.fit import fit
    from training.tasks import load_recipe

    if options.all:
        _fit_all(options)
        return
    if not options.recipe:
        raise UsageError("fit: expected RECIPE or --all")
    recipe, name = load_recipe(options.recipe), Path(options.recipe).stem
    output = options.output or options.work_dir / "checkpoints" / name
    vectors = options.vectors or options.work_dir / default_folder(recipe.task.surface_vectors)
    device = choose_device(options.device)
    with join_process_group(device) as process, nullcontext() if process.rank else lock_run(name, options.work_dir):
        fit(name, recipe, options.work_dir, vectors, output, device, options.restart, process)


def _fit_all(options: argparse.Namespace) -> None:
    import torch

    from submission.errors import UsageError
    from submission.inference.device import choose_device
    from training.cli.fit_all import fit_all, load_recipes_in_order

    if options.recipe or options.output or "WORLD_SIZE" in os.environ:
        raise UsageError("fit --all: cannot be combined with RECIPE, --output or torchrun")
    n_gpus = torch.cuda.device_count() if choose_device(options.device).type == "cuda" else 0
    fit_args = ["--device", options.device, *(["--vectors", str(options.vectors)] if options.vectors else [])]
    if options.restart:
        fit_args.append("--restart")
    fit_all(load_recipes_in_order(), fit_args, options.work_dir, options.vectors, n_gpus)


def _reproduce(options: argparse.Namespace) -> None:
    from submission.inference.device import choose_device
    from training.cli.reproduce import reproduce_checkpoint

    with locked_work_dir(options.work_dir):
        device = choose_device(options.device)
        table, weights = reproduce_checkpoint(
            options.recipe, options.input_dir, options.work_dir, options.checkpoint_dir, device
        )
    print(f"{table.to_string(float_format=lambda value: f'{value:.2f}')}\n{weights}")
