"""A training run of teacher or student by the trainers of sentence-transformers: started, stopped early, gone on with."""

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

from training.augmented.models import Model, Training, built, restore, trained
from training.fitting.frozen_layers import FrozenLayers

LOSSES = {"cosine": CosineSimilarityLoss, "cosent": CoSENTLoss, "multiple_negatives": MultipleNegativesRankingLoss}
POSITIVE = 0.5  # from this label on a pair is one of those that `multiple_negatives` learns from
WEIGHTS = "model.safetensors"
STATE = (WEIGHTS, "optimizer.pt", "scheduler.pt", "rng_state.pth", "trainer_state.json")  # of a run that was stopped
TOGETHER = 64  # batches among whose pairs those of a batch are alike in length


@dataclass(frozen=True)
class Run:
    """A training run, all but its seed."""

    encoder: Path  # a local folder in Hugging Face form
    training: Training
    pairs: pd.DataFrame  # first second label
    device: torch.device
    lowest: FrozenLayers | None = None  # of bi-encoders, if they share it

    def start(self, seed: int) -> Model:
        """The network as it begins."""
        return built(self.encoder, self.training, seed, self.device, self.lowest)

    @property
    def steps(self) -> int:
        """The number of steps of a whole run."""
        return self.training.epochs * -(-len(self._dataset()) // self.training.batch)

    def part(self, seed: int, steps: int, scratch: Path, state: dict[str, Path]) -> Model:
        """The network after the first steps of a whole run, and the state of the run.

        Args:
            seed: of head, order and dropout.
            steps: how many.
            scratch: a directory that is made, and removed again.
            state: where each file of STATE goes.
        """
        model = self.start(seed)
        trainer = self._trainer(model, seed, scratch)
        trainer.add_callback(_Stop(steps))
        _train(trainer)
        for name, place in state.items():
            (scratch / f"checkpoint-{steps}" / name).replace(place)
        shutil.rmtree(scratch)
        return model

    def whole(self, seed: int, scratch: Path) -> Model:
        """The network at the end of a run; it writes nothing to the directory."""
        model = self.start(seed)
        _train(self._trainer(model, seed, scratch))
        return model

    def rest(self, seed: int, state: Path, scratch: Path) -> Model:
        """The network at the end of a run whose state is in a directory."""
        model = self.start(seed)
        _train(self._trainer(model, seed, scratch), resume_from_checkpoint=str(state))
        return model

    def _dataset(self) -> Dataset:
        pairs = self.pairs[["first", "second", "label"]]
        if self.training.loss == "multiple_negatives":
            pairs = pairs.loc[pairs["label"] >= POSITIVE, ["first", "second"]]
        if self.training.both_orders:
            turned = pairs.rename(columns={"first": "second", "second": "first"})
            pairs = pd.concat([pairs, turned[pairs.columns]])
        return Dataset.from_pandas(pairs, preserve_index=False)

    def _trainer(self, model: Model, seed: int, scratch: Path) -> Any:
        """Its trainer: says nothing, reports to nobody, saves only when it is told to."""
        in_batch = self.training.loss == "multiple_negatives"  # whose other texts are negatives: none may be there twice
        given: dict[str, Any] = {
            "output_dir": str(scratch),
            "num_train_epochs": self.training.epochs,
            "per_device_train_batch_size": self.training.batch,
            "learning_rate": self.training.learning_rate,
            "warmup_steps": self.training.warm_up,
            "batch_sampler": BatchSamplers.NO_DUPLICATES if in_batch else ByLength,
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
            arguments = CrossEncoderTrainingArguments(**given)
            trainer: Any = _CrossEncoderTrainer(model, arguments, data, loss=BinaryCrossEntropyLoss(model))
        else:
            bi_encoder: Any = model
            loss = LOSSES[self.training.loss](bi_encoder)
            trainer = _BiEncoderTrainer(bi_encoder, SentenceTransformerTrainingArguments(**given), data, loss=loss)
        trainer.remove_callback(PrinterCallback)
        return trainer


def _train(trainer: Any, **how: Any) -> None:
    """Train, and let the network compute in float32 again."""
    trainer.train(**how)
    trainer.accelerator.unwrap_model(trainer.model, keep_fp32_wrapper=False)


class ByLength(DefaultBatchSampler):
    """Batches of pairs that are alike in length, in random order: half of what is computed would be padding otherwise."""

    def __init__(self, dataset: Dataset, *arguments: Any, **named: Any) -> None:
        """As the library's own; the longer text of a pair (in characters) counts."""
        super().__init__(dataset, *arguments, **named)
        pairs = zip(dataset["first"], dataset["second"], strict=True)
        self._lengths = np.array([max(len(first), len(second)) for first, second in pairs])

    def __iter__(self) -> Iterator[list[int]]:
        """Another order in each epoch; the pairs of so many batches together are sorted."""
        rng = np.random.default_rng([self.seed, self.epoch])
        order = rng.permutation(len(self._lengths))
        batches: list[list[int]] = []
        for start in range(0, len(order), TOGETHER * self.batch_size):
            group = order[start : start + TOGETHER * self.batch_size]
            alike = group[self._lengths[group].argsort(kind="stable")].tolist()
            batches += [alike[first : first + self.batch_size] for first in range(0, len(alike), self.batch_size)]
        for number in rng.permutation(len(batches)):
            yield batches[number]


class _Stop(TrainerCallback):
    """Saves a run after so many steps, and ends it."""

    def __init__(self, step: int) -> None:
        self._step = step

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        if state.global_step == self._step:
            control.should_save = control.should_training_stop = True


class _Lean(BaseTrainer):
    """A trainer that saves what is trained of a network, and writes no card: the library's own asks a hub about the encoder."""

    model: Any

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        pass

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        place = Path(str(output_dir))  # of a checkpoint: nothing else is saved
        place.mkdir(parents=True, exist_ok=True)
        (place / WEIGHTS).write_bytes(trained(self.model))

    def _load_from_checkpoint(self, checkpoint: str) -> None:  # type: ignore[override]  # as in the library
        restore(self.model, (Path(checkpoint) / WEIGHTS).read_bytes())


class _CrossEncoderTrainer(_Lean, CrossEncoderTrainer):
    """The trainer of cross-encoders (teachers)."""


class _BiEncoderTrainer(_Lean, SentenceTransformerTrainer):
    """The trainer of bi-encoders (students)."""
