"""Train a network from a recipe and write its checkpoint; runs can be stopped and resumed."""

from __future__ import annotations

import json
import logging
import platform
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from submission.errors import CheckpointError, OutputError, UsageError
from submission.inference.checkpoint_io import open_network, write_network
from submission.models.network import Network
from submission.progress import progress
from submission.storage.atomic_files import make_directory, restore_directory
from submission.storage.checkpoint_directory import METRICS, PROVENANCE, dump_json, load_json, verified_hashes
from training.cards import card
from training.data.work_directory import hash_of
from training.fitting.distributed import ALONE, Processes
from training.fitting.initialisation import build
from training.fitting.learning_curve import Curve
from training.fitting.recipe import Recipe
from training.fitting.schedule import Schedule
from training.fitting.task import Task
from training.fitting.trainable import Trainee
from training.fitting.training_loop import train
from training.fitting.training_state import STATE, State

log = logging.getLogger(__name__)

BEST = "best"  # subdirectory with the selected network so far


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
    """Train a network from a recipe; write its checkpoint, log and learning curve.

    A stopped run resumes after its last validation and ends with the same bytes. A complete checkpoint is skipped.

    Args:
        name: name of recipe and run; `work`/fit/`name` holds state, log, curve and best network.
        recipe: the recipe.
        work: working directory with prepared data.
        vectors: folder of the word vectors.
        output: checkpoint directory, written at the end.
        device: where to compute.
        restart: discard an earlier run of this name.
        processes: training processes; rank 0 validates and writes.

    Raises:
        InputError: data are not prepared.
        UsageError: vectors do not fit, or an earlier run used another recipe.
        TrainingError: the loss is not finite, or the network scores all documents alike.
        OutputError: the checkpoint cannot be written; the last good one remains.
    """
    if output.exists() and any(output.iterdir()) and not (output / PROVENANCE).is_file():
        raise OutputError(f"{output}: not a checkpoint directory; choose another --output")
    trainee = build(recipe, vectors, output.parent)
    trainee.network.to(device)
    task = recipe.task.task(recipe, trainee, work, device)
    provenance = {
        "recipe": {"name": name, **recipe.told()},
        "trained on": task.decided_by,
        **trainee.source,
        "torch": torch.__version__,
        "machine": f"{platform.machine()} {device.type}" + (f" × {processes.size}" if processes.size > 1 else ""),
    }
    run = _Run(recipe, trainee, task, provenance, output)
    if trainee.trains(recipe.training) and not recipe.task.teaches:
        _train(run, work / "fit" / name, device, restart, processes)
        return
    if processes.size > 1:
        raise UsageError(f"{name}: nothing is trained in this process; run it without torchrun")
    recipe.task.teach(recipe, trainee.network, work, device)
    run.finish(trainee.network, 0, float(recipe.training.epochs), _baselines(task), [])


@dataclass(frozen=True)
class _Run:
    """What is trained, on which examples, and the checkpoint to write."""

    recipe: Recipe
    trainee: Trainee[Any, Any]
    task: Task[Any]
    provenance: dict[str, Any]
    output: Path

    @property
    def curve(self) -> Curve:
        """Return the learning curve of the task."""
        return self.recipe.task.curve

    def is_complete(self) -> bool:
        """Return whether the checkpoint is undamaged and was built from exactly this provenance."""
        try:
            files = verified_hashes(self.output, (METRICS,))
        except CheckpointError:
            return False
        expected = json.loads(dump_json({**self.provenance, "files": files}))
        return load_json(self.output / PROVENANCE) == expected  # type: ignore[no-any-return]

    def write(self, directory: Path, network: Network, metrics: dict[str, Any]) -> None:
        """Write a checkpoint with its card."""
        trainee, task = self.trainee, self.task
        text = card("network", provenance=self.provenance, metrics=metrics, data=task.data, measured=task.measured)
        write_network(directory, trainee.kind, network, trainee.reader, metrics, self.provenance, text, trainee.pretrained)

    def finish(
        self,
        network: Network,
        step: int,
        epoch: float,
        baselines: dict[str, dict[str, float]],
        rows: list[dict[str, float]],
    ) -> None:
        """Write the final checkpoint with its validation metrics, baselines and log rows."""
        curve, task = self.curve, self.task
        metrics = task.final(network, step)
        sizes = {curve.unit: task.number, curve.kept_epoch: epoch}
        self.write(self.output, network, {"validation": metrics, **sizes, **baselines, "log": rows})
        texts = "".join(f"; baseline {name}: {_words(values)}" for name, values in baselines.items())
        log.info("%s: %s on %d %s%s", self.output, _words(metrics), task.number, curve.unit, texts)


def _train(run: _Run, run_dir: Path, device: torch.device, restart: bool, processes: Processes) -> None:
    """Train the network of a run, or resume, and write its best or last state as the final checkpoint."""
    network, curve = run.trainee.network, run.curve
    optimiser = run.trainee.optimiser(run.recipe.training, run.recipe.encoder)
    state, is_main_process = State(hash_of([run.provenance, run.task.files])), processes.number == 0
    if is_main_process:
        make_directory(run_dir)
        restore_directory(run_dir / BEST)
        if restart:
            (run_dir / STATE).unlink(missing_ok=True)
    processes.barrier()  # other ranks read these files
    saved_state, schedule = state.saved(run_dir), Schedule(run.recipe, run.task.size)
    if saved_state and saved_state["state"]["step"] == schedule.steps and run.is_complete():
        log.info("%s: already complete, skipped", run.output)
        return
    baselines = _baselines(run.task) if is_main_process else {}
    if saved_state:
        state.resume(saved_state, network, optimiser)

    remaining_steps = range(state.step, schedule.steps)
    steps = progress(remaining_steps, run_dir.name, "steps") if is_main_process else remaining_steps
    for row in train(network, optimiser, run.task, schedule, state, steps, processes):
        is_selected = curve.kept(state.rows) is row
        _log_validation(row, is_selected and not curve.keeps_last)
        if is_selected:  # writing rounds the weights; training continues unrounded
            run.write(run_dir / BEST, deepcopy(network), {"validation while training": row})
        state.save(run_dir, network, optimiser, curve)
    if is_main_process:
        best = open_network(run_dir / BEST, run.trainee.kind)[0].to(device)  # as stored
        run.finish(best, state.step, curve.kept(state.rows)["epoch"], baselines, state.rows)


def _log_validation(row: dict[str, float], is_best: bool) -> None:
    metrics = {key: value for key, value in row.items() if key not in ("step", "epoch", "loss")}
    suffix = " (best)" if is_best else ""
    log.info("Epoch %.2f: loss %.4f, %s%s", row["epoch"], row["loss"], _words(metrics), suffix)


def _baselines(task: Task[Any]) -> dict[str, dict[str, float]]:
    """Measure the baselines of a task and log them."""
    baselines = task.baselines()
    for name, metrics in baselines.items():
        log.info("Baseline %s: %s", name, _words(metrics))
    return baselines


def _words(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.1f}" for name, value in values.items())
