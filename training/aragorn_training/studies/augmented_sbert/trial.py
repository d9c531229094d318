"""Train the networks of Augmented SBERT (Thakur et al. 2021) in repetitions of a task, and measure
them on dev and test.

What other networks depend on is cached under the values that determine it: networks trained on gold
pairs, and pairs labelled by a teacher.
"""

import logging
import math
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import pandas as pd

from aragorn.cache import Cache, open_cache
from aragorn.engine import choose_device
from aragorn.inference.pretrained import PretrainedEncoder
from aragorn.options import option
from aragorn.storage.recorded_files import RecordedFiles
from aragorn.versions import describe_versions
from aragorn_training.data.datasets.sentence_pairs import LOADERS, PairDataset
from aragorn_training.fitting.frozen_layer_cache import FrozenLayerCache
from aragorn_training.mapping import get_default_process_count, map_cached
from aragorn_training.options import (
    ProcessOptions,
    SeedOptions,
    StudyOptions,
    input_option,
    parse_positive_int,
)
from aragorn_training.sbert import networks
from aragorn_training.sbert.networks import (
    POSITIVE_THRESHOLD,
    STATE_FILES,
    Network,
    TrainingConfig,
    TrainingSetup,
    predict_scores,
)
from aragorn_training.sbert.students import subsample
from aragorn_training.studies.augmented_sbert import metrics, sampling

VERSION = 1  # of trials with the same settings
COMPUTES_WITH = (
    "aragorn.systems.conclusions",
    "aragorn_training.sbert.students",
    "scikit-learn",
    "scipy",
)

log = logging.getLogger(__name__)

BASELINE = "baseline"
UNTRAINED = "untrained"
CROSS_ENCODER = "cross_encoder"
BI_ENCODER = "bi_encoder"
GOLD_NETWORKS = (CROSS_ENCODER, BI_ENCODER)  # trained on gold pairs
RANDOM = "random"
KDE = "kde"
BM25 = "bm25"
SEMANTIC = "semantic"
BM25_SEMANTIC = "bm25_semantic"
STRATEGIES = (RANDOM, KDE, BM25, SEMANTIC, BM25_SEMANTIC)
# trained on the gold pairs of another task; on those of this task, labelled by its teacher
UNADAPTED = "unadapted"
ADAPTED = "adapted"
# RNG stream index = position; append only
TRIAL_STREAMS = (RANDOM, KDE, *(f"subsampled {name}" for name in STRATEGIES))

DEV_SCORE_FILE = "dev.txt"
SCRATCH = "scratch"  # temporary trainer output
NO_LABELS = np.empty(0, dtype=np.float32)
LOW_THRESHOLD = 0.2  # pairs with a smaller silver label are dissimilar
LABELLED_DTYPE = np.dtype([("first", np.int64), ("second", np.int64), ("label", np.float32)])

# Learning rates for MiniLM, tuned on dev with seed 42 (BWS cross-topic, MRPC): teachers 5e-5 to
# 8e-4 (8e-4 does not learn, 4e-4 is no better on MRPC), students 2e-5 to 2e-4. Freezing a fourth
# block costs a student less than one point.
TEACHER = TrainingConfig("cross_entropy", learning_rate=2e-4, max_length=96, swap_pairs=True)
STUDENT = TrainingConfig("cosine", learning_rate=1e-4, max_length=48, frozen_blocks=4)
# Teacher settings by initial encoder; default: MiniLM's. The pretrained cross-encoder is fine-tuned
# fully: dev 61.4 (BWS cross-topic, seed 0, GPU), 57.5 with six blocks frozen, 62.7 with three
# epochs at 5e-5.
TEACHER_CONFIGS = {
    "ms-marco-MiniLM-L-12-v2": replace(TEACHER, learning_rate=1e-4, frozen_blocks=-1)
}


