"""Vary one setting of Augmented SBERT at a time, as in Thakur et al. (2021), tables 5 and 9 to 12
and figures 1 and 6."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from aragorn.inference.pretrained import PretrainedEncoder
from aragorn.storage.artifact_store import ArtifactStore
from aragorn.storage.cache_directory import CacheDirectory
from aragorn.storage.code_fingerprint import code_fingerprint

from aragorn_training.data.datasets.sentence_pairs import LOADERS, PairDataset
from aragorn_training.data.work_directory import hash_json
from aragorn_training.experiment import Experiment, run_experiment
from aragorn_training.studies.augmented_sbert.metrics import F1, SPEARMAN
from aragorn_training.studies.augmented_sbert.published import load_sweep_result
from aragorn_training.studies.augmented_sbert.trial import (
    BI_ENCODER,
    BM25,
    CROSS_ENCODER,
    KDE,
    RANDOM,
    SEMANTIC,
    Encoders,
    Settings,
    Trial,
    TrialResult,
)

BWS, ALL = ("bws_cross", "bws_in"), ("bws_cross", "bws_in", "mrpc")
UNLIMITED = 1e6  # silver pairs per gold pair: keep all
PARTIAL = f"{BI_ENCODER}, partly trained"
K_VALUES = (3, 5, 7, 9, 12, 18)


class Sweep(NamedTuple):
    """The values of a setting, and the networks trained for each value."""

    tasks: tuple[str, ...]
    networks: tuple[str, ...]
    values: tuple[float, ...]
    change: Callable[[Settings, float], Settings] = lambda settings, value: settings
    # whether teachers, and students trained on gold pairs, are those of GOLD
    shares_gold: bool = False
    repetition_factor: int = 1


GOLD, GOLD_PAIRS = "gold", "gold_pairs"
SWEEPS = {
    # seeds of which the best is chosen (default)
    GOLD: Sweep(ALL, (CROSS_ENCODER, BI_ENCODER), (5,)),
    "single_seed": Sweep(  # tables 5 and 12: without seed optimisation
        ALL,
        (CROSS_ENCODER, BI_ENCODER),
        (1,),
        lambda settings, n: replace(settings, n_seeds=int(n)),
        repetition_factor=5,
    ),
    "bm25_k": Sweep(  # tables 9 and 11
        BWS,
        (BM25,),
        K_VALUES,
        lambda settings, k: replace(settings, k=int(k), silver_ratio=UNLIMITED),
        shares_gold=True,
    ),
    "semantic_k": Sweep(  # tables 10 and 11
        BWS,
        (SEMANTIC,),
        K_VALUES,
        lambda settings, k: replace(settings, k=int(k), silver_ratio=UNLIMITED),
        shares_gold=True,
    ),
    "random_ratio": Sweep(  # table 11: labelled random pairs per gold pair
        BWS,
        (RANDOM, KDE),
        (1, 3, 10),
        lambda settings, n: replace(settings, random_ratio=n, silver_ratio=UNLIMITED),
        True,
    ),
    "kde_ratio": Sweep(  # table 11: nearer to the published number of random pairs
        ("bws_in",),
        (KDE,),
        (100,),
        lambda settings, n: replace(settings, random_ratio=n, silver_ratio=UNLIMITED),
        True,
    ),
    # figure 1, there for STSb
    GOLD_PAIRS: Sweep(BWS, (CROSS_ENCODER, BI_ENCODER), (125, 250, 500, 1000, 2000)),
    # figure 6
    "step_fraction": Sweep(
        ALL, (PARTIAL,), (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0), repetition_factor=5
    ),
}

TrialKey = tuple[str, str, int, float]  # sweep, task, repetition and value


class Cell(NamedTuple):
    """One repetition of a network at one value of a sweep."""

    sweep: str
    task: str
    repetition: int
    value: float
    network: str

    @property
    def trial(self) -> TrialKey:
        """Key of the trial that trains the cell's network; one trial trains a network for all
        fractions of the steps."""
        return (
            self.sweep,
            self.task,
            self.repetition,
            1.0 if self.network == PARTIAL else self.value,
        )


class SweepExperiment(Experiment[Cell, TrialResult]):
    """Experiment whose cells are networks; to use gold networks that workers cache later, create a
    new instance."""

    name, unit, result_type = "augmented-sweeps", "networks", TrialResult

    def __init__(
        self,
        gold: Mapping[str, PairDataset],
        cells: Sequence[Cell],
        settings: Settings,
        teacher: PretrainedEncoder,
        student: PretrainedEncoder,
        cache: CacheDirectory,
        device: torch.device,
    ) -> None:
        """Open the stores of all trials; a trial is created by the process that computes it."""
        code, self._encoders = code_fingerprint(__name__), Encoders(teacher.folder, student.folder)
        self._gold, self._settings, self._device = gold, settings, device
        self._stores: dict[TrialKey, tuple[ArtifactStore, ArtifactStore]] = {}
        self._trials: dict[TrialKey, Trial] = {}
        data = {
            task: hash_json([part.to_csv() for part in (pairs.train, pairs.dev, pairs.test)])
            for task, pairs in gold.items()
        }
        for trial in dict.fromkeys(cell.trial for cell in cells):
            sweep, task, repetition, value = trial
            key = (repetition, teacher.sha256, student.sha256, code, device.type, data[task])
            trial_settings = SWEEPS[sweep].change(settings, value)
            gold_store = cache.open_store(
                f"sweep-{GOLD}-{task}-{repetition}", repr((astuple(settings), key))
            )
            store = cache.open_store(
                f"sweep-{sweep}-{value:g}-{task}-{repetition}", repr((astuple(trial_settings), key))
            )
            shares_gold = sweep == GOLD or SWEEPS[sweep].shares_gold
            self._stores[trial] = (store, gold_store if shares_gold else store)

    def get_cache_key(self, cell: Cell) -> object:
        """Return the cell and the name of its trial's store, which contains a hash of data and
        settings."""
        return cell, self._stores[cell.trial][0].directory.name

    def get_group(self, cell: Cell) -> TrialKey:
        """Return the key of a cell's trial, whose networks depend on each other."""
        return cell.trial

    def compute(self, cell: Cell) -> TrialResult:
        """Train and evaluate a cell's network; a partly trained network is evaluated on dev
        only."""
        if cell.trial not in self._trials:
            self._trials = {cell.trial: self._build_trial(cell)}
        trial = self._trials[cell.trial]
        if cell.network == PARTIAL:
            return TrialResult(trial.measure_dev_after(cell.value), np.nan, 0, 0.0)
        return trial.evaluate(cell.network)

    def _build_trial(self, cell: Cell) -> Trial:
        gold, settings = (
            self._gold[cell.task],
            SWEEPS[cell.sweep].change(self._settings, cell.value),
        )
        if cell.sweep == GOLD_PAIRS:
            gold = _sample_gold_pairs(gold, cell.repetition, int(cell.value))
        store, gold_store = self._stores[cell.trial]
        return Trial(
            gold, cell.repetition, settings, self._encoders, store, self._device, gold_store
        )


