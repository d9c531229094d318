"""Train and evaluate the networks of one repetition of a task; cache gold networks and labelled
pairs."""

from __future__ import annotations

import logging
import math
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import MISSING, astuple, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import pandas as pd

from aragorn.cache import Cache, Parts
from aragorn.engine.device import choose_device
from aragorn.inference.pretrained import PretrainedEncoder
from aragorn.options import option
from aragorn.storage.recorded_files import RecordedFiles
from aragorn.versions import describe_versions
from aragorn_training.data.datasets.sentence_pairs import PairDataset
from aragorn_training.fitting.frozen_layer_cache import FrozenLayerCache
from aragorn_training.mapping import get_default_process_count, map_parallel
from aragorn_training.options import ProcessOptions, SeedOptions, StudyOptions, positive_int
from aragorn_training.sbert import networks
from aragorn_training.sbert.networks import Network, TrainingConfig, score_pairs
from aragorn_training.sbert.pairs import subsample
from aragorn_training.sbert.trainer import STATE_FILES, TrainingSetup
from aragorn_training.studies.augmented_sbert import sampling
from aragorn_training.studies.augmented_sbert.metrics import (
    F1,
    SPEARMAN,
    compute_baseline_metrics,
    compute_dev_metric,
    compute_metrics,
)

VERSION = 1  # of trials with the same settings

log = logging.getLogger(__name__)

DEV_SCORE_FILE = "dev.txt"
SCRATCH = "scratch"  # temporary trainer output


def train_best_seed(
    setup: TrainingSetup,
    seeds: Sequence[int],
    fraction: float,
    measure: Callable[[Network], float],
    work_dir: Path,
) -> Network:
    """Train a fraction of the steps with each seed, and then the network of the best seed to the
    end.

    The learning-rate schedule is that of an uninterrupted run. Each seed's state stays in the
    directory until the caller removes it, so that an interrupted call resumes.

    Args:
        setup: Training setup.
        seeds: Candidate seeds; ties go to the first.
        fraction: Fraction of the steps after which seeds are compared.
        measure: Function that computes the dev metric; larger is better.
        work_dir: Directory of the seeds' states, for this network only.
    """
    step_count = max(1, round(fraction * setup.step_count))
    dev_scores = {
        seed: _train_seed(setup, seed, step_count, measure, work_dir / f"seed-{seed}")
        for seed in seeds
    }
    best_seed = max(dev_scores, key=lambda seed: dev_scores[seed])
    message = ", ".join(f"seed {seed} {score:.2f}" for seed, score in dev_scores.items())
    log.info("Dev metric after %d of %d steps: %s", step_count, setup.step_count, message)
    return setup.train(best_seed, work_dir / SCRATCH, state_dir=work_dir / f"seed-{best_seed}")


def _train_seed(
    setup: TrainingSetup,
    seed: int,
    step_count: int,
    measure: Callable[[Network], float],
    seed_dir: Path,
) -> float:
    """Train a seed's first steps, unless their state is cached, and return the dev metric."""

    def write(*files: Path) -> None:
        *state_files, dev_file = files
        model = setup.train_steps(
            seed, step_count, seed_dir / SCRATCH, dict(zip(STATE_FILES, state_files, strict=True))
        )
        dev_file.write_text(repr(measure(model)))

    RecordedFiles(seed_dir, {}, overwrite=True).build([*STATE_FILES, DEV_SCORE_FILE], write)
    return float((seed_dir / DEV_SCORE_FILE).read_text())


BASELINE = "baseline"
UNTRAINED = "untrained"
CROSS_ENCODER = "cross_encoder"
BI_ENCODER = "bi_encoder"
RANDOM = "random"
KDE = "kde"
BM25 = "bm25"
SEMANTIC = "semantic"
BM25_SEMANTIC = "bm25_semantic"
STRATEGIES = (RANDOM, KDE, BM25, SEMANTIC, BM25_SEMANTIC)
# trained on another task's gold pairs; on this task with labels by its teacher
UNADAPTED = "unadapted"
ADAPTED = "adapted"
# RNG stream index = position; append only
RNG_STREAMS = (RANDOM, KDE, *(f"subsampled {name}" for name in STRATEGIES))

