"""Train, stop and resume networks with sentence-transformers' trainers."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from datasets import Dataset
from sentence_transformers import (
    CrossEncoder,
    CrossEncoderTrainer,
    CrossEncoderTrainingArguments,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.base.sampler import BatchSamplers, DefaultBatchSampler
from sentence_transformers.base.trainer import BaseTrainer
from sentence_transformers.cross_encoder.losses import BinaryCrossEntropyLoss
from sentence_transformers.sentence_transformer.losses import CoSENTLoss, CosineSimilarityLoss, MultipleNegativesRankingLoss
from transformers import PrinterCallback, TrainerCallback

from training.fitting.frozen_layer_cache import FrozenLayers
from training.sbert.networks import Model, Training, built, restore, trained

LOSSES = {"cosine": CosineSimilarityLoss, "cosent": CoSENTLoss, "multiple_negatives": MultipleNegativesRankingLoss}
POSITIVE = 0.5  # pairs at or above are the positives of `multiple_negatives`
WEIGHTS = "model.safetensors"
STATE = (WEIGHTS, "optimizer.pt", "scheduler.pt", "rng_state.pth", "trainer_state.json")  # files of an interrupted run
TOGETHER = 64  # batches are drawn from length-sorted buckets of this many batches


@dataclass(frozen=True)
class Run:
    """A training run without its seed."""

    encoder: Path  # local directory in Hugging Face format
    training: Training
    pairs: pd.DataFrame  # first second label
    device: torch.device
    lowest: FrozenLayers | None = None  # shared by bi-encoders

    def start(self, seed: int) -> Model:
        """Build the initial network."""
        return built(self.encoder, self.training, seed, self.device, self.lowest)

    @property
    def steps(self) -> int:
        """Number of optimiser steps of the full run."""
        return self.training.epochs * -(-len(self._dataset()) // self.training.batch)

    def part(self, seed: int, steps: int, scratch: Path, state: dict[str, Path]) -> Model:
        """Train the first steps of the full run; return the network and move the state files.

        Args:
            seed: Seed of head, data order and dropout.
            steps: Number of steps.
            scratch: Temporary directory; created and removed.
            state: Destination of each file of STATE.
        """
        model = self.start(seed)
        trainer = self._trainer(model, seed, scratch)
        trainer.add_callback(_Stop(steps))
        _train(trainer)
        for name, path in state.items():
            (scratch / f"checkpoint-{steps}" / name).replace(path)
        shutil.rmtree(scratch)
        return model

    def whole(self, seed: int, scratch: Path) -> Model:
        """Train the full run; nothing is written to the scratch directory."""
        model = self.start(seed)
        _train(self._trainer(model, seed, scratch))
        return model

    def rest(self, seed: int, state: Path, scratch: Path) -> Model:
        """Resume a run from a state directory and train it to the end."""
        model = self.start(seed)
        _train(self._trainer(model, seed, scratch), resume_from_checkpoint=str(state))
        return model

    def _dataset(self) -> Dataset:
        pairs = self.pairs[["first", "second", "label"]]
        if self.training.loss == "multiple_negatives":
            pairs = pairs.loc[pairs["label"] >= POSITIVE, ["first", "second"]]
        if self.training.both_orders:
            swapped = pairs.rename(columns={"first": "second", "second": "first"})
            pairs = pd.concat([pairs, swapped[pairs.columns]])
        return Dataset.from_pandas(pairs, preserve_index=False)

    def _trainer(self, model: Model, seed: int, scratch: Path) -> Any:
        """Build a silent trainer that saves only on request."""
        uses_in_batch_negatives = self.training.loss == "multiple_negatives"  # a duplicate would be a false negative
        kwargs: dict[str, Any] = {
            "output_dir": str(scratch),
            "num_train_epochs": self.training.epochs,
            "per_device_train_batch_size": self.training.batch,
            "learning_rate": self.training.learning_rate,
            "warmup_steps": self.training.warm_up,
            "batch_sampler": BatchSamplers.NO_DUPLICATES if uses_in_batch_negatives else ByLength,
            "bf16": self.training.bfloat16,
            "seed": seed,
            "use_cpu": self.device.type == "cpu",
            "save_strategy": "no",
            "logging_strategy": "no",
            "report_to": "none",
            "disable_tqdm": True,
            "dataloader_pin_memory": False,
        }
        data = self._dataset()
        if isinstance(model, CrossEncoder):
            arguments = CrossEncoderTrainingArguments(**kwargs)
            trainer: Any = _CrossEncoderTrainer(model, arguments, data, loss=BinaryCrossEntropyLoss(model))
        else:
            bi_encoder: Any = model
            loss = LOSSES[self.training.loss](bi_encoder)
            trainer = _BiEncoderTrainer(bi_encoder, SentenceTransformerTrainingArguments(**kwargs), data, loss=loss)
        trainer.remove_callback(PrinterCallback)
        return trainer


def _train(trainer: Any, **kwargs: Any) -> None:
    """Train and restore float32 inference."""
    trainer.train(**kwargs)
    trainer.accelerator.unwrap_model(trainer.model, keep_fp32_wrapper=False)


class ByLength(DefaultBatchSampler):
    """Batch sampler that groups pairs of similar length; random batches would be half padding."""

    def __init__(self, dataset: Dataset, *args: Any, **kwargs: Any) -> None:
        """Create the sampler; a pair's length is that of its longer text in characters."""
        super().__init__(dataset, *args, **kwargs)
        pairs = zip(dataset["first"], dataset["second"], strict=True)
        self._lengths = np.array([max(len(first), len(second)) for first, second in pairs])

    def __iter__(self) -> Iterator[list[int]]:
        """Yield batches in a new order per epoch; pairs are sorted by length within each bucket."""
        rng = np.random.default_rng([self.seed, self.epoch])
        order = rng.permutation(len(self._lengths))
        batches: list[list[int]] = []
        for start in range(0, len(order), TOGETHER * self.batch_size):
            group = order[start : start + TOGETHER * self.batch_size]
            bucket = group[self._lengths[group].argsort(kind="stable")].tolist()
            batches += [bucket[first : first + self.batch_size] for first in range(0, len(bucket), self.batch_size)]
        for index in rng.permutation(len(batches)):
            yield batches[index]


class _Stop(TrainerCallback):
    """Callback that saves and stops training after a number of steps."""

    def __init__(self, step: int) -> None:
        self._step = step

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == self._step:
            control.should_save = control.should_training_stop = True


class _Lean(BaseTrainer):
    """Trainer that saves trainable weights only and writes no model card (the library's card queries the Hub)."""

    model: Any

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        pass

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        checkpoint_dir = Path(str(output_dir))
        checkpoint_dir.mkdir(parents=True, exist_ok=True)
        (checkpoint_dir / WEIGHTS).write_bytes(trained(self.model))

    def _load_from_checkpoint(self, checkpoint: str) -> None:  # type: ignore[override]  # the library's signature
        restore(self.model, (Path(checkpoint) / WEIGHTS).read_bytes())


class _CrossEncoderTrainer(_Lean, CrossEncoderTrainer):
    """Trainer of cross-encoders (teachers)."""


class _BiEncoderTrainer(_Lean, SentenceTransformerTrainer):
    """Trainer of bi-encoders (students)."""
