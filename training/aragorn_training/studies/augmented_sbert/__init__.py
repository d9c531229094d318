"""Replicate Thakur et al. 2021 (Augmented SBERT) on BWS and MRPC."""

from dataclasses import dataclass

import pandas as pd

from aragorn.inference.pretrained import PretrainedEncoder
from aragorn.options import option
from aragorn_training.data.datasets.sentence_pairs import LOADERS
from aragorn_training.studies.augmented_sbert import trial
from aragorn_training.studies.augmented_sbert.trial import Cell, SentencePairOptions, Settings

FILE = "augmented_sbert{options.suffix}.csv"
FIRST_COLUMNS = ("task", "measure", "network")
DIGITS = 2
KEY = "task"
ORDER = tuple(LOADERS)
# networks that do not depend on the repetition's seeds
UNSEEDED = (trial.BASELINE, trial.UNTRAINED)
SEEDED = (*trial.GOLD_NETWORKS, *trial.STRATEGIES)
KEYS = ("task", "network")  # columns that identify a row
SOURCES = {"mrpc": "bws_cross", "bws_cross": "mrpc"}  # source of the domain adaptation, by task


@dataclass(frozen=True, kw_only=True)
class Options(SentencePairOptions):
    """Options of the study."""

    parts: tuple[str, ...] = option(
        tuple(LOADERS), "--part", choices=tuple(LOADERS), help="task; repeatable"
    )

    @property
    def suffix(self) -> str:
        """End of the name of the result file: the teacher, if it has its own encoder."""
        return f"_{PretrainedEncoder(self.teacher).folder.name}" if self.teacher else ""


def run(options: Options) -> pd.DataFrame:
    """Train and evaluate all networks of the tasks; tabulate mean and standard deviation on test
    and dev (percent), mean silver pairs and mean seconds per process."""
    sources = [SOURCES[task] for task in options.parts if task in SOURCES]
    with trial.open_study(options, [*options.parts, *sources]) as study:
        rows = [
            row
            for task in dict.fromkeys(options.parts)
            for repetition in range(options.repetitions)
            for row in _list_networks(task, repetition, study.settings)
        ]
        table = trial.tabulate(study, rows, KEYS, options.processes)
        return trial.summarise(table, KEYS, ["silver_pairs", "seconds"], study.gold)


def _list_networks(
    task: str, repetition: int, settings: Settings
) -> list[tuple[tuple[str, str], Cell]]:
    """Return the networks of a task with their rows; those whose results depend on no seed once."""
    names = [*(() if repetition else UNSEEDED), *SEEDED]
    rows = [((task, name), Cell(task, name, repetition, settings)) for name in names]
    if source := SOURCES.get(task):
        for verb, name in (("trained on", trial.UNADAPTED), ("adapted from", trial.ADAPTED)):
            cell = Cell(task, name, repetition, settings, source)
            rows.append(((task, f"{verb} {source}"), cell))
    return rows