def train_best_seed(
    setup: TrainingSetup,
    seeds: Sequence[int],
    fraction: float,
    measure: Callable[[Network], float],
    work_dir: Path,
) -> Network:
    """Train a `fraction` of the steps with each seed, and then the network of the (first) seed with
    the largest dev metric, see `measure`, to the end.

    The learning-rate schedule is that of an uninterrupted run. The states of the seeds stay in
    `work_dir`, which is for this network only, so that an interrupted call resumes.
    """
    dev_scores = {seed: _train_seed(setup, seed, fraction, measure, work_dir) for seed in seeds}
    best_seed = max(dev_scores, key=lambda seed: dev_scores[seed])
    message = ", ".join(f"seed {seed} {score:.2f}" for seed, score in dev_scores.items())
    log.info("Dev metric after %.0f %% of the steps: %s", 100 * fraction, message)
    return setup.train(best_seed, work_dir / SCRATCH, state_dir=work_dir / f"seed-{best_seed}")


def _train_seed(
    setup: TrainingSetup,
    seed: int,
    fraction: float,
    measure: Callable[[Network], float],
    work_dir: Path,
) -> float:
    """Train a seed's first steps, unless their state is cached, and return the dev metric."""
    seed_dir = work_dir / f"seed-{seed}"
    n_steps = max(1, round(fraction * setup.n_steps))

    def write(*files: Path) -> None:
        *state_files, dev_file = files
        model = setup.train_steps(
            seed, n_steps, seed_dir / SCRATCH, dict(zip(STATE_FILES, state_files, strict=True))
        )
        dev_file.write_text(repr(measure(model)))

    RecordedFiles(seed_dir, {}, overwrite=True).build([*STATE_FILES, DEV_SCORE_FILE], write)
    return float((seed_dir / DEV_SCORE_FILE).read_text())


@dataclass(frozen=True)
class Settings:
    """Settings not stated by Thakur et al. (2021), or smaller; for two hours on two cores."""

    teacher: TrainingConfig = TEACHER
    student: TrainingConfig = STUDENT
    seed: int = 0  # seed of splits and samples, and first seed of the networks
    n_seeds: int = 5  # number of seeds per network
    seed_fraction: float = 0.2  # fraction of the steps before the best seed is selected
    k: int = 3  # neighbours per sentence (BM25, semantic)
    silver_ratio: float = 0.8  # maximum silver pairs per gold pair
    # labelled random pairs per gold pair (Thakur et al.: up to 10^6 in total)
    random_ratio: float = 3.0


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
    """Options of the studies of Augmented SBERT; the seed is that of everything random."""

    input_dir: Path = input_option("directory with bws/ and mrpc/, as published")
    repetitions: int = option(
        3, parse=parse_positive_int, help="number of repetitions with different seeds"
    )
    student: str = option("all-MiniLM-L6-v2", help="initial bi-encoder: name or directory")
    teacher: str | None = option(
        None,
        help="initial cross-encoder: name, or directory written by `prepare encoder` "
        "(default: the encoder of --student)",
    )


class Cell(NamedTuple):
    """A network to train in one repetition of a task."""

    task: str
    network: str
    repetition: int
    settings: Settings
    source: str = ""  # task of the teacher or of the training pairs, if it is another one
    gold_pairs: int | None = None  # size of a sample of the training pairs; None: all
    fraction: float | None = None  # share of the steps to train; None: all, with the best seed

    @property
    def name(self) -> str:
        """Name for log messages."""
        return f"{self.network} {self.source}".strip()


@dataclass(frozen=True)
class Study:
    """Gold pairs by task, initial encoders, default settings, device and cache of a study."""

    gold: Mapping[str, PairDataset]
    teacher: PretrainedEncoder
    student: PretrainedEncoder
    settings: Settings
    device: str
    cache: Cache

    @property
    def key(self) -> tuple[str, ...]:
        """Hashes of the encoders, device, and version of this module."""
        version = describe_versions(__name__)
        return (self.teacher.sha256, self.student.sha256, self.device, version)

    def identify(self, cell: Cell) -> object:
        """Return the values that determine a cell's result, besides `key`."""
        return cell, [_hash_pairs(self.gold[task]) for task in (cell.task, cell.source) if task]