def _sample_gold_pairs(gold: PairDataset, repetition: int, count: int) -> PairDataset:
    rows = np.sort(np.random.default_rng(repetition).permutation(len(gold.train))[:count])
    return replace(gold, train=gold.train.iloc[rows].reset_index(drop=True))


def run_sweeps(
    directory: Path,
    sweeps: Sequence[str],
    repetition_count: int,
    settings: Settings,
    teacher: PretrainedEncoder,
    student: PretrainedEncoder,
    cache: CacheDirectory,
    device: torch.device,
    process_count: int,
) -> pd.DataFrame:
    """Train and evaluate the networks of sweeps; the arguments are those of `study.run_study`.

    Returns:
        One row per sweep, task, network and value: mean and standard deviation on test and dev
            (percent), mean number of
        silver pairs, the shares of dissimilar and of similar ones (labels below .2, and of at least
        .5), and the published test result; for partly trained networks the Spearman correlation
        over seeds of their dev metric with that at the end of training.
    """
    cells = list_cells(sweeps, repetition_count)
    gold = {
        task: LOADERS[task](directory, settings.seed)
        for task in dict.fromkeys(cell.task for cell in cells)
    }
    results: dict[Cell, TrialResult] = {}
    for is_gold in (True, False):  # the networks that others share first
        batch = [cell for cell in cells if (cell.sweep == GOLD) == is_gold]
        experiment = SweepExperiment(gold, batch, settings, teacher, student, cache, device)
        results |= run_experiment(experiment, batch, cache.directory, process_count)
    return summarise(gold, {cell: results[cell] for cell in cells if cell.sweep in sweeps})


def list_cells(sweeps: Sequence[str], repetition_count: int) -> list[Cell]:
    """List the cells of sweeps and of the gold networks that they share, repetition by
    repetition."""
    shared_tasks = {
        task for name in sweeps if SWEEPS[name].shares_gold for task in SWEEPS[name].tasks
    }
    return [
        Cell(name, task, repetition, value, network)
        for name, sweep in SWEEPS.items()
        for repetition in range(repetition_count * sweep.repetition_factor)
        for task in sweep.tasks
        if name in sweeps or (name == GOLD and task in shared_tasks)
        for value in sweep.values
        for network in sweep.networks
    ]


def summarise(gold: Mapping[str, PairDataset], results: Mapping[Cell, TrialResult]) -> pd.DataFrame:
    """Tabulate means and standard deviations over repetitions, next to the published results, see
    `run_sweeps`."""
    groups: dict[tuple[str, str, str, float], list[TrialResult]] = {}
    for cell, result in results.items():
        groups.setdefault((cell.sweep, cell.task, cell.network, cell.value), []).append(result)
    rows = []
    for (name, task, network, value), group in groups.items():
        values = pd.DataFrame([
            (result.test, result.dev, result.silver_pairs, result.silver_low, result.silver_high) for result in group
        ])  # fmt: skip
        means, deviations = values.mean(), values.std()
        row = {
            "sweep": name, "task": task, "measure": F1 if gold[task].is_binary else SPEARMAN, "network": network,
            "value": value, "test": means[0], "test_sd": deviations[0], "dev": means[1], "dev_sd": deviations[1],
            "repetitions": len(group), "silver_pairs": means[2], "silver_low": means[3], "silver_high": means[4],
            "published_test": load_sweep_result(name, task, network, value),
        }  # fmt: skip
        if network == PARTIAL and len(group) > 1:
            final = pd.Series([result.dev for result in groups[name, task, network, 1.0]])
            row["correlation_with_end"] = values[1].corr(final, method="spearman")
        rows.append(row)
    return pd.DataFrame(rows)