NO_LABELS = np.empty(0, dtype=np.float32)
LOW_THRESHOLD = 0.2  # pairs with a smaller silver label are dissimilar
LABELLED_DTYPE = np.dtype([("first", np.int64), ("second", np.int64), ("label", np.float32)])

# Learning rates for MiniLM, tuned on dev with seed 42 (BWS cross-topic, MRPC): teachers 5e-5 to
# 8e-4 (8e-4 does not learn, 4e-4
# is no better on MRPC), students 2e-5 to 2e-4. Freezing a fourth block costs a student less than
# one point.
TEACHER = TrainingConfig("cross_entropy", learning_rate=2e-4, max_length=96, swap_pairs=True)
STUDENT = TrainingConfig("cosine", learning_rate=1e-4, max_length=48, frozen_blocks=4)
# Teacher settings by initial encoder; default: MiniLM's. The pretrained cross-encoder is fine-tuned
# fully: dev 61.4 (BWS
# cross-topic, seed 0, GPU), 57.5 with six blocks frozen, 62.7 with three epochs at 5e-5.
TEACHER_CONFIGS = {
    "ms-marco-MiniLM-L-12-v2": replace(TEACHER, learning_rate=1e-4, frozen_blocks=-1)
}


@dataclass(frozen=True)
class Settings:
    """Settings that Thakur et al. (2021) do not state, or that are smaller here.

    With the defaults, the study takes two hours on two cores.
    """

    teacher: TrainingConfig = TEACHER
    student: TrainingConfig = STUDENT
    seed: int = 0  # seed of splits and samples, and first seed of the networks
    n_seeds: int = 5  # number of seeds per network
    seed_fraction: float = 0.2  # fraction of the steps before the best seed is selected
    k: int = 3  # neighbours per sentence (BM25, semantic)
    silver_ratio: float = 0.8  # maximum silver pairs per gold pair
    # labelled random pairs per gold pair (Thakur et al.: up to 10^6 in total)
    random_ratio: float = 3.0


@dataclass(frozen=True)
class Encoders:
    """Initial encoders of teachers and students, as local Hugging Face directories."""

    teacher: Path
    student: Path


class TrialResult(msgspec.Struct):
    """Result of training and evaluating a network; metrics are in percent."""

    dev: float
    test: float
    silver_pairs: int  # number of silver training pairs
    seconds: float  # including dependencies trained in the same process
    # share of the silver labels below LOW_THRESHOLD; NaN if there are none
    silver_low: float = math.nan
    silver_high: float = math.nan  # share of the silver labels of at least POSITIVE_THRESHOLD


@dataclass(frozen=True, kw_only=True)
class SentencePairOptions(StudyOptions, ProcessOptions, SeedOptions):
    """Options of the studies of Augmented SBERT; the seed is that of splits, samples and
    networks."""

    input_dir: Path = option(
        MISSING, "-i", "--input", help="directory with bws/ and mrpc/, as published"
    )
    repetitions: int = option(
        3, parse=positive_int, help="number of repetitions with different seeds"
    )
    student: str = option("all-MiniLM-L6-v2", help="initial bi-encoder: name or directory")
    teacher: str | None = option(
        None,
        help="initial cross-encoder: name, or directory written by `prepare encoder` "
        "(default: the encoder of --student)",
    )


class Session:
    """Encoders, settings, device and cache of a study."""

    def __init__(self, options: SentencePairOptions, cache: Cache) -> None:
        self.student = PretrainedEncoder(options.student)
        self.teacher = PretrainedEncoder(options.teacher or options.student)
        config = TEACHER_CONFIGS.get(self.teacher.folder.name, TEACHER)
        self.settings = Settings(teacher=config, seed=options.seed)
        self.encoders = Encoders(self.teacher.folder, self.student.folder)
        self.device = choose_device(options.device)
        self.process_count = options.processes or get_default_process_count(self.device)
        self._cache = cache
        self._code = describe_versions(sys.modules[__name__])

    def open_parts(
        self, name: str, settings: Settings, repetition: int, gold: PairDataset
    ) -> Parts:
        """Open the store of a repetition's networks."""
        data = [split.to_csv(index=False) for split in (gold.train, gold.dev, gold.test)]
        encoders = (self.teacher.sha256, self.student.sha256)
        key = (astuple(settings), repetition, *encoders, self._code, self.device, data)
        return self._cache.parts(f"{name}-{repetition}", repr(key))