@contextmanager
def open_study(options: SentencePairOptions, tasks: Sequence[str]) -> Iterator[Study]:
    """Load the gold pairs of tasks and the encoders; open the cache in the work directory."""
    student = PretrainedEncoder(options.student)
    teacher = PretrainedEncoder(options.teacher) if options.teacher else student
    config = TEACHER_CONFIGS.get(teacher.folder.name, TEACHER)
    settings = Settings(teacher=config, seed=options.seed)
    gold = {task: LOADERS[task](options.input_dir, options.seed) for task in dict.fromkeys(tasks)}
    with open_cache(options.work_dir, options.work_dir) as cache:
        yield Study(gold, teacher, student, settings, choose_device(options.device), cache)


def tabulate(
    study: Study,
    rows: Sequence[tuple[tuple[str | float, ...], Cell]],
    keys: Sequence[str],
    n_processes: int | None,
) -> pd.DataFrame:
    """Evaluate the cells of rows in parallel, cached; return `keys` of rows, and TrialResults."""
    # the networks that others need first
    cells = sorted(
        dict.fromkeys(cell for _, cell in rows), key=lambda cell: cell.network not in GOLD_NETWORKS
    )
    results = map_cached(
        partial(evaluate, study),
        cells,
        study.cache.path,
        name="augmented-sbert",
        key=study.key,
        result_type=TrialResult,
        identify=study.identify,
        n_processes=n_processes or get_default_process_count(study.device),
    )
    values = [(*row, *msgspec.structs.astuple(results[cell])) for row, cell in rows]
    return pd.DataFrame(values, columns=[*keys, *TrialResult.__struct_fields__])


def evaluate(study: Study, cell: Cell) -> TrialResult:
    """Train a cell's network and measure it on dev and test; a partly trained one on dev only."""
    start = time.monotonic()
    trial = Trial(study, cell)
    seeds_dir = trial.get_seeds_dir(cell.name, cell)
    silver_labels = NO_LABELS
    if cell.fraction is not None:
        dev = trial.measure_partly_trained(cell.fraction, seeds_dir)
        test = math.nan
    elif cell.network == BASELINE:
        dev, test = metrics.compute_baseline_metrics(trial.gold)
    else:
        model, silver_labels = trial.load_or_train(seeds_dir)
        scores = [predict_scores(model, pairs) for pairs in (trial.gold.dev, trial.gold.test)]
        dev, test = metrics.compute_metrics(trial.gold, *scores)
    shutil.rmtree(seeds_dir, ignore_errors=True)
    seconds = 0.0 if cell.fraction is not None else round(time.monotonic() - start, 1)
    result = TrialResult(dev, test, len(silver_labels), seconds)
    if len(silver_labels):
        result.silver_low = float(np.mean(silver_labels < LOW_THRESHOLD))
        result.silver_high = float(np.mean(silver_labels >= POSITIVE_THRESHOLD))
    scores_text = f"test {test:.2f}, dev {dev:.2f}, {result.silver_pairs} silver pairs"
    log.info("%s, %d, %s: %s, %.0f s", cell.task, cell.repetition, cell.name, scores_text, seconds)
    return result


