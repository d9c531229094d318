"""Networks' checkpoints: trained, and reproduced."""

from __future__ import annotations

import argparse
import os
from contextlib import nullcontext
from pathlib import Path

from submission.command import Verbs, add_checkpoints, add_device, folder
from training.commands.shared import add_data, add_work


def add(verbs: Verbs) -> None:
    """Add these verbs with their flags."""
    verb = verbs.add("fit", _fit, "train a network by a recipe; a stopped run is resumed")
    verb.add_argument("recipe", nargs="?", metavar="RECIPE", help="a name in training/recipes, or a .toml file")
    verb.add_argument("--all", action="store_true", help="the recipes of all systems, each a process of its own, one a GPU")
    add_work(verb, "working directory with what `prepare` wrote")
    verb.add_argument("--vectors", type=folder, metavar="DIR", help="what `prepare vectors` wrote (default: where it writes)")
    verb.add_argument("-o", "--output", type=folder, metavar="DIR", help="checkpoint (default: WORK/checkpoints/RECIPE)")
    add_device(verb)
    verb.add_argument("--restart", action="store_true", help="forget an earlier run of this recipe")

    verb = verbs.add("reproduce", _reproduce, "train a checkpoint again and compare its metrics: OK, near or FAIL")
    verb.add_argument("recipe", metavar="NAME", help="a recipe whose checkpoint is there, or ensemble")
    add_data(verb, "the corpus, or the lists, that it learned from")
    add_work(verb, "working directory; what is there is used")
    add_checkpoints(verb)
    add_device(verb)


def _fit(options: argparse.Namespace) -> None:
    from submission.errors import UsageError
    from submission.scoring.device import choose_device
    from training.data.vectors import folder_of
    from training.data.work import held_for
    from training.fitting.fit import fit
    from training.fitting.processes import processes
    from training.tasks import read_recipe

    if options.all:
        _fit_all(options)
        return
    if not options.recipe:
        raise UsageError("fit: expected a RECIPE, or --all")
    recipe, name = read_recipe(options.recipe), Path(options.recipe).stem
    output = options.output or options.work / "checkpoints" / name
    vectors = options.vectors or options.work / folder_of(recipe.task.written)
    device = choose_device(options.device)
    with processes(device) as own, nullcontext() if own.number else held_for(name, options.work):
        fit(name, recipe, options.work, vectors, output, device, options.restart, own)


def _fit_all(options: argparse.Namespace) -> None:
    import torch

    from submission.errors import UsageError
    from submission.scoring.device import choose_device
    from training.jobs import fit_all, recipes

    if options.recipe or options.output or "WORLD_SIZE" in os.environ:
        raise UsageError("fit --all: takes no RECIPE and no --output, and is not for torchrun")
    gpus = torch.cuda.device_count() if choose_device(options.device).type == "cuda" else 0
    flags = ["--device", options.device, *(["--vectors", str(options.vectors)] if options.vectors else [])]
    fit_all(recipes(), [*flags, *(["--restart"] if options.restart else [])], options.work, options.vectors, gpus)


def _reproduce(options: argparse.Namespace) -> None:
    from submission.disk.files import make_directory
    from submission.scoring.device import choose_device
    from training.data.work import held
    from training.reproduce import reproduce

    make_directory(options.work)
    with held(options.work):
        device = choose_device(options.device)
        table, weights = reproduce(options.recipe, options.input, options.work, options.checkpoints, device)
    print(f"{table.to_string(float_format=lambda value: f'{value:.2f}')}\n{weights}")