@dataclass(frozen=True)
class Request:
    """A network to evaluate in a trial."""

    network: str
    source: Trial | None = None  # trial of the source task of a domain adaptation
    fraction: float | None = None  # share of the steps to train; None: all, with the best seed

    @property
    def name(self) -> str:
        """Name of the network in the trial's cache."""
        if self.fraction is not None:
            return f"{self.network}-{self.fraction}"
        return f"{self.network}-{self.source.name}" if self.source else self.network


class Trial:
    """Repetition of a task; gold networks and labelled pairs are computed on demand and cached."""

    def __init__(
        self,
        gold: PairDataset,
        repetition: int,
        settings: Settings,
        encoders: Encoders,
        cache: Parts,
        device: str,
        gold_cache: Parts | None = None,
    ) -> None:
        """Create a trial without training; `repetition` determines the seeds, and no other trial
        may use `cache`.

        Trials that differ only in sampling can share the networks trained on gold pairs, in
        `gold_cache` (None: `cache`).
        """
        self.gold = gold
        self._repetition = repetition
        self._settings = settings
        self._encoders = encoders
        self._cache = cache
        self._device = device
        self._gold_cache = gold_cache or cache
        first = settings.seed + repetition * settings.n_seeds
        self._seeds = range(first, first + settings.n_seeds)
        self._frozen_layers: FrozenLayerCache | None = None

    @cached_property
    def _sentences(self) -> sampling.SentencePool:
        return sampling.SentencePool.from_pairs(self.gold.train)

    @property
    def name(self) -> str:
        """Unique name: task, repetition and hash of settings and data."""
        return self._cache.path.name

    def evaluate(self, request: Request) -> TrialResult:
        """Return the result of a network, which is cached."""

        def compute() -> bytes:
            result = self._train_and_measure(request)
            log.info(
                "%s, %s: test %.2f, dev %.2f, %d silver pairs, %.0f s",
                self.name, request.name, result.test, result.dev, result.silver_pairs, result.seconds,
            )  # fmt: skip
            return msgspec.msgpack.encode(result)

        content = self._cache.get_or_build(f"{request.name}.result", compute)
        return msgspec.msgpack.decode(content, type=TrialResult)

    def _train_and_measure(self, request: Request) -> TrialResult:
        """Evaluate a network on dev and test; a partly trained one on dev only."""
        start = time.monotonic()
        seeds_dir = self._cache.path / request.name
        if request.fraction is not None:
            dev = self._measure_dev_after(request.fraction, seeds_dir)
            return TrialResult(dev, math.nan, 0, 0.0)
        if request.network == BASELINE:
            dev, test = compute_baseline_metrics(self.gold)
            silver_labels = NO_LABELS
        else:
            model, silver_labels = self._load_or_train(request)
            dev, test = compute_metrics(
                self.gold, *(score_pairs(model, pairs) for pairs in (self.gold.dev, self.gold.test))
            )
        shutil.rmtree(seeds_dir, ignore_errors=True)
        result = TrialResult(dev, test, len(silver_labels), round(time.monotonic() - start, 1))
        if len(silver_labels):
            result.silver_low = float(np.mean(silver_labels < LOW_THRESHOLD))
            result.silver_high = float(np.mean(silver_labels >= sampling.POSITIVE_THRESHOLD))
        return result

    def _measure_dev_after(self, fraction: float, seed_dir: Path) -> float:
        """Train the bi-encoder of the first seed on gold pairs for a fraction of the steps and
        return its dev metric."""
        setup = self._build_setup(self._settings.student, self.gold.train)
        n_steps = max(1, round(fraction * setup.step_count))
        dev = _train_seed(setup, self._seeds[0], n_steps, self._measure_dev, seed_dir)
        shutil.rmtree(seed_dir)
        return dev

    def _measure_dev(self, model: Network) -> float:
        return compute_dev_metric(self.gold, score_pairs(model, self.gold.dev))

    def _load_or_train(self, request: Request) -> tuple[Network, np.ndarray]:
        """Load or train a network; return it with the labels (pairs,) of its silver training
        pairs."""
        network = request.network
        source = request.source
        if network == UNTRAINED:
            return self._build(self._settings.student), NO_LABELS
        if network in (CROSS_ENCODER, BI_ENCODER):
            return self.load_or_train_on_gold(network), NO_LABELS
        if network in STRATEGIES:
            silver = self.build_silver_pairs(network)
            pairs = pd.concat([self.gold.train, silver], ignore_index=True)
            return self._train(network, self._settings.student, pairs), silver["label"].to_numpy()
        if source is None:
            raise ValueError(f"{network}: expected a source task")
        if network == UNADAPTED:
            return source.load_or_train_on_gold(BI_ENCODER), NO_LABELS
        silver = self._build_adapted_pairs(source)
        return self._train(request.name, self._settings.student, silver), silver["label"].to_numpy()

    def label_pairs(self, pairs: pd.DataFrame) -> np.ndarray:
        """Return labels (N,) of pairs by the task's teacher, which is trained if it is not
        cached."""
        return networks.predict_labels(
            self.load_or_train_on_gold(CROSS_ENCODER), pairs, self._settings.teacher
        )

    def build_silver_pairs(self, strategy: str) -> pd.DataFrame:
        """Sample and label a strategy's silver pairs `first second label`; BM25_SEMANTIC unites
        those of BM25 and SEMANTIC."""
        if strategy == BM25_SEMANTIC:
            union = pd.concat(
                [self.build_silver_pairs(BM25), self.build_silver_pairs(SEMANTIC)],
                ignore_index=True,
            )
            return union.drop_duplicates(["first", "second"], ignore_index=True)
        pairs = self._build_labelled_pairs(RANDOM if strategy == KDE else strategy)
        if strategy == KDE:
            build_mask = (
                sampling.draw_class_ratio_mask
                if self.gold.is_binary
                else sampling.draw_density_mask
            )
            pairs = pairs[
                build_mask(
                    pairs["label"], self.gold.train["label"].to_numpy(), self._create_rng(KDE)
                )
            ]
        pairs = self._subsample(pairs, strategy)
        return self._sentences.to_frame(np.stack([pairs["first"], pairs["second"]], axis=1)).assign(
            label=pairs["label"]
        )

    def _build_labelled_pairs(self, strategy: str) -> np.ndarray:
        """Sample and label a strategy's pairs; for RANDOM the whole pool, which KDE also samples
        from."""
        sentences = self._sentences
        settings = self._settings

        def sample_pairs() -> np.ndarray:
            if strategy == RANDOM:
                return sampling.sample_random_pairs(
                    sentences,
                    round(settings.random_ratio * len(self.gold.train)),
                    self._create_rng(RANDOM),
                )
            if strategy == BM25:
                return self._subsample(sampling.pair_by_bm25(sentences, settings.k), BM25)
            embeddings = networks.encode_texts(
                self.load_or_train_on_gold(BI_ENCODER), sentences.texts
            )
            return self._subsample(
                sampling.pair_by_cosine(sentences, embeddings, settings.k), SEMANTIC
            )

        def label_sample() -> np.ndarray:
            sample = sample_pairs()
            pairs = np.empty(len(sample), dtype=LABELLED_DTYPE)
            pairs["first"], pairs["second"] = sample.T
            pairs["label"] = self.label_pairs(sentences.to_frame(sample))
            return pairs

        return self._cache.get_or_build_array(f"labelled-{strategy}", label_sample)

    def _subsample(self, pairs: np.ndarray, strategy: str) -> np.ndarray:
        """Sample at most `silver_ratio` pairs per gold pair."""
        max_pairs = round(self._settings.silver_ratio * len(self.gold.train))
        return subsample(pairs, max_pairs, self._create_rng(f"subsampled {strategy}"))

    def _build_adapted_pairs(self, source: Trial) -> pd.DataFrame:
        """Return this task's training pairs, labelled by the source task's teacher."""
        name = f"labelled-{source.name}.npy"
        return self.gold.train.assign(
            label=self._cache.get_or_build_array(name, lambda: source.label_pairs(self.gold.train))
        )

    def load_or_train_on_gold(self, network: str) -> Network:
        """Load or train CROSS_ENCODER or BI_ENCODER on gold pairs; weights are cached, as other
        networks depend on them."""
        training = self._settings.teacher if network == CROSS_ENCODER else self._settings.student

        def train() -> bytes:
            return networks.serialise_trainable_state(
                self._train(network, training, self.gold.train)
            )

        weights = self._gold_cache.get_or_build(f"{network}.safetensors", train)
        # state files of the seeds
        shutil.rmtree(self._cache.path / network, ignore_errors=True)
        model = self._build(training)
        networks.load_trainable_state(model, weights)
        return model

    def _train(self, name: str, training: TrainingConfig, pairs: pd.DataFrame) -> Network:
        """Train the best seed's network; the states of the seeds are in the cache's folder
        `name`."""
        setup = self._build_setup(training, pairs)
        work_dir = self._cache.path / name
        return train_best_seed(
            setup, self._seeds, self._settings.seed_fraction, self._measure_dev, work_dir
        )

    def _build(self, training: TrainingConfig) -> Network:
        return self._build_setup(training, self.gold.train).build_initial_network(self._seeds[0])

    def _build_setup(self, training: TrainingConfig, pairs: pd.DataFrame) -> TrainingSetup:
        encoder = (
            self._encoders.teacher if training.loss == "cross_entropy" else self._encoders.student
        )
        return TrainingSetup(
            encoder, training, pairs, self._device, self._get_shared_layers(training)
        )

    def _get_shared_layers(self, training: TrainingConfig) -> FrozenLayerCache | None:
        """Return the frozen layers shared by students, which cache activations per sentence; None
        for teachers."""
        if training != self._settings.student or training.frozen_blocks <= 0:
            return None
        if not self._frozen_layers:
            self._frozen_layers = networks.build_frozen_layers(
                self._encoders.student, training, self._device
            )
        return self._frozen_layers

    def _create_rng(self, stream: str) -> np.random.Generator:
        return np.random.default_rng(
            [self._settings.seed, self._repetition, RNG_STREAMS.index(stream)]
        )


