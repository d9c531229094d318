"""One training loop for all networks: pairwise loss, Adam, validation eight times an epoch, MAP@20 picks the checkpoint."""

from __future__ import annotations

import io
import json
import logging
import pickle
import platform
import time
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from submission.checkpoint import PROVENANCE, open_checkpoint, write_checkpoint
from submission.disk.files import make_directory, restore_directory, write_whole
from submission.errors import InputError, OutputError, TrainingError, UsageError
from submission.rankers.base import LatentRanker, Ranker
from training import losses
from training.card import card
from training.cosine import by_cosine
from training.curves import draw
from training.network import Network, build
from training.recipe import Optimisation, Recipe
from training.seeds import Stream, generator
from training.tables import Pairs, Queries, load_pairs, load_validation
from training.validation import Scorer, by_bm25, by_ranker, sparsity, validate
from training.work import hash_of, made

log = logging.getLogger(__name__)

STATE, LOG, CURVE, BEST = "state.pt", "log.jsonl", "curve.png", "best"
BM25, COSINE = "bm25 over premises", "cosine of the encoder"  # what a network is seen beside
SECONDS_BETWEEN_LINES = 30.0


@dataclass
class State:
    """Where a training run is: enough to go on exactly, together with weights, optimiser and random state."""

    fingerprint: str
    step: int = 0
    losses: list[float] = field(default_factory=list)  # since the last validation
    rows: list[dict[str, float]] = field(default_factory=list)  # one a validation: the log


def fit(
    name: str, recipe: Recipe, work: Path, vectors: Path, output: Path, device: torch.device, restart: bool = False
) -> None:
    """Train a network by a recipe and write its checkpoint, its log and its learning curve.

    A run that was stopped goes on where its last validation was, and ends with the same bytes.

    Args:
        name: of the recipe and the run: its state, log, curve and best network so far are in `work`/fit/`name`.
        recipe: what to train.
        work: what `prepare` wrote.
        vectors: what `embed` wrote.
        output: the checkpoint's directory, written when the run is finished.
        device: where to compute.
        restart: forget an earlier run of this name instead of going on with it.

    Raises:
        InputError: nothing prepared. UsageError: vectors of other dimensions, or an earlier run by another recipe.
        TrainingError: a non-finite loss, or a network that gives all documents the same score.
        OutputError: it cannot be written; the last good checkpoint is still there.
    """
    empty = output.is_dir() and not any(output.iterdir())
    if output.exists() and not empty and not (output / PROVENANCE).is_file():
        raise OutputError(f"{output}: holds something else than a checkpoint; choose another directory")
    network = build(recipe, vectors, output.parent)
    form, encoder = network.ranker.form, network.encoder
    pairs, queries = load_pairs(work, form, encoder), load_validation(work, form, encoder)
    network.ranker.to(device)
    optimiser = network.optimiser(recipe)

    folder = work / "fit" / name
    make_directory(folder)
    restore_directory(folder / BEST)
    prepared = made(work)
    provenance = {
        "recipe": {"name": name, **asdict(recipe)},
        "trained on": prepared.decided_by,
        **network.source,
        "torch": torch.__version__,
        "machine": f"{platform.machine()} {device.type}",
    }
    state = State(hash_of([provenance, {name: file.xxh3 for name, file in prepared.files.items()}]))
    if (folder / STATE).exists() and not restart:
        _resume(folder / STATE, state, network.ranker, optimiser)
    _Run(recipe, pairs, queries, network, optimiser, state, folder, output, provenance, device).run()


