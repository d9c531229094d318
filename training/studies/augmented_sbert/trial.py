"""One repetition of one task: its cached networks, silver pairs and results."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd
import torch

from submission.storage.artifact_store import Kept
from training.data.datasets.sentence_pairs import Gold
from training.fitting.frozen_layer_cache import FrozenLayers
from training.sbert.networks import Model, Training, built, labels, lowest, restore, scores, trained, vectors
from training.sbert.pairs import thinned
from training.sbert.trainer import Run
from training.studies.augmented_sbert import kde, sampling
from training.studies.augmented_sbert.metrics import baseline, on_both, on_dev
from training.studies.augmented_sbert.seed_optimisation import optimised

BASELINE, UNTRAINED, CROSS_ENCODER, BI_ENCODER = "baseline", "untrained", "cross_encoder", "bi_encoder"
RANDOM, KDE, BM25, SEMANTIC, BOTH = "random", "kde", "bm25", "semantic", "bm25_semantic"
STRATEGIES = (RANDOM, KDE, BM25, SEMANTIC, BOTH)
UNADAPTED, ADAPTED = "unadapted", "adapted"  # trained on another task's gold; adapted from its teacher
DRAWS = (RANDOM, KDE, *(f"thinned {name}" for name in STRATEGIES))  # RNG stream index = position; append only

LABELLED = np.dtype([("first", np.int64), ("second", np.int64), ("label", np.float32)])

# Learning rates for MiniLM, tuned on dev with seed 42 (BWS cross-topic, MRPC): teachers 5e-5 to 8e-4 (8e-4 does not learn, 4e-4
# is no better on MRPC), students 2e-5 to 2e-4. Freezing a fourth block costs a student less than one point.
TEACHER = Training("cross_entropy", learning_rate=2e-4, pieces=96, both_orders=True)
STUDENT = Training("cosine", learning_rate=1e-4, pieces=48, frozen=4)
# Teacher settings by initial encoder; default: MiniLM's. The pretrained cross-encoder is fine-tuned fully: dev 61.4 (BWS
# cross-topic, seed 0, GPU), 57.5 with six blocks frozen, 62.7 with three epochs at 5e-5.
TEACHERS = {"ms-marco-MiniLM-L-12-v2": replace(TEACHER, learning_rate=1e-4, frozen=-1)}


@dataclass(frozen=True)
class Settings:
    """Settings that Thakur et al. (2021) do not state or set larger; sized for two hours on two cores."""

    teacher: Training = TEACHER
    student: Training = STUDENT
    seed: int = 0  # of splits and samples; first seed of the networks
    seeds: int = 5  # seeds per network
    share: float = 0.2  # fraction of the steps before the best seed is selected
    k: int = 3  # neighbours per sentence (BM25, semantic)
    silver: float = 0.8  # maximum silver pairs per gold pair
    pool: float = 3.0  # labelled random pairs per gold pair (Thakur et al.: up to 10^6 in total)


@dataclass(frozen=True)
class Starts:
    """Initial encoders (local Hugging Face directories)."""

    teacher: Path
    student: Path

    def of(self, training: Training) -> Path:
        """Return the initial encoder for a training configuration."""
        return self.teacher if training.loss == "cross_entropy" else self.student


class Result(msgspec.Struct):
    """The results of a network."""

    dev: float
    test: float
    silver: int  # silver training pairs
    seconds: float  # including dependencies trained in the same process


class Trial:
    """One repetition of a task; networks and silver pairs are computed on demand and cached."""

    def __init__(
        self, gold: Gold, repetition: int, settings: Settings, starts: Starts, kept: Kept, device: torch.device
    ) -> None:
        """Create a trial without training.

        Args:
            gold: Labelled pairs of the task.
            repetition: Index; determines the seeds.
            settings: Sizes and learning rates.
            starts: Initial encoders.
            kept: Cache of this trial only.
            device: Device to compute on.
        """
        self.gold, self._repetition, self._settings = gold, repetition, settings
        self._starts, self._kept, self._device = starts, kept, device
        first = settings.seed + repetition * settings.seeds
        self._seeds = range(first, first + settings.seeds)
        self._sentences = sampling.Sentences.of(gold.train)
        self._lowest: FrozenLayers | None = None

    @property
    def name(self) -> str:
        """Unique name: task, repetition and hash of settings and data."""
        return self._kept.directory.name

    def result(self, row: str, source: Trial | None = None) -> Result:
        """Evaluate a network on dev and test; `source` is the source task of a domain adaptation.

        Raises:
            TrainingError: If all pairs get the same score.
            OutputError: If a file cannot be written.
        """
        start = time.monotonic()
        dev, test, silver = self._measured(row, source)
        shutil.rmtree(self._kept.directory / _name(row, source), ignore_errors=True)  # state files of the seeds
        return Result(dev, test, silver, round(time.monotonic() - start, 1))

    def _measured(self, row: str, source: Trial | None) -> tuple[float, float, int]:
        """Return dev metric, test metric and number of silver pairs."""
        if row == BASELINE:
            return *baseline(self.gold), 0
        if row == UNTRAINED:
            return *self._on_both(self._built(self._settings.student)), 0
        if row == CROSS_ENCODER:
            return *self._on_both(self.teacher()), 0
        if row == BI_ENCODER:
            return *self._on_both(self.student()), 0
        if row in STRATEGIES:
            silver = self.silver(row)
            pairs = pd.concat([self.gold.train, silver], ignore_index=True)
            return *self._on_both(self._trained(row, self._settings.student, pairs)), len(silver)
        if source is None:
            raise ValueError(f"{row}: expected a source task")
        if row == UNADAPTED:
            return *self._on_both(source.student()), 0
        silver = self._adapted(source)
        return *self._on_both(self._trained(_name(row, source), self._settings.student, silver)), len(silver)

    def teacher(self) -> Model:
        """Load or train the cross-encoder on gold."""
        return self._of_gold(CROSS_ENCODER, self._settings.teacher)

    def student(self) -> Model:
        """Load or train the bi-encoder on gold."""
        return self._of_gold(BI_ENCODER, self._settings.student)

    def labels(self, pairs: pd.DataFrame) -> np.ndarray:
        """Label pairs (pairs,) with the teacher."""
        return labels(self.teacher(), pairs, self._settings.teacher)

    def silver(self, strategy: str) -> pd.DataFrame:
        """Return a strategy's silver pairs `first second label`, limited by `Settings.silver`; of BOTH, per strategy."""
        if strategy == BOTH:
            union = pd.concat([self.silver(BM25), self.silver(SEMANTIC)], ignore_index=True)
            return union.drop_duplicates(["first", "second"], ignore_index=True)
        pairs = self._labelled(RANDOM if strategy == KDE else strategy)
        if strategy == KDE:
            mask_of = kde.by_class if self.gold.classes else kde.by_density
            pairs = pairs[mask_of(pairs["label"], self.gold.train["label"].to_numpy(), self._rng(KDE))]
        pairs = self._thinned(pairs, strategy)
        return self._sentences.pairs(np.stack([pairs["first"], pairs["second"]], axis=1)).assign(label=pairs["label"])

    def _labelled(self, strategy: str) -> np.ndarray:
        """Sample and label a strategy's pairs; for RANDOM the whole pool, which KDE also samples from."""
        sentences, settings = self._sentences, self._settings

        def sample_pairs() -> np.ndarray:
            if strategy == RANDOM:
                return sampling.random(sentences, round(settings.pool * len(self.gold.train)), self._rng(RANDOM))
            if strategy == BM25:
                return self._thinned(sampling.bm25(sentences, settings.k), BM25)
            embeddings = vectors(self.student(), sentences.texts)
            return self._thinned(sampling.semantic(sentences, embeddings, settings.k), SEMANTIC)

        def label_sample() -> np.ndarray:
            sample = sample_pairs()
            pairs = np.empty(len(sample), dtype=LABELLED)
            pairs["first"], pairs["second"] = sample.T
            pairs["label"] = self.labels(sentences.pairs(sample))
            return pairs

        return self._kept.array(f"labelled-{strategy}.npy", label_sample)

    def _thinned(self, pairs: np.ndarray, strategy: str) -> np.ndarray:
        """Subsample pairs to the allowed maximum."""
        maximum = round(self._settings.silver * len(self.gold.train))
        return thinned(pairs, maximum, self._rng(f"thinned {strategy}"))

    def _adapted(self, source: Trial) -> pd.DataFrame:
        """Label the training pairs with the source task's teacher."""
        scores = self._kept.array(f"{_name('labelled', source)}.npy", lambda: source.labels(self.gold.train))
        return self.gold.train.assign(label=scores)

    def _of_gold(self, name: str, training: Training) -> Model:
        """Load or train a network on gold; weights are cached, as other networks depend on it."""

        def train() -> bytes:
            return trained(self._trained(name, training, self.gold.train))

        weights = self._kept.content(f"{name}.safetensors", train)
        shutil.rmtree(self._kept.directory / name, ignore_errors=True)  # state files of the seeds
        model = self._built(training)
        restore(model, weights)
        return model

    def _trained(self, name: str, training: Training, pairs: pd.DataFrame) -> Model:
        """Train the best seed's network; seed states are in directory `name`."""
        run = Run(self._starts.of(training), training, pairs, self._device, self._shared(training))

        def measure(model: Model) -> float:
            return on_dev(self.gold, scores(model, self.gold.dev))

        return optimised(run, self._seeds, self._settings.share, measure, self._kept.directory / name)

    def _built(self, training: Training) -> Model:
        return built(self._starts.of(training), training, self._seeds[0], self._device, self._shared(training))

    def _shared(self, training: Training) -> FrozenLayers | None:
        """Return the frozen layers shared by students, which cache activations per sentence; None for teachers."""
        if training != self._settings.student or training.frozen <= 0:
            return None
        self._lowest = self._lowest or lowest(self._starts.of(training), training, self._device)
        return self._lowest

    def _on_both(self, model: Model) -> tuple[float, float]:
        return on_both(self.gold, scores(model, self.gold.dev), scores(model, self.gold.test))

    def _rng(self, draw: str) -> np.random.Generator:
        return np.random.default_rng([self._settings.seed, self._repetition, DRAWS.index(draw)])


def _name(row: str, source: Trial | None) -> str:
    return f"{row}-{source.name}" if source else row
