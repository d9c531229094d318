"""Reproduce the results of Thakur et al. (2021): train and evaluate every network on every task."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import torch
from aragorn.errors import UsageError, suggest
from aragorn.inference.pretrained import PretrainedEncoder
from aragorn.storage.cache_directory import CacheDirectory
from aragorn.storage.code_fingerprint import code_fingerprint

from aragorn_training.data.datasets.sentence_pairs import LOADERS, PairDataset
from aragorn_training.experiment import Experiment, run_experiment
from aragorn_training.studies.augmented_sbert.metrics import F1, SPEARMAN
from aragorn_training.studies.augmented_sbert.published import load_result
from aragorn_training.studies.augmented_sbert.trial import (
    ADAPTED,
    BASELINE,
    BI_ENCODER,
    CROSS_ENCODER,
    STRATEGIES,
    UNADAPTED,
    UNTRAINED,
    Encoders,
    Settings,
    Trial,
    TrialResult,
)

log = logging.getLogger(__name__)

UNSEEDED = (BASELINE, UNTRAINED)  # networks whose results do not depend on the repetition's seeds
SEEDED = (CROSS_ENCODER, BI_ENCODER, *STRATEGIES)
ADAPTATIONS = (("bws_cross", "mrpc"), ("mrpc", "bws_cross"))  # (source, target)


class Cell(NamedTuple):
    """One repetition of a network on a task."""

    task: str
    repetition: int
    network: str
    source_task: str = ""  # source task of a domain adaptation


class AugmentedSbertExperiment(Experiment[Cell, TrialResult]):
    """Experiment whose cells are networks; to use files that workers cache later, create a new
    instance."""

    name, unit, result_type = "augmented", "pairs", TrialResult

    def __init__(
        self,
        gold: Mapping[str, PairDataset],
        repetition_count: int,
        settings: Settings,
        teacher: PretrainedEncoder,
        student: PretrainedEncoder,
        cache: CacheDirectory,
        device: torch.device,
    ) -> None:
        """Create the trials of all tasks and repetitions."""
        code = code_fingerprint(Trial.__module__)
        self._settings = settings
        encoders = Encoders(teacher.folder, student.folder)
        self._trials: dict[tuple[str, int], Trial] = {}
        for task, dataset in gold.items():
            data = [
                split.to_csv(index=False) for split in (dataset.train, dataset.dev, dataset.test)
            ]
            for repetition in range(repetition_count):
                key = repr(
                    (
                        astuple(settings),
                        repetition,
                        teacher.sha256,
                        student.sha256,
                        code,
                        device.type,
                        data,
                    )
                )
                store = cache.open_store(f"augmented-{task}-{repetition}", key)
                self._trials[task, repetition] = Trial(
                    dataset, repetition, settings, encoders, store, device
                )

    def get_cache_key(self, cell: Cell) -> object:
        """Return the names of the network and of its trials; the latter contain hashes of data and
        settings."""
        return cell.network, [trial.name for trial in self._get_trials(cell) if trial]

    def get_group(self, cell: Cell) -> tuple[str, int]:
        """Return a cell's task and repetition, which identify its trial; a trial's networks share
        gold networks and labels."""
        return cell.task, cell.repetition

    def estimate_cost(self, cell: Cell) -> int:
        """Estimate the number of pairs that the network is trained on; a teacher's count twice."""
        relative_costs = {
            BASELINE: 0.0,
            UNTRAINED: 0.0,
            UNADAPTED: 0.0,
            CROSS_ENCODER: 2.0,
            BI_ENCODER: 1.0,
            ADAPTED: 1.0,
        }
        factor = 2 if cell.network == STRATEGIES[-1] else 1
        gold = self._trials[self.get_group(cell)].gold
        return 1 + round(
            len(gold.train)
            * relative_costs.get(cell.network, 1.0 + factor * self._settings.silver_ratio)
        )

    def compute(self, cell: Cell) -> TrialResult:
        """Train and evaluate a cell's network."""
        trial, source_trial = self._get_trials(cell)
        result = trial.evaluate(cell.network, source_trial)
        log.info(
            "%s, repetition %d, %s: test %.2f, dev %.2f, %d silver pairs, %.0f s",
            cell.task, cell.repetition + 1, _format_name(cell), result.test, result.dev, result.silver_pairs, result.seconds,
        )  # fmt: skip
        return result

    def _get_trials(self, cell: Cell) -> tuple[Trial, Trial | None]:
        """Return the trials of a cell's task and source task."""
        return self._trials[self.get_group(cell)], self._trials[
            cell.source_task, cell.repetition
        ] if cell.source_task else None