def take_step(
    ranker: Ranker,
    optimiser: torch.optim.Optimizer,
    pairs: Pairs,
    rows: np.ndarray,
    training: Optimisation,
    device: torch.device,
) -> float:
    """One step of the optimiser over a global batch, rows (B,) of the pairs, computed in micro batches; the mean loss."""
    total = 0.0
    for part in np.split(rows, range(training.micro_batch_size, len(rows), training.micro_batch_size)):
        query, related, unrelated = (
            texts.take(numbers, device)
            for texts, numbers in ((pairs.queries, part), (pairs.premises, part), (pairs.premises, pairs.unrelated[part]))
        )
        loss = losses.loss(ranker, query, related, unrelated, training.margin, training.sparsity) * (len(part) / len(rows))
        loss.backward()  # type: ignore[no-untyped-call]  # torch's own lack
        total += loss.item()
    optimiser.step()
    optimiser.zero_grad()
    return total


@dataclass
class _Run:
    recipe: Recipe
    pairs: Pairs
    queries: Queries
    network: Network
    optimiser: torch.optim.Optimizer
    state: State
    folder: Path
    output: Path
    provenance: dict[str, Any]
    device: torch.device

    def run(self) -> None:
        training = self.recipe.training
        everything = np.arange(len(self.queries.candidates))
        chosen = _some(everything, training.validation_queries, self.recipe.seed)
        scorers: dict[str, Scorer] = {BM25: by_bm25}
        if self.network.pretrained:
            scorers[COSINE] = by_cosine(self.network.pretrained, self.device)
        baselines = {name: validate(self.queries, everything, scorer)[0] for name, scorer in scorers.items()}
        for name, values in baselines.items():
            log.info("untrained %s: %s", name, _words(values))

        size = len(self.pairs.unrelated)
        per_epoch = -(-size // training.global_batch_size)
        checks = {round(per_epoch * (i + 1) / training.validations) for i in range(training.validations)}
        total = min(per_epoch * training.epochs, training.steps or per_epoch * training.epochs)
        self.network.ranker.train()
        first = self.state.step
        start = last = time.monotonic()
        while self.state.step < total:
            epoch, position = divmod(self.state.step, per_epoch)
            order = _order(size, self.recipe.seed, epoch)
            rows = order[position * training.global_batch_size : (position + 1) * training.global_batch_size]
            if training.decay:
                for group in self.optimiser.param_groups:
                    group["lr"] = group["initial_lr"] * (1 - self.state.step / total)
            loss = take_step(self.network.ranker, self.optimiser, self.pairs, rows, training, self.device)
            self.state.step += 1
            if not np.isfinite(loss):
                raise TrainingError(f"step {self.state.step}: the loss is {loss}; lower training.learning_rate in the recipe")
            self.state.losses.append(loss)
            now = time.monotonic()
            if now - last >= SECONDS_BETWEEN_LINES:
                last, rate = now, (self.state.step - first) / (now - start)
                mean, left = np.mean(self.state.losses), (total - self.state.step) / rate
                words = "step %d of %d, loss %.4f, %.0f pairs/s, %.0f s left"
                log.info(words, self.state.step, total, mean, rate * training.global_batch_size, left)
            if position + 1 in checks or self.state.step == total:
                self._check(self.state.step / per_epoch, chosen)
        self._finish(everything, baselines)

    def _check(self, epoch: float, chosen: np.ndarray) -> None:
        """Validate; keep the network if it is the best so far; save where we are."""
        try:
            values, tied = validate(self.queries, chosen, by_ranker(self.network.ranker, self.device))
        except FloatingPointError as error:
            raise TrainingError(f"step {self.state.step}: {error}; lower training.learning_rate in the recipe") from None
        if tied:
            raise TrainingError(
                f"step {self.state.step}: all validation scores are tied, the network is dead; lower training.learning_rate "
                "or look at its inputs (saturated layers, vectors)"
            )
        if isinstance(self.network.ranker, LatentRanker):
            values |= sparsity(self.network.ranker, self.queries, chosen, self.device)
        loss = round(float(np.mean(self.state.losses)), 6)
        row = {"step": self.state.step, "epoch": round(epoch, 3), "loss": loss, **values}
        best = max((r["MAP@20"] for r in self.state.rows), default=-1.0)
        self.state.rows.append(row)
        self.state.losses = []
        is_best = values["MAP@20"] > best
        log.info("epoch %.2f: loss %.4f, %s%s", epoch, loss, _words(values), " (best)" if is_best else "")
        if is_best:
            # A copy, because it is rounded to what is stored; training goes on unrounded.
            self._write(self.folder / BEST, deepcopy(self.network.ranker), {"validation while training": row})
        write_whole(self.folder / LOG, "".join(json.dumps(row) + "\n" for row in self.state.rows))
        write_whole(self.folder / CURVE, draw(self.recipe.ranker, self.state.rows))
        _save(self.folder / STATE, self.state, self.network.ranker, self.optimiser)

    def _finish(self, everything: np.ndarray, baselines: dict[str, dict[str, float]]) -> None:
        """Measure the best network, as stored, on all queries, and write the checkpoint."""
        best = max(self.state.rows, key=lambda row: row["MAP@20"])
        ranker = open_checkpoint(self.folder / BEST).ranker.to(self.device)
        values, _ = validate(self.queries, everything, by_ranker(ranker, self.device))
        if isinstance(ranker, LatentRanker):
            values |= sparsity(ranker, self.queries, everything, self.device)
        metrics = {"validation": values, "queries": len(everything), "best epoch": best["epoch"]}
        self._write(self.output, ranker, {**metrics, **baselines, "log": self.state.rows})
        beside = "".join(f"; untrained {name}: {_words(untrained)}" for name, untrained in baselines.items())
        log.info("%s: %s on %d queries%s", self.output, _words(values), len(everything), beside)

    def _write(self, directory: Path, ranker: Ranker, metrics: dict[str, Any]) -> None:
        network, text = self.network, card(self.provenance, metrics)
        write_checkpoint(directory, ranker, network.encoder, metrics, self.provenance, text, network.pretrained)


@lru_cache(maxsize=1)
def _order(size: int, seed: int, epoch: int) -> np.ndarray:
    """The order of the arguments in an epoch: a function of seed and epoch, so that there is nothing to save."""
    return generator(seed, Stream.ORDER, epoch).permutation(size)


def _some(queries: np.ndarray, number: int, seed: int) -> np.ndarray:
    """A fixed seeded part of the queries; all for 0."""
    return np.sort(generator(seed, Stream.QUERIES).permutation(queries)[:number]) if number else queries


def _save(file: Path, state: State, ranker: Ranker, optimiser: torch.optim.Optimizer) -> None:
    buffer = io.BytesIO()
    random = {"cpu": torch.get_rng_state(), "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []}
    content = {
        "state": asdict(state),
        "ranker": ranker.state_dict(),
        "optimiser": optimiser.state_dict(),
        "random": random,
    }
    torch.save(content, buffer)
    write_whole(file, buffer.getvalue())


def _resume(file: Path, state: State, ranker: Ranker, optimiser: torch.optim.Optimizer) -> None:
    try:
        content = torch.load(file, map_location="cpu", weights_only=True)
        saved = State(**content["state"])
    except (OSError, RuntimeError, KeyError, TypeError, ValueError, EOFError, pickle.UnpicklingError) as error:
        raise InputError(f"{file}: damaged ({error}); give --restart to begin again") from None
    if saved.fingerprint != state.fingerprint:
        raise UsageError(f"{file}: a run by another recipe, other tables or vectors; give --restart to replace it")
    ranker.load_state_dict(content["ranker"])
    optimiser.load_state_dict(content["optimiser"])
    torch.set_rng_state(content["random"]["cpu"])
    if content["random"]["cuda"]:
        torch.cuda.set_rng_state_all(content["random"]["cuda"])
    state.__dict__.update(saved.__dict__)
    log.info("going on at step %d", state.step)


def _words(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.1f}" for name, value in values.items())
