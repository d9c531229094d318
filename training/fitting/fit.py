"""A recipe → a checkpoint: training that can be stopped at any time, and the best network of it."""

from __future__ import annotations

import json
import logging
import platform
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch

from submission.disk.files import make_directory, restore_directory
from submission.disk.provenance import METRICS, PROVENANCE, dump_json, load_json, verified_hashes
from submission.errors import CheckpointError, OutputError, UsageError
from submission.progress import progress
from submission.rankers.network import Network
from submission.scoring.stored import open_network, write_network
from training.cards import card
from training.data.work import hash_of
from training.fitting.curves import Curve
from training.fitting.loop import train
from training.fitting.network import build
from training.fitting.processes import ALONE, Processes
from training.fitting.recipe import Recipe
from training.fitting.schedule import Schedule
from training.fitting.state import STATE, State
from training.fitting.task import Task
from training.fitting.trainee import Trainee

log = logging.getLogger(__name__)

BEST = "best"  # the best network so far, or the last, as a checkpoint


def fit(
    name: str,
    recipe: Recipe,
    work: Path,
    vectors: Path,
    output: Path,
    device: torch.device,
    restart: bool = False,
    processes: Processes = ALONE,
) -> None:
    """Train a network by a recipe and write its checkpoint, its log and its learning curve.

    A run that was stopped goes on where its last validation was, and ends with the same bytes. Where it is finished, and its
    checkpoint is whole, nothing is done.

    Args:
        name: of the recipe and the run: its state, log, curve and best network so far are in `work`/fit/`name`.
        recipe: what to train.
        work: what `prepare pairs` or another verb of that kind wrote.
        vectors: what `prepare vectors` wrote.
        output: the checkpoint's directory, written when the run is finished.
        device: where to compute.
        restart: forget an earlier run of this name instead of going on with it.
        processes: those that train it; the first one validates and writes, the others read what it wrote.

    Raises:
        InputError: nothing prepared. UsageError: vectors of other dimensions, or an earlier run by another recipe.
        TrainingError: a non-finite loss, or a network that gives all documents the same score.
        OutputError: it cannot be written; the last good checkpoint is still there.
    """
    if output.exists() and any(output.iterdir()) and not (output / PROVENANCE).is_file():
        raise OutputError(f"{output}: holds something else than a checkpoint; choose another directory")
    trainee = build(recipe, vectors, output.parent)
    network = trainee.network.to(device)
    task, curve = recipe.task.task(recipe, trainee, work, device), recipe.task.curve
    provenance = {
        "recipe": {"name": name, **recipe.told()},
        "trained on": task.decided_by,
        **trainee.source,
        "torch": torch.__version__,
        "machine": f"{platform.machine()} {device.type}" + (f" × {processes.size}" if processes.size > 1 else ""),
    }
    comes_trained = not trainee.trains(recipe.training) or recipe.task.teaches
    if processes.size > 1 and comes_trained:
        raise UsageError(f"{name}: is not trained by gradients of its own; run it without torchrun")
    if comes_trained:
        recipe.task.teach(recipe, network, work, device)
        told = {curve.kept_epoch: float(recipe.training.epochs), **_baselines(task), "log": []}
        _finish(output, network, trainee, task, curve, told, provenance)
        return
    optimiser = trainee.optimiser(recipe.training, recipe.encoder)
    folder = work / "fit" / name
    state, writes = State(hash_of([provenance, task.files])), processes.number == 0
    if writes:
        make_directory(folder)
        restore_directory(folder / BEST)
        if restart:
            (folder / STATE).unlink(missing_ok=True)
    processes.barrier()  # the others read what this one leaves
    saved, schedule = state.saved(folder), Schedule(recipe, task.size)
    if saved and saved["state"]["step"] == schedule.steps and _is_there(output, provenance):
        log.info("%s: is there", output)
        return
    baselines = _baselines(task) if writes else {}
    if saved:
        state.resume(saved, network, optimiser)

    left = range(state.step, schedule.steps)
    steps = progress(left, name, "steps") if writes else left
    for row in train(network, optimiser, task, schedule, state, steps, processes):
        is_kept = curve.kept(state.rows) is row
        values = {key: value for key, value in row.items() if key not in ("step", "epoch", "loss")}
        log.info(
            "epoch %.2f: loss %.4f, %s%s",
            row["epoch"],
            row["loss"],
            _words(values),
            " (best)" if is_kept and not curve.keeps_last else "",
        )
        if is_kept:  # a copy, because it is rounded to what is stored; training goes on unrounded
            _write(folder / BEST, deepcopy(network), trainee, task, {"validation while training": row}, provenance)
        state.save(folder, network, optimiser, curve)
    if not writes:
        return

    best = open_network(folder / BEST, trainee.kind)[0].to(device)  # as stored
    told = {curve.kept_epoch: curve.kept(state.rows)["epoch"], **baselines, "log": state.rows}
    _finish(output, best, trainee, task, curve, told, provenance, state.step)


def _is_there(output: Path, provenance: dict[str, Any]) -> bool:
    """Tell whether a checkpoint is whole and was made from exactly this; one that is damaged is made again."""
    try:
        files = verified_hashes(output, (METRICS,))
    except CheckpointError:
        return False
    return load_json(output / PROVENANCE) == json.loads(dump_json({**provenance, "files": files}))  # type: ignore[no-any-return]


def _baselines(task: Task[Any]) -> dict[str, dict[str, float]]:
    found = task.baselines()
    for name, values in found.items():
        log.info("untrained %s: %s", name, _words(values))
    return found


def _finish(
    output: Path,
    network: Network,
    trainee: Trainee[Any, Any],
    task: Task[Any],
    curve: Curve,
    told: dict[str, Any],
    provenance: dict[str, Any],
    step: int = 0,
) -> None:
    """Write the checkpoint: its measures over all that it validates on, and what else is told of it."""
    values = task.final(network, step)
    _write(output, network, trainee, task, {"validation": values, curve.unit: task.number, **told}, provenance)
    beside = "".join(f"; untrained {name}: {_words(told[name])}" for name in told if name not in (curve.kept_epoch, "log"))
    log.info("%s: %s on %d %s%s", output, _words(values), task.number, curve.unit, beside)


def _write(
    directory: Path,
    network: Network,
    trainee: Trainee[Any, Any],
    task: Task[Any],
    metrics: dict[str, Any],
    provenance: dict[str, Any],
) -> None:
    text = card("network", provenance=provenance, metrics=metrics, data=task.data, measured=task.measured)
    write_network(directory, trainee.kind, network, trainee.reader, metrics, provenance, text, trainee.pretrained)


def _words(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.1f}" for name, value in values.items())