class Trial:
    """A cell's repetition of its task, which determines the seeds of its networks and samples."""

    def __init__(self, study: Study, cell: Cell) -> None:
        """Create a trial without training."""
        self.gold = study.gold[cell.task]
        if cell.gold_pairs is not None:
            rng = np.random.default_rng(cell.repetition)
            rows = subsample(np.arange(len(self.gold.train)), cell.gold_pairs, rng)
            train = self.gold.train.iloc[rows].reset_index(drop=True)
            self.gold = replace(self.gold, train=train)
        self._study = study
        self._cell = cell
        self._settings = cell.settings
        first = cell.settings.seed + cell.repetition * cell.settings.n_seeds
        self._seeds = range(first, first + cell.settings.n_seeds)

    @cached_property
    def _sentences(self) -> sampling.SentencePool:
        return sampling.SentencePool.from_pairs(self.gold.train)

    def _build_key(self, *values: object) -> str:
        """Return a key of the task's pairs, repetition, networks' settings and other values."""
        settings = replace(self._settings, k=0, silver_ratio=0, random_ratio=0)  # of the sampling
        repetition = self._cell.repetition
        return repr((self._study.key, _hash_pairs(self.gold), repetition, settings, values))

    def get_seeds_dir(self, name: str, *values: object) -> Path:
        """Return the directory of the seeds' states while a network is trained."""
        key = sha256(self._build_key(name, *values).encode()).hexdigest()[:16]
        return self._study.cache.path / f"seeds-{name.replace(' ', '-')}-{key}"

    def measure_partly_trained(self, fraction: float, seeds_dir: Path) -> float:
        """Train the bi-encoder of the first seed for a share of the steps; return dev."""
        setup = self._build_setup(self._settings.student, self.gold.train)
        return _train_seed(setup, self._seeds[0], fraction, self._measure_dev, seeds_dir)

    def _measure_dev(self, model: Network) -> float:
        return metrics.compute_dev_metric(self.gold, predict_scores(model, self.gold.dev))

    def load_or_train(self, seeds_dir: Path) -> tuple[Network, np.ndarray]:
        """Load or train the cell's network; return it with the labels (pairs,) of silver pairs."""
        network = self._cell.network
        student = self._settings.student
        if network == UNTRAINED:
            return self.build_initial_network(student), NO_LABELS
        if network in GOLD_NETWORKS:
            return self.load_or_train_on_gold(network), NO_LABELS
        if network in STRATEGIES:
            silver = self.build_silver_pairs(network)
            pairs = pd.concat([self.gold.train, silver], ignore_index=True)
            return self._train(student, pairs, seeds_dir), silver["label"].to_numpy()
        source = Trial(self._study, self._cell._replace(task=self._cell.source))
        if network == UNADAPTED:
            return source.load_or_train_on_gold(BI_ENCODER), NO_LABELS
        silver = self.gold.train.assign(label=source.label_pairs(self.gold.train))
        return self._train(student, silver, seeds_dir), silver["label"].to_numpy()

    def label_pairs(self, pairs: pd.DataFrame) -> np.ndarray:
        """Return labels (N,) of pairs by the task's teacher, trained if it is not cached."""
        teacher = self.load_or_train_on_gold(CROSS_ENCODER)
        return networks.predict_labels(teacher, pairs, self._settings.teacher)

    def build_silver_pairs(self, strategy: str) -> pd.DataFrame:
        """Sample and label a strategy's silver pairs `first second label`."""
        if strategy == BM25_SEMANTIC:
            parts = [self.build_silver_pairs(BM25), self.build_silver_pairs(SEMANTIC)]
            union = pd.concat(parts, ignore_index=True)
            return union.drop_duplicates(["first", "second"], ignore_index=True)
        pairs = self._load_or_label_pairs(RANDOM if strategy == KDE else strategy)
        if strategy == KDE:
            gold = self.gold.train["label"].to_numpy()
            is_binary = self.gold.is_binary
            draw = sampling.draw_class_ratio_mask if is_binary else sampling.draw_density_mask
            pairs = pairs[draw(pairs["label"], gold, self._create_rng(KDE))]
        pairs = self._subsample(pairs, strategy)
        sample = np.stack([pairs["first"], pairs["second"]], axis=1)
        return self._sentences.to_frame(sample).assign(label=pairs["label"])

    def _load_or_label_pairs(self, strategy: str) -> np.ndarray:
        """Sample and label a strategy's pairs; of RANDOM all, which KDE also samples from."""

        def label_sample() -> np.ndarray:
            sample = self._sample_pairs(strategy)
            pairs = np.empty(len(sample), dtype=LABELLED_DTYPE)
            pairs["first"], pairs["second"] = sample.T
            pairs["label"] = self.label_pairs(self._sentences.to_frame(sample))
            return pairs

        settings = self._settings
        size = settings.random_ratio if strategy == RANDOM else (settings.k, settings.silver_ratio)
        parts = self._study.cache.parts(f"labelled-{strategy}", self._build_key(size))
        return parts.get_or_build_array("pairs", label_sample)

    def _sample_pairs(self, strategy: str) -> np.ndarray:
        settings = self._settings
        if strategy == RANDOM:
            size = round(settings.random_ratio * len(self.gold.train))
            return sampling.sample_random_pairs(self._sentences, size, self._create_rng(RANDOM))
        if strategy == BM25:
            return self._subsample(sampling.pair_by_bm25(self._sentences, settings.k), BM25)
        encoder = self.load_or_train_on_gold(BI_ENCODER)
        embeddings = networks.embed_texts(encoder, self._sentences.texts)
        pairs = sampling.pair_by_cosine(self._sentences, embeddings, settings.k)
        return self._subsample(pairs, SEMANTIC)

    def _subsample(self, pairs: np.ndarray, strategy: str) -> np.ndarray:
        """Sample at most `silver_ratio` pairs per gold pair."""
        max_pairs = round(self._settings.silver_ratio * len(self.gold.train))
        return subsample(pairs, max_pairs, self._create_rng(f"subsampled {strategy}"))

    def load_or_train_on_gold(self, network: str) -> Network:
        """Load or train CROSS_ENCODER or BI_ENCODER on gold pairs; its weights are cached."""
        training = self._settings.teacher if network == CROSS_ENCODER else self._settings.student

        def train() -> bytes:
            seeds_dir = self.get_seeds_dir(network)
            trained = self._train(training, self.gold.train, seeds_dir)
            shutil.rmtree(seeds_dir)
            return networks.serialise_trainable_state(trained)

        weights = self._study.cache.get_or_build(network, self._build_key(), train)
        model = self.build_initial_network(training)
        networks.load_trainable_state(model, weights)
        return model

    def _train(self, training: TrainingConfig, pairs: pd.DataFrame, seeds_dir: Path) -> Network:
        """Train the network of the best seed."""
        setup = self._build_setup(training, pairs)
        fraction = self._settings.seed_fraction
        return train_best_seed(setup, self._seeds, fraction, self._measure_dev, seeds_dir)

    def build_initial_network(self, training: TrainingConfig) -> Network:
        """Build a network before its first step, with the first seed."""
        return self._build_setup(training, self.gold.train).build_initial_network(self._seeds[0])

    def _build_setup(self, training: TrainingConfig, pairs: pd.DataFrame) -> TrainingSetup:
        device = self._study.device
        if training.loss == "cross_entropy":
            return TrainingSetup(self._study.teacher.folder, training, pairs, device)
        encoder = self._study.student.folder
        frozen_layers = None
        if training.frozen_blocks > 0:
            frozen_layers = _get_frozen_layers(encoder, training, device, self._cell.task)
        return TrainingSetup(encoder, training, pairs, device, frozen_layers)

    def _create_rng(self, stream: str) -> np.random.Generator:
        substream = [self._cell.repetition, TRIAL_STREAMS.index(stream)]
        return np.random.default_rng([self._settings.seed, *substream])


