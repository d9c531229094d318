"""Build teachers (cross-encoders) and students (bi-encoders), train them with the trainers of
sentence-transformers, which can be stopped and resumed, and score pairs."""

import logging
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import datasets
import numpy as np
import pandas as pd
import torch
import transformers
from datasets import Dataset
from safetensors.torch import load, save
from sentence_transformers import (
    CrossEncoder,
    CrossEncoderTrainer,
    CrossEncoderTrainingArguments,
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.base.modules import Transformer
from sentence_transformers.base.sampler import BatchSamplers, DefaultBatchSampler
from sentence_transformers.base.trainer import BaseTrainer
from sentence_transformers.cross_encoder.losses import BinaryCrossEntropyLoss
from sentence_transformers.sentence_transformer.losses import (
    CoSENTLoss,
    CosineSimilarityLoss,
    MultipleNegativesRankingLoss,
)
from sentence_transformers.sentence_transformer.modules import Pooling
from transformers import PrinterCallback, TrainerCallback

from aragorn.progress import track
from aragorn_training.fitting.frozen_layer_cache import FrozenLayerCache

BATCH_SIZE = 64

Loss = Literal["cross_entropy", "cosine", "cosent", "multiple_negatives"]
Network = CrossEncoder | SentenceTransformer  # teacher or student


@dataclass(frozen=True)
class TrainingConfig:
    """Settings of training a network; the loss determines whether it is a teacher or a student."""

    loss: Loss  # cross_entropy (on soft labels): cross-encoder; others: bi-encoder
    learning_rate: float  # peak; linear decay to 0 after warm-up
    max_length: int  # maximum subwords; of both texts together for a cross-encoder
    swap_pairs: bool = False  # also train on each pair in swapped order
    batch_size: int = 16  # pairs
    epochs: int = 1
    warmup_ratio: float = 0.1  # fraction of all steps
    # number of frozen lowest blocks (embeddings are frozen too); -1: train everything
    frozen_blocks: int = 3
    # False: training is 1.4 times as fast on long texts, slower on short texts
    attention_dropout: bool = True
    # autocast for training and labelling; weights, optimiser and evaluation use float32
    bfloat16: bool = True


def build_network(
    encoder: Path,
    training: TrainingConfig,
    seed: int,
    device: str,
    frozen_layers: FrozenLayerCache | None = None,
) -> Network:
    """Build a teacher or student from a local BERT directory in Hugging Face format, and freeze its
    lowest blocks.

    `seed` is of the global random generators, which initialise a cross-encoder's head; bi-encoders
    may share `frozen_layers`.
    """
    _silence_libraries()
    transformers.set_seed(seed)
    local: dict[str, Any] = {"local_files_only": True}
    if training.loss == "cross_entropy":
        model: Network = CrossEncoder(
            str(encoder), num_labels=1, max_length=training.max_length, device=device, **local
        )
    else:
        options = dict.fromkeys(("model_kwargs", "processor_kwargs", "config_kwargs"), local)
        transformer = Transformer(str(encoder), max_seq_length=training.max_length, **options)
        pooling = Pooling(transformer.get_embedding_dimension(), "mean")
        model = SentenceTransformer(modules=[transformer, pooling], device=device)
    bert = get_encoder(model)
    for block in [] if training.attention_dropout else bert.encoder.layer:
        block.attention.self.dropout.p = 0.0
    if training.frozen_blocks >= 0:
        for module in (bert.embeddings, *bert.encoder.layer[: training.frozen_blocks]):
            _freeze(module)
    if frozen_layers:
        frozen_layers.attach_to(bert)
    return model


def build_frozen_layers(encoder: Path, training: TrainingConfig, device: str) -> FrozenLayerCache:
    """Build the cached frozen layers that bi-encoders with these settings share."""
    return FrozenLayerCache(
        get_encoder(build_network(encoder, training, 0, device)), training.frozen_blocks
    )


def predict_labels(model: Network, pairs: pd.DataFrame, training: TrainingConfig) -> np.ndarray:
    """Return a teacher's labels (pairs,) float32 of pairs, in the precision of training."""
    with torch.autocast(model.device.type, torch.bfloat16, enabled=training.bfloat16):
        return predict_scores(model, pairs)


def predict_scores(model: Network, pairs: pd.DataFrame) -> np.ndarray:
    """Return scores (pairs,) float32: in [0, 1] of a cross-encoder, cosines of a bi-encoder."""
    if isinstance(model, CrossEncoder):
        text_pairs = list(zip(pairs["first"], pairs["second"], strict=True))
        return np.asarray(model.predict(text_pairs, batch_size=BATCH_SIZE, show_progress_bar=False))
    indices, texts = pd.factorize(pd.concat([pairs["first"], pairs["second"]]))
    embeddings = embed_texts(model, list(texts))
    first, second = np.split(indices, 2)
    return np.asarray((embeddings[first] * embeddings[second]).sum(axis=1))


def embed_texts(model: Network, texts: list[str]) -> np.ndarray:
    """Encode texts as unit vectors (texts, dimensions) float32; TypeError for a cross-encoder."""
    if not isinstance(model, SentenceTransformer):
        raise TypeError("a cross-encoder cannot encode single texts; use predict_scores")
    vectors = model.encode(
        texts, batch_size=BATCH_SIZE, normalize_embeddings=True, show_progress_bar=False
    )
    return np.asarray(vectors)


def serialise_trainable_state(model: Network) -> bytes:
    """Serialise the trainable weights of a network in safetensors format."""
    weights = {
        name: value.detach().contiguous()
        for name, value in model.named_parameters()
        if value.requires_grad
    }
    return bytes(save(weights))


def load_trainable_state(model: Network, weights: bytes) -> None:
    """Load the weights of `serialise_trainable_state`; raise ValueError if names differ."""
    absent, unknown = model.load_state_dict(load(weights), strict=False)
    trainable = {name for name, value in model.named_parameters() if value.requires_grad}
    if (missing := trainable & {*absent}) or unknown:
        raise ValueError(f"weights do not match the network: {missing} missing, {unknown} unknown")


def get_encoder(model: Network) -> Any:
    """Return the BERT of a network, without pooling or a classification head."""
    network: Any = model[0].model
    return getattr(network, network.base_model_prefix, network)


def _freeze(module: torch.nn.Module) -> None:
    """Freeze layers and disable their dropout, which would take a third of a step's time."""
    module.requires_grad_(False)
    for submodule in module.modules():
        if isinstance(submodule, torch.nn.Dropout):
            submodule.p = 0.0


def _silence_libraries() -> None:
    """Disable progress bars, and log messages below ERROR, of the Hugging Face libraries."""
    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    transformers.utils.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    datasets.disable_progress_bars()
    for library in ("sentence_transformers", "datasets", "accelerate"):
        logging.getLogger(library).setLevel(logging.ERROR)


LOSSES: dict[str, Any] = {
    "cross_entropy": BinaryCrossEntropyLoss,
    "cosine": CosineSimilarityLoss,
    "cosent": CoSENTLoss,
    "multiple_negatives": MultipleNegativesRankingLoss,
}
POSITIVE_THRESHOLD = 0.5  # minimum label of a positive pair
WEIGHTS = "model.safetensors"
# files of an interrupted run
STATE_FILES = (WEIGHTS, "optimizer.pt", "scheduler.pt", "rng_state.pth", "trainer_state.json")
BATCHES_PER_BUCKET = 64  # batches are drawn from length-sorted buckets of this many batches


@dataclass(frozen=True)
class TrainingSetup:
    """Data and settings that determine a training run, except its seed."""

    encoder: Path  # local directory in Hugging Face format
    training: TrainingConfig
    pairs: pd.DataFrame  # `first second label`
    device: str
    frozen_layers: FrozenLayerCache | None = None  # shared by bi-encoders

    def build_initial_network(self, seed: int) -> Network:
        """Build the network before its first step; `seed` sets a cross-encoder's head."""
        return build_network(self.encoder, self.training, seed, self.device, self.frozen_layers)

    @property
    def n_steps(self) -> int:
        """Number of optimiser steps of the full training."""
        return self.training.epochs * -(-len(self._build_dataset()) // self.training.batch_size)

    def train_steps(
        self, seed: int, n_steps: int, scratch_dir: Path, state_files: dict[str, Path]
    ) -> Network:
        """Run the first `n_steps` steps of the full training, return the network, and move each of
        STATE_FILES to its path in `state_files`; remove `scratch_dir`."""
        model, trainer = self._build(seed, scratch_dir)
        trainer.add_callback(_StopAfter(n_steps))
        _run_trainer(trainer)
        for name, path in state_files.items():
            (scratch_dir / f"checkpoint-{n_steps}" / name).replace(path)
        shutil.rmtree(scratch_dir)
        return model

    def train(self, seed: int, scratch_dir: Path, state_dir: Path | None = None) -> Network:
        """Run the full training, resumed from the STATE_FILES in `state_dir` unless it is None, and
        return the network; the trainer requires a scratch directory but writes nothing to it."""
        model, trainer = self._build(seed, scratch_dir)
        _run_trainer(trainer, state_dir)
        return model

    def _build_dataset(self) -> Dataset:
        pairs = self.pairs[["first", "second", "label"]]
        if self.training.loss == "multiple_negatives":
            pairs = pairs.loc[pairs["label"] >= POSITIVE_THRESHOLD, ["first", "second"]]
        if self.training.swap_pairs:
            swapped_pairs = pairs.rename(columns={"first": "second", "second": "first"})
            pairs = pd.concat([pairs, swapped_pairs[pairs.columns]])
        return Dataset.from_pandas(pairs, preserve_index=False)

    def _build(self, seed: int, scratch_dir: Path) -> tuple[Network, Any]:
        """Build the initial network and a silent trainer that saves only on request."""
        model = self.build_initial_network(seed)
        sampler: Any = LengthBucketSampler
        if self.training.loss == "multiple_negatives":  # a duplicate would be a false negative
            sampler = BatchSamplers.NO_DUPLICATES
        kwargs: dict[str, Any] = {
            "output_dir": str(scratch_dir),
            "seed": seed,
            "use_cpu": self.device == "cpu",
            "num_train_epochs": self.training.epochs,
            "per_device_train_batch_size": self.training.batch_size,
            "learning_rate": self.training.learning_rate,
            "warmup_steps": self.training.warmup_ratio,
            "batch_sampler": sampler,
            "bf16": self.training.bfloat16,
            "save_strategy": "no",
            "logging_strategy": "no",
            "report_to": "none",
            "disable_tqdm": True,
            "dataloader_pin_memory": False,
        }
        network: Any = model
        is_teacher = isinstance(model, CrossEncoder)
        trainer_class: Any = _CrossEncoderTrainer if is_teacher else _BiEncoderTrainer
        arguments_class: Any = (
            CrossEncoderTrainingArguments if is_teacher else SentenceTransformerTrainingArguments
        )
        loss = LOSSES[self.training.loss](network)
        trainer = trainer_class(
            network, arguments_class(**kwargs), self._build_dataset(), loss=loss
        )
        trainer.remove_callback(PrinterCallback)
        trainer.add_callback(_Progress("teacher" if is_teacher else "student"))
        return model, trainer


def _run_trainer(trainer: Any, state_dir: Path | None = None) -> None:
    """Run a trainer, resumed from `state_dir` unless None, and remove autocast afterwards."""
    trainer.train(resume_from_checkpoint=str(state_dir) if state_dir else None)
    trainer.accelerator.unwrap_model(trainer.model, keep_fp32_wrapper=False)


class LengthBucketSampler(DefaultBatchSampler):
    """Batch sampler that groups pairs of similar length; random batches would be half padding."""

    def __init__(self, dataset: Dataset, *args: Any, **kwargs: Any) -> None:
        """Create the sampler; a pair's length is that of its longer text in characters."""
        super().__init__(dataset, *args, **kwargs)
        pairs = zip(dataset["first"], dataset["second"], strict=True)
        self._lengths = np.array([max(len(first), len(second)) for first, second in pairs])

    def __iter__(self) -> Iterator[list[int]]:
        """Yield batches of pairs in a new order per epoch, sorted by length in each bucket."""
        rng = np.random.default_rng([self.seed, self.epoch])
        order = rng.permutation(len(self._lengths))
        batches: list[list[int]] = []
        for start in range(0, len(order), BATCHES_PER_BUCKET * self.batch_size):
            group = order[start : start + BATCHES_PER_BUCKET * self.batch_size]
            bucket = group[self._lengths[group].argsort(kind="stable")].tolist()
            batches += [
                bucket[first : first + self.batch_size]
                for first in range(0, len(bucket), self.batch_size)
            ]
        for index in rng.permutation(len(batches)):
            yield batches[index]


class _StopAfter(TrainerCallback):
    """Callback that saves the state and stops training after step `step`."""

    def __init__(self, step: int) -> None:
        self._step = step

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == self._step:
            control.should_save = control.should_training_stop = True


class _Progress(TrainerCallback):
    """Callback that reports progress in the training of a network `name`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._steps = track(range(state.global_step, state.max_steps), self._name, "steps")
        next(self._steps)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        next(self._steps, None)


class _MinimalTrainer(BaseTrainer):
    """Trainer that saves trainable weights only and no model card, which queries the Hub."""

    model: Any

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        pass

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        checkpoint_dir = Path(str(output_dir))
        checkpoint_dir.mkdir(parents=True, exist_ok=True)
        (checkpoint_dir / WEIGHTS).write_bytes(serialise_trainable_state(self.model))

    def _load_from_checkpoint(self, checkpoint: str) -> None:  # type: ignore[override]
        load_trainable_state(self.model, (Path(checkpoint) / WEIGHTS).read_bytes())


class _CrossEncoderTrainer(_MinimalTrainer, CrossEncoderTrainer):
    """The library's trainer of cross-encoders with the checkpoints of `_MinimalTrainer`."""


class _BiEncoderTrainer(_MinimalTrainer, SentenceTransformerTrainer):
    """The library's trainer of bi-encoders (students) with the checkpoints of `_MinimalTrainer`."""
