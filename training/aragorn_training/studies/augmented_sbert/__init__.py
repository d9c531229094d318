"""Replicate Thakur et al. 2021 (Augmented SBERT) on BWS and MRPC."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from aragorn.cache import open_cache
from aragorn.inference.pretrained import PretrainedEncoder
from aragorn.options import option
from aragorn_training.data.datasets.sentence_pairs import LOADERS
from aragorn_training.studies.augmented_sbert.trial import (
    ADAPTED,
    BASELINE,
    BI_ENCODER,
    CROSS_ENCODER,
    STRATEGIES,
    UNADAPTED,
    UNTRAINED,
    Job,
    Request,
    Row,
    SentencePairOptions,
    Session,
    Trial,
    run_jobs,
    summarise,
)

FILE = "augmented_sbert{options.suffix}.csv"
DIGITS = 2
KEY = "task"
ORDER = tuple(LOADERS)
UNSEEDED = (BASELINE, UNTRAINED)  # networks whose results do not depend on the repetition's seeds
SEEDED = (CROSS_ENCODER, BI_ENCODER, *STRATEGIES)
KEYS = ("task", "network")  # columns that identify a row
ADAPTATIONS = (("bws_cross", "mrpc"), ("mrpc", "bws_cross"))  # (source, target)


@dataclass(frozen=True, kw_only=True)
class Options(SentencePairOptions):
    """Options of the study."""

    parts: tuple[str, ...] = option(
        tuple(LOADERS), "--part", choices=tuple(LOADERS), help="task; repeatable"
    )

    @property
    def suffix(self) -> str:
        """End of the name of the result file: the name of the teacher, if it has its own encoder."""
        return f"_{PretrainedEncoder(self.teacher).folder.name}" if self.teacher else ""

    @property
    def replaced(self) -> list[str]:
        """Tasks whose rows are replaced."""
        return [*self.parts]


def run(options: Options) -> pd.DataFrame:
    """Train and evaluate all networks of the tasks; domain adaptation trains the source task's
    networks on demand.

    Returns:
        One row per task and network: mean and standard deviation on test and dev (percent), mean
        silver pairs and seconds; times are per process.
    """
    with open_cache(options.work_dir, options.work_dir) as cache:
        return _run_tasks(list(dict.fromkeys(options.parts)), options, Session(options, cache))


def _run_tasks(tasks: Sequence[str], options: Options, session: Session) -> pd.DataFrame:
    settings = session.settings
    sources = [source for source, target in ADAPTATIONS if target in tasks]
    gold = {
        task: LOADERS[task](options.input_dir, options.seed)
        for task in dict.fromkeys([*tasks, *sources])
    }
    trials: dict[tuple[str, int], Trial] = {}
    for task, dataset in gold.items():
        for repetition in range(options.repetitions):
            store = session.open_parts(f"augmented-{task}", settings, repetition, dataset)
            trials[task, repetition] = Trial(
                dataset, repetition, settings, session.encoders, store, session.device
            )
    targets = {key: trial for key, trial in trials.items() if key[0] in tasks}
    jobs = [Job(trial, _list_networks(*key)) for key, trial in targets.items()]
    adaptations = [Job(trial, _list_adaptations(*key, trials)) for key, trial in targets.items()]
    # adaptations last: they need the source task's networks
    results = [run_jobs(batch, KEYS, session.process_count) for batch in (jobs, adaptations)]
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
