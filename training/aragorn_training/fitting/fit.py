"""Train a network from a recipe and write its checkpoint; runs can be stopped and resumed."""

import json
import logging
import platform
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec
import safetensors.torch
import torch

from aragorn import __version__
from aragorn.errors import CheckpointError, UsageError, pluralise
from aragorn.inference.checkpoint import (
    PROBE_FILE,
    WEIGHTS_FILE,
    NetworkCheckpoint,
    NetworkT,
    TokeniserT,
)
from aragorn.inference.pretrained import PretrainedEncoder
from aragorn.models.network import Network
from aragorn.progress import track
from aragorn.storage.atomic_files import create_directory, recover_directory
from aragorn.storage.checkpoint_directory import (
    CARD,
    CONFIG,
    METRICS,
    PROVENANCE,
    encode_json,
    read_json,
    verify_files,
    write_with_provenance,
)
from aragorn.text.tokenisers import Tokeniser
from aragorn.versions import describe_versions
from aragorn_training.cards import render_card
from aragorn_training.data.work_directory import hash_json
from aragorn_training.fitting.distributed import SINGLE_PROCESS, ProcessGroup
from aragorn_training.fitting.initialisation import build_network, check_inputs
from aragorn_training.fitting.recipe import Recipe
from aragorn_training.fitting.task import Task, TrainableNetwork
from aragorn_training.fitting.training_loop import Schedule, TrainingState, train

log = logging.getLogger(__name__)

BEST_DIR = "best"  # subdirectory with the best (or last) network so far
FEW_STEPS = 10  # a training of fewer steps is warned of


def fit(
    name: str,
    recipe: Recipe,
    work_dir: Path,
    vectors_dir: Path,
    checkpoint_dir: Path,
    device: str,
    overwrite: bool = False,
    processes: ProcessGroup = SINGLE_PROCESS,
) -> None:
    """Train a network from a recipe; write its checkpoint to `checkpoint_dir` at the end, and
    state, log, learning curve and best network to `work_dir`/fit/`name`.

    A stopped run resumes after its last validation; its checkpoint has the same bytes as without
    interruption. With `overwrite`, a run that cannot be resumed starts over. Rank 0 of `processes`
    validates and writes.

    Raises:
        InputError: If data are not prepared.
        UsageError: If the vectors do not fit the network, training.epochs does not fit its frozen
            layers, an earlier run used another recipe, data or version and `overwrite` is false, or
            the task cannot be trained in several processes.
        TrainingError: If the loss is not finite, or all validation inputs have the same score.
        OutputError: If the checkpoint cannot be written; the previous one remains.
    """
    check_inputs(recipe, work_dir, vectors_dir)
    trainee = build_network(recipe, vectors_dir, checkpoint_dir.parent)
    trainee.network.to(device)
    task = recipe.task.build_task(recipe, trainee, work_dir, device)
    provenance = {
        "recipe": {"name": name, **recipe.to_provenance()},
        "training_data": task.training_data,
        **trainee.provenance,
        "torch": torch.__version__,
        "machine": f"{platform.machine()} {device}"
        + (f" × {processes.world_size}" if processes.world_size > 1 else ""),
    }
    run = _Run(recipe, trainee, task, provenance, checkpoint_dir)
    if trainee.check_trainable(recipe.training.epochs) and not recipe.task.is_trained_externally:
        return _train(run, work_dir / "fit" / name, device, overwrite, processes)
    if processes.world_size > 1:
        raise UsageError(
            f"{name}: this recipe cannot be trained in several processes; run `fit` without "
            "torchrun"
        )
    recipe.task.load_or_train_weights(recipe, trainee.network, work_dir, device)
    return run.write_final_checkpoint(trainee.network, 0, float(recipe.training.epochs), [])


@dataclass(frozen=True)
class _Run:
    """A training run: the network and task of a recipe, and where its checkpoint is written."""

    recipe: Recipe
    trainee: TrainableNetwork
    task: Task[Any]
    provenance: dict[str, Any]
    checkpoint_dir: Path

    def is_up_to_date(self) -> bool:
        """Return whether the checkpoint is undamaged and was built from exactly this provenance, by
        any version of the package."""
        try:
            files = verify_files(self.checkpoint_dir, (METRICS,))
        except CheckpointError:
            return False
        expected_provenance = json.loads(encode_json({**self.provenance, "files": files}))
        provenance: dict[str, Any] = read_json(self.checkpoint_dir / PROVENANCE)
        provenance.pop("version", None)
        return bool(provenance == expected_provenance)

    def write(self, directory: Path, network: Network, metrics: dict[str, Any]) -> None:
        """Write a network's checkpoint, with `metrics` and a model card, to a directory."""
        descriptions = {
            "data": self.task.data_description,
            "description": self.task.metrics_description,
        }
        card = render_card("network", provenance=self.provenance, metrics=metrics, **descriptions)
        trainee = self.trainee
        parts = (trainee.checkpoint_class, network, trainee.tokeniser)
        save_network(directory, *parts, metrics, self.provenance, card, trainee.pretrained)

    def write_final_checkpoint(
        self, network: Network, step: int, epoch: float, log_rows: list[dict[str, float]]
    ) -> None:
        """Validate the selected network and the baselines, and write the checkpoint with both."""
        curve = self.recipe.task.curve
        task = self.task
        metrics = task.validate_final(network, step)
        baselines = task.measure_baselines()
        epoch_key = "last epoch" if curve.keep_last else "best epoch"
        sizes = {curve.validation_unit: task.validation_size, epoch_key: epoch}
        validation = {"validation": metrics, **task.validation_settings, **sizes}
        self.write(self.checkpoint_dir, network, {**validation, **baselines, "log": log_rows})
        comparison = "".join(
            f"; baseline {name}: {_format_metrics(values)}" for name, values in baselines.items()
        )
        items = f"{curve.validation_unit}: {task.validation_size}"
        values = _format_metrics(metrics)
        log.info("%s: %s (%s)%s", self.checkpoint_dir, values, items, comparison)


