"""Reproduce the results of Thakur et al. (2021): train and evaluate every network on every task."""

from collections.abc import Mapping, Sequence
from dataclasses import astuple
from pathlib import Path

import pandas as pd
import torch
from aragorn.errors import UsageError, suggest
from aragorn.inference.pretrained import PretrainedEncoder
from aragorn.storage.cache_directory import CacheDirectory
from aragorn.storage.code_fingerprint import code_fingerprint

from aragorn_training.data.datasets.sentence_pairs import LOADERS
from aragorn_training.studies.augmented_sbert.trial import (
    ADAPTED,
    BASELINE,
    BI_ENCODER,
    CROSS_ENCODER,
    STRATEGIES,
    UNADAPTED,
    UNTRAINED,
    Encoders,
    Job,
    Request,
    Row,
    Settings,
    Trial,
    run_jobs,
    summarise,
)

UNSEEDED = (BASELINE, UNTRAINED)  # networks whose results do not depend on the repetition's seeds
SEEDED = (CROSS_ENCODER, BI_ENCODER, *STRATEGIES)
KEYS = ("task", "network")  # columns that identify a row
ADAPTATIONS = (("bws_cross", "mrpc"), ("mrpc", "bws_cross"))  # (source, target)


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
            silver pairs and seconds.

    Raises:
        UsageError: If a task is unknown.
    """
    if unknown_tasks := [task for task in tasks if task not in LOADERS]:
        raise UsageError(f"unknown task '{unknown_tasks[0]}'; {suggest(unknown_tasks[0], LOADERS)}")
    sources = [source for source, target in ADAPTATIONS if target in tasks]
    gold = {
        task: LOADERS[task](directory, settings.seed) for task in dict.fromkeys([*tasks, *sources])
    }
    code = code_fingerprint(Trial.__module__)
    encoders = Encoders(teacher.folder, student.folder)
    trials: dict[tuple[str, int], Trial] = {}
    for task, dataset in gold.items():
        data = [split.to_csv(index=False) for split in (dataset.train, dataset.dev, dataset.test)]
        encoder_hashes = (teacher.sha256, student.sha256)
        for repetition in range(repetition_count):
            key = repr((astuple(settings), repetition, *encoder_hashes, code, device.type, data))
            store = cache.open_store(f"augmented-{task}-{repetition}", key)
            trials[task, repetition] = Trial(dataset, repetition, settings, encoders, store, device)
    targets = {key: trial for key, trial in trials.items() if key[0] in tasks}
    jobs = [Job(trial, _list_networks(*key)) for key, trial in targets.items()]
    adaptations = [Job(trial, _list_adaptations(*key, trials)) for key, trial in targets.items()]
    # adaptations last: they need the source task's networks
    results = [run_jobs(batch, KEYS, process_count) for batch in (jobs, adaptations)]
    table = pd.concat([frame for frame in results if len(frame)])
    return summarise(table, KEYS, ["silver_pairs", "seconds"], gold)


def _list_networks(task: str, repetition: int) -> dict[Row, Request]:
    """Return the networks of a task; those whose results depend on no seed once."""
    names = [*(() if repetition else UNSEEDED), *SEEDED]
    return {(task, name): Request(name) for name in names}


def _list_adaptations(
    task: str, repetition: int, trials: Mapping[tuple[str, int], Trial]
) -> dict[Row, Request]:
    """Return the networks of a task that learn from another one."""
    return {
        (task, f"{verb} {source}"): Request(network, trials[source, repetition])
        for source, target in ADAPTATIONS
        if target == task
        for verb, network in (("trained on", UNADAPTED), ("adapted from", ADAPTED))
    }
