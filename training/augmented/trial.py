"""One repetition of one task of the paper: its networks and silver pairs, which are kept, and their results."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd
import torch

from submission.disk.kept import Kept
from training.augmented import kde, sampling
from training.augmented.gold import Gold
from training.augmented.measures import baseline, on_both, on_dev
from training.augmented.models import Model, Training, built, labels, lowest, restore, scores, trained, vectors
from training.augmented.optimised import optimised
from training.augmented.runs import Run
from training.fitting.frozen_layers import FrozenLayers

BASELINE, UNTRAINED, CROSS_ENCODER, BI_ENCODER = "baseline", "untrained", "cross_encoder", "bi_encoder"
RANDOM, KDE, BM25, SEMANTIC, BOTH = "random", "kde", "bm25", "semantic", "bm25_semantic"
STRATEGIES = (RANDOM, KDE, BM25, SEMANTIC, BOTH)
UNADAPTED, ADAPTED = "unadapted", "adapted"  # from another task's gold pairs
DRAWS = (RANDOM, KDE, *(f"thinned {name}" for name in STRATEGIES))  # what is drawn; a number must stay what it is

LABELLED = np.dtype([("first", np.int64), ("second", np.int64), ("label", np.float32)])

# The rates are for MiniLM, chosen on dev by seed 42 (BWS across topics, MRPC): teachers 5e-5 to 8e-4, of which the last learns
# nothing and 4e-4 is no better on MRPC; students 2e-5 to 2e-4. A fourth frozen block costs a student less than a point.
TEACHER = Training("cross_entropy", learning_rate=2e-4, pieces=96, both_orders=True)
STUDENT = Training("cosine", learning_rate=1e-4, pieces=48, frozen=4)
# Teachers by the name of what they start from; others are trained as MiniLM is. One that has read pairs before is
# trained whole: 61.4 on dev (BWS across topics, seed 0, on a GPU), 57.5 with six blocks frozen; three epochs at 5e-5 give 62.7.
TEACHERS = {"ms-marco-MiniLM-L-12-v2": replace(TEACHER, learning_rate=1e-4, frozen=-1)}


@dataclass(frozen=True)
class Settings:
    """Settings that the paper leaves open or has larger; sized for two hours on two cores."""

    teacher: Training = TEACHER
    student: Training = STUDENT
    seed: int = 0  # of splits and samples; networks have seeds of their own from here on
    seeds: int = 5  # that begin
    share: float = 0.2  # of the steps, after which one goes on
    k: int = 3  # sentences that BM25 and the cosine find for one
    silver: float = 0.8  # pairs that a strategy gives at most, for each gold pair
    pool: float = 3.0  # random pairs that are labelled, for each gold pair; the paper: up to 10^6 in all


@dataclass(frozen=True)
class Starts:
    """The encoders from which networks start: local folders in Hugging Face form."""

    teacher: Path
    student: Path

    def of(self, training: Training) -> Path:
        """Return the encoder of a network by its training."""
        return self.teacher if training.loss == "cross_entropy" else self.student


class Result(msgspec.Struct):
    """The results of a network."""

    dev: float
    test: float
    silver: int  # pairs that it was trained on beside gold
    seconds: float  # of the process that finished it, with what it made on the way


class Trial:
    """A task's networks and silver pairs, made when they are needed and kept; the result of each network."""

    def __init__(
        self, gold: Gold, repetition: int, settings: Settings, starts: Starts, kept: Kept, device: torch.device
    ) -> None:
        """Create a trial; networks are trained when their results are needed.

        Args:
            gold: the task.
            repetition: its number; each has other seeds.
            settings: sizes, learning rates.
            starts: of its networks.
            kept: of exactly this trial.
            device: where to compute.
        """
        self.gold, self._repetition, self._settings = gold, repetition, settings
        self._starts, self._kept, self._device = starts, kept, device
        first = settings.seed + repetition * settings.seeds
        self._seeds = range(first, first + settings.seeds)
        self._sentences = sampling.Sentences.of(gold.train)
        self._lowest: FrozenLayers | None = None

    @property
    def name(self) -> str:
        """The name of the trial: its task, its repetition and the hash of its settings and data."""
        return self._kept.directory.name

    def result(self, row: str, source: Trial | None = None) -> Result:
        """Measure a network on dev and test; `source` is the other task of UNADAPTED and ADAPTED.

        Raises:
            TrainingError: a network that gives all pairs the same score. OutputError: something cannot be kept.
        """
        start = time.monotonic()
        dev, test, silver = self._measured(row, source)
        shutil.rmtree(self._kept.directory / _name(row, source), ignore_errors=True)  # the seeds' states
        return Result(dev, test, silver, round(time.monotonic() - start, 1))

    def _measured(self, row: str, source: Trial | None) -> tuple[float, float, int]:
        """Dev, test, silver pairs."""
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
            raise ValueError(f"{row}: of which task?")
        if row == UNADAPTED:
            return *self._on_both(source.student()), 0
        silver = self._adapted(source)
        return *self._on_both(self._trained(_name(row, source), self._settings.student, silver)), len(silver)

    def teacher(self) -> Model:
        """The cross-encoder, trained on gold."""
        return self._of_gold(CROSS_ENCODER, self._settings.teacher)

    def student(self) -> Model:
        """The bi-encoder, trained on gold alone."""
        return self._of_gold(BI_ENCODER, self._settings.student)

    def labels(self, pairs: pd.DataFrame) -> np.ndarray:
        """Compute the teacher's labels (pairs,) of pairs."""
        return labels(self.teacher(), pairs, self._settings.teacher)

    def silver(self, strategy: str) -> pd.DataFrame:
        """Pairs `first second label` that the teacher labelled, no more than the settings allow; of BOTH, of each."""
        if strategy == BOTH:
            either = pd.concat([self.silver(BM25), self.silver(SEMANTIC)], ignore_index=True)
            return either.drop_duplicates(["first", "second"], ignore_index=True)
        found = self._labelled(RANDOM if strategy == KDE else strategy)
        if strategy == KDE:
            thin = kde.by_class if self.gold.classes else kde.by_density
            found = found[thin(found["label"], self.gold.train["label"].to_numpy(), self._rng(KDE))]
        found = self._thinned(found, strategy)
        return self._sentences.pairs(np.stack([found["first"], found["second"]], axis=1)).assign(label=found["label"])

    def _labelled(self, strategy: str) -> np.ndarray:
        """The pairs (pairs,) of LABELLED of a strategy; of RANDOM the whole pool, from which KDE chooses."""
        sentences, settings = self._sentences, self._settings

        def sampled() -> np.ndarray:
            if strategy == RANDOM:
                return sampling.random(sentences, round(settings.pool * len(self.gold.train)), self._rng(RANDOM))
            if strategy == BM25:
                return self._thinned(sampling.bm25(sentences, settings.k), BM25)
            found = sampling.semantic(sentences, vectors(self.student(), sentences.texts), settings.k)
            return self._thinned(found, SEMANTIC)

        def labelled() -> np.ndarray:
            sample = sampled()
            found = np.empty(len(sample), dtype=LABELLED)
            found["first"], found["second"] = sample.T
            found["label"] = self.labels(sentences.pairs(sample))
            return found

        return self._kept.array(f"labelled-{strategy}.npy", labelled)

    def _thinned(self, found: np.ndarray, strategy: str) -> np.ndarray:
        """No more pairs than the settings allow, at random."""
        most = round(self._settings.silver * len(self.gold.train))
        return sampling.thinned(found, most, self._rng(f"thinned {strategy}"))

    def _adapted(self, source: Trial) -> pd.DataFrame:
        """The own training pairs as another task's teacher labels them."""
        found = self._kept.array(f"{_name('labelled', source)}.npy", lambda: source.labels(self.gold.train))
        return self.gold.train.assign(label=found)

    def _of_gold(self, name: str, training: Training) -> Model:
        """A network trained on gold; its weights are kept, as others need it."""

        def learned() -> bytes:
            return trained(self._trained(name, training, self.gold.train))

        weights = self._kept.content(f"{name}.safetensors", learned)
        shutil.rmtree(self._kept.directory / name, ignore_errors=True)  # the seeds' states
        model = self._built(training)
        restore(model, weights)
        return model

    def _trained(self, name: str, training: Training, pairs: pd.DataFrame) -> Model:
        """The network of the best seed; the states of all are in a directory of that name."""
        run = Run(self._starts.of(training), training, pairs, self._device, self._shared(training))

        def measure(model: Model) -> float:
            return on_dev(self.gold, scores(model, self.gold.dev))

        return optimised(run, self._seeds, self._settings.share, measure, self._kept.directory / name)

    def _built(self, training: Training) -> Model:
        return built(self._starts.of(training), training, self._seeds[0], self._device, self._shared(training))

    def _shared(self, training: Training) -> FrozenLayers | None:
        """Return the cache of frozen layers that students share, as they read the same sentences; None for teachers."""
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