def _train(run: _Run, run_dir: Path, device: str, overwrite: bool, processes: ProcessGroup) -> None:
    """Start or resume a training run and write the selected network; skip a complete run."""
    network = run.trainee.network
    recipe = run.recipe
    curve = recipe.task.curve
    rates = (recipe.training.learning_rate, recipe.encoder.learning_rate)
    optimiser = run.trainee.build_optimiser(*rates)
    versions = describe_versions(
        "aragorn_training.fitting.training_loop", type(recipe.task), type(network)
    )
    state = TrainingState(hash_json([run.provenance, run.task.file_hashes, versions]))
    is_main_process = processes.rank == 0
    if is_main_process:
        create_directory(run_dir)
        recover_directory(run_dir / BEST_DIR)
    processes.barrier()  # other ranks read these files
    saved_state = state.load(run_dir, overwrite)
    schedule = Schedule(recipe, run.task.train_size)
    if saved_state and saved_state["state"]["step"] == schedule.total_steps and run.is_up_to_date():
        log.info("%s: already complete, skipped", run.checkpoint_dir)
        return
    if saved_state:
        state.restore(saved_state, network, optimiser)

    if is_main_process and schedule.total_steps < FEW_STEPS and not recipe.training.max_steps:
        steps_text = pluralise(schedule.total_steps, "step")
        log.warning("%s: only %s; raise epochs or lower batch_size", run_dir.name, steps_text)
    remaining_steps = range(state.step, schedule.total_steps)
    steps = track(remaining_steps, run_dir.name, "steps") if is_main_process else remaining_steps
    for row in train(network, optimiser, run.task, schedule, state, steps, processes):
        is_selected = curve.select(state.log_rows) is row
        values = {key: row[key] for key in row if key not in ("step", "epoch", "loss")}
        metrics = _format_metrics(values)
        suffix = " (best)" if is_selected and not curve.keep_last else ""
        log.info("Epoch %.2f: loss %.4f, %s%s", row["epoch"], row["loss"], metrics, suffix)
        # saving rounds the copy's weights; training continues with unrounded weights
        if is_selected:
            run.write(run_dir / BEST_DIR, deepcopy(network), {"validation": row})
        state.save(run_dir, network, optimiser, curve)
    if is_main_process:
        # with rounded weights
        best_network = run.trainee.checkpoint_class.load(run_dir / BEST_DIR).network.to(device)
        epoch = curve.select(state.log_rows)["epoch"]
        run.write_final_checkpoint(best_network, state.step, epoch, state.log_rows)


@torch.no_grad()
def save_network(
    directory: Path,
    checkpoint_class: type[NetworkCheckpoint[NetworkT, TokeniserT]],
    network: NetworkT,
    tokeniser: TokeniserT,
    metrics: Mapping[str, Any],
    provenance: Mapping[str, Any],
    card: str,
    pretrained: PretrainedEncoder | None = None,
) -> None:
    """Save a checkpoint directory atomically; on OutputError, an existing checkpoint is unchanged.

    The network's weights are rounded in place to the stored precision, so that its output equals
    the loaded checkpoint's. The frozen layers of the encoder `pretrained` (None: no encoder) are
    omitted; its name and hash are stored instead.
    """
    network.set_encoder_precision(None)  # the probe is always computed in full precision
    weights = _round_weights(network, pretrained)
    config = {
        "version": __version__,
        checkpoint_class.name_key: network.get_name(),
        "config": asdict(network.config),
    }
    if isinstance(tokeniser, Tokeniser):
        config |= tokeniser.to_config()
    if pretrained:
        config["pretrained"] = {"name": pretrained.name, "sha256": pretrained.sha256}
    device = next(network.parameters()).device
    probe = checkpoint_class.run_probe(network.cpu().eval(), tokeniser)
    network.to(device)
    contents = {
        CONFIG: encode_json(config),
        WEIGHTS_FILE: safetensors.torch.save(
            {name: tensor.cpu().contiguous() for name, tensor in weights.items()}
        ),
        tokeniser.file: tokeniser.to_bytes(),
        PROBE_FILE: encode_json(msgspec.to_builtins(probe)),
        METRICS: encode_json(metrics),
        CARD: card.encode(),
    }
    write_with_provenance(directory, contents, provenance)


def _round_weights(
    network: Network, pretrained: PretrainedEncoder | None
) -> dict[str, torch.Tensor]:
    """Round a network's weights in place to the stored precision; return those to store."""
    half_prefixes = network.half_precision_prefixes
    omitted_tensors = _find_omitted_tensors(network, pretrained)
    weights = {
        name: tensor.half() if name.startswith(half_prefixes) else tensor
        for name, tensor in network.state_dict().items()
        if name not in omitted_tensors
    }
    rounded = {name: tensor.float() for name, tensor in weights.items()}
    network.load_state_dict(network.state_dict() | rounded)
    return weights


def _find_omitted_tensors(network: Network, pretrained: PretrainedEncoder | None) -> set[str]:
    """Return the frozen tensors that equal the encoder's; an initial checkpoint's may differ."""
    frozen_names = network.get_frozen_tensors()
    if not frozen_names or not pretrained:
        return set()
    tensors = network.state_dict()
    initial = pretrained.load_encoder_weights()
    return {name for name in frozen_names if torch.equal(tensors[name].cpu(), initial[name])}


def _format_metrics(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.1f}" for name, value in values.items())