def _hash_pairs(gold: PairDataset) -> str:
    splits = [split.to_csv(index=False) for split in (gold.train, gold.dev, gold.test)]
    return sha256("".join(splits).encode()).hexdigest()


# only those of one task, whose activations are cached per sentence
@lru_cache(maxsize=1)
def _get_frozen_layers(
    encoder: Path, training: TrainingConfig, device: str, task: str
) -> FrozenLayerCache:
    return networks.build_frozen_layers(encoder, training, device)


def summarise(
    results: pd.DataFrame,
    keys: Sequence[str],
    columns: Sequence[str],
    gold: Mapping[str, PairDataset],
) -> pd.DataFrame:
    """Tabulate means and standard deviations over repetitions of the results of `tabulate`, in
    order of first occurrence, as `KEY… measure test test_sd dev dev_sd repetitions COLUMN…`;
    `gold` has the pairs of each task."""
    groups = results.groupby([*keys], sort=False)
    table = groups.agg(
        test=("test", "mean"),
        test_sd=("test", "std"),
        dev=("dev", "mean"),
        dev_sd=("dev", "std"),
        repetitions=("dev", "size"),
        **{column: (column, "mean") for column in columns},
    ).reset_index()
    measures = [metrics.F1 if gold[task].is_binary else metrics.SPEARMAN for task in table["task"]]
    table.insert(keys.index("task") + 1, "measure", measures)
    return table