Row = tuple[str | float, ...]  # values that identify a row of a table


class Job(NamedTuple):
    """Networks of a trial, which one process evaluates in order."""

    trial: Trial
    requests: dict[Row, Request]


def run_jobs(jobs: Sequence[Job], keys: Sequence[str], process_count: int) -> pd.DataFrame:
    """Evaluate the networks of jobs in parallel; return one row per network, in the order of the
    jobs: its row, in the columns `keys`, and the fields of its TrialResult."""
    numbered = [*enumerate(jobs)]
    results = {
        number: rows for (number, _), rows in map_parallel(_run_job, numbered, process_count)
    }
    rows = [row for number, _ in numbered for row in results[number]]
    return pd.DataFrame(rows, columns=[*keys, *TrialResult.__struct_fields__])


def _run_job(numbered_job: tuple[int, Job]) -> list[tuple[object, ...]]:
    _, job = numbered_job
    trial = copy(job.trial)  # with the frozen layers, whose activations end with the job
    return [
        (*row, *msgspec.structs.astuple(trial.evaluate(request)))
        for row, request in job.requests.items()
    ]


def summarise(
    results: pd.DataFrame,
    keys: Sequence[str],
    columns: Sequence[str],
    gold: Mapping[str, PairDataset],
) -> pd.DataFrame:
    """Tabulate means and standard deviations over repetitions.

    Args:
        results: Results, see `run_jobs`.
        keys: Columns that identify a row of the table, `task` among them.
        columns: Columns whose means are tabulated besides those of test and dev.
        gold: Gold pairs by task.

    Returns:
        Rows `KEY… measure test test_sd dev dev_sd repetitions COLUMN…`, in order of first
        occurrence.
    """
    groups = results.groupby([*keys], sort=False)
    means = groups[["test", "dev", *columns]].mean()
    deviations = groups[["test", "dev"]].std()
    scores = pd.DataFrame(
        {
            "test": means["test"],
            "test_sd": deviations["test"],
            "dev": means["dev"],
            "dev_sd": deviations["dev"],
            "repetitions": groups.size(),
        }
    )
    table = scores.join(means[[*columns]]).reset_index()
    measures = [F1 if gold[task].is_binary else SPEARMAN for task in table["task"]]
    table.insert(keys.index("task") + 1, "measure", measures)
    return table