def run_study(
    directory: Path,
    tasks: Sequence[str],
    repetition_count: int,
    settings: Settings,
    teacher: PretrainedEncoder,
    student: PretrainedEncoder,
    cache: CacheDirectory,
    device: torch.device,
    process_count: int,
) -> pd.DataFrame:
    """Train and evaluate all networks of the tasks; domain adaptation trains the source task's
    networks on demand.

    Args:
        directory: Directory with one subdirectory per published data set.
        tasks: Task names.
        repetition_count: Number of repetitions with different seeds.
        settings: Settings of training and sampling, and the first seed.
        teacher: Initial encoder of the teachers.
        student: Initial encoder of the students.
        cache: Cache directory.
        device: Device to compute on.
        process_count: Number of trials run in parallel; times are per process.

    Returns:
        One row per task and network: mean and standard deviation on test and dev (percent), mean
            silver pairs and seconds, and
        the published results.

    Raises:
        UsageError: If a task is unknown.
    """
    if unknown_tasks := [task for task in tasks if task not in LOADERS]:
        raise UsageError(f"unknown task '{unknown_tasks[0]}'; {suggest(unknown_tasks[0], LOADERS)}")
    sources = [source for source, target in ADAPTATIONS if target in tasks]
    gold = {
        task: LOADERS[task](directory, settings.seed) for task in dict.fromkeys([*tasks, *sources])
    }
    cells = _list_cells(tasks, repetition_count)
    results: dict[Cell, TrialResult] = {}
    for is_adapted in (False, True):  # adaptations last: they need the source task's networks
        batch = [cell for cell in cells if bool(cell.source_task) == is_adapted]
        experiment = AugmentedSbertExperiment(
            gold, repetition_count, settings, teacher, student, cache, device
        )
        results |= run_experiment(experiment, batch, cache.directory, process_count)
    return _summarise(gold, {cell: results[cell] for cell in cells})


def _list_cells(tasks: Sequence[str], repetition_count: int) -> list[Cell]:
    """List the cells, repetition by repetition."""
    cells = [Cell(task, 0, network) for task in tasks for network in UNSEEDED]
    for repetition in range(repetition_count):
        cells += [Cell(task, repetition, network) for task in tasks for network in SEEDED]
        for source_task, target in ADAPTATIONS:
            if target in tasks:
                cells += [
                    Cell(target, repetition, network, source_task)
                    for network in (UNADAPTED, ADAPTED)
                ]
    return cells


def _format_name(cell: Cell) -> str:
    if not cell.source_task:
        return cell.network
    return f"{'trained on' if cell.network == UNADAPTED else 'adapted from'} {cell.source_task}"


def _summarise(gold: dict[str, PairDataset], results: dict[Cell, TrialResult]) -> pd.DataFrame:
    """Tabulate means and standard deviations over repetitions, next to the published results."""
    rows = []
    for task in dict.fromkeys(cell.task for cell in results):
        for name in dict.fromkeys(_format_name(cell) for cell in results if cell.task == task):
            group = [
                result
                for cell, result in results.items()
                if cell.task == task and _format_name(cell) == name
            ]
            values = pd.DataFrame(
                [(result.test, result.dev, result.silver_pairs, result.seconds) for result in group]
            )
            means, deviations = values.mean(), values.std()
            rows.append({
                "task": task, "measure": F1 if gold[task].is_binary else SPEARMAN, "network": name,
                "test": means[0], "test_sd": deviations[0], "dev": means[1], "dev_sd": deviations[1],
                "repetitions": len(group), "silver_pairs": means[2], "seconds": means[3],
                **{f"published_{field}": value for field, value in load_result(task, name)._asdict().items()},
            })  # fmt: skip
    return pd.DataFrame(rows)
