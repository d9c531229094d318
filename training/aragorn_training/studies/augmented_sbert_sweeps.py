"""Vary one setting of Augmented SBERT at a time (Thakur et al. 2021, tables 5, 9-12)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pandas as pd

from aragorn.options import option
from aragorn_training.data.datasets.sentence_pairs import PairDataset
from aragorn_training.studies.augmented_sbert import trial
from aragorn_training.studies.augmented_sbert.trial import Cell, SentencePairOptions, Settings

FILE = "augmented_sbert_sweeps.csv"
FIRST_COLUMNS = ("sweep", "task", "measure")
DIGITS = 2
KEY = "sweep"
KEYS = ("sweep", "task", "network", "value")  # columns that identify a row
BWS = ("bws_cross", "bws_in")
ALL = ("bws_cross", "bws_in", "mrpc")
UNLIMITED = 1e6  # silver pairs per gold pair: keep all
PARTIAL = f"{trial.BI_ENCODER}, partly trained"
K_VALUES = (3, 5, 7, 9, 12, 18)


class Sweep(NamedTuple):
    """Networks trained for each value of a setting."""

    tasks: tuple[str, ...]
    networks: tuple[str, ...]
    setting: str  # field of Settings or of Cell
    values: tuple[float, ...]
    changes: Mapping[str, Any] = {}  # other changed fields of Settings
    repetition_factor: int = 1


ALL_SILVER = {"silver_ratio": UNLIMITED}
SWEEPS = {
    # seeds of which the best is chosen: the default; tables 5 and 12: without seed optimisation
    "gold": Sweep(ALL, trial.GOLD_NETWORKS, "n_seeds", (5,)),
    "single_seed": Sweep(ALL, trial.GOLD_NETWORKS, "n_seeds", (1,), repetition_factor=5),
    # tables 9 to 11
    "bm25_k": Sweep(BWS, (trial.BM25,), "k", K_VALUES, ALL_SILVER),
    "semantic_k": Sweep(BWS, (trial.SEMANTIC,), "k", K_VALUES, ALL_SILVER),
    # table 11: labelled random pairs per gold pair; 100 is nearer to the published number
    "random_ratio": Sweep(BWS, (trial.RANDOM, trial.KDE), "random_ratio", (1, 3, 10), ALL_SILVER),
    "kde_ratio": Sweep(("bws_in",), (trial.KDE,), "random_ratio", (100,), ALL_SILVER),
    # figure 1, there for STSb
    "gold_pairs": Sweep(BWS, trial.GOLD_NETWORKS, "gold_pairs", (125, 250, 500, 1000, 2000)),
    # figure 6
    "step_fraction": Sweep(
        ALL, (PARTIAL,), "fraction", (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0), repetition_factor=5
    ),
}
ORDER = tuple(SWEEPS)


@dataclass(frozen=True, kw_only=True)
class Options(SentencePairOptions):
    """Options of the study."""

    sweeps: tuple[str, ...] = option(
        ORDER, "--sweep", choices=ORDER, help="setting to vary; repeatable"
    )


def run(options: Options) -> pd.DataFrame:
    """Train and evaluate the networks of sweeps.

    Returns:
        One row per sweep, task, network and value: mean and standard deviation on test and dev
        (percent), mean number of silver pairs, the shares of dissimilar and of similar ones (labels
        below .2, and of at least .5); for partly trained networks the Spearman correlation over
        seeds of their dev metric with that at the end of training.
    """
    sweeps = {name: sweep for name, sweep in SWEEPS.items() if name in options.sweeps}
    with trial.open_study(
        options, [task for sweep in sweeps.values() for task in sweep.tasks]
    ) as study:
        rows = [
            (
                (name, task, network, value),
                build_cell(sweep, task, network, repetition, value, study.settings),
            )
            for name, sweep in sweeps.items()
            for repetition in range(options.repetitions * sweep.repetition_factor)
            for task in sweep.tasks
            for value in sweep.values
            for network in sweep.networks
        ]
        return tabulate_sweeps(trial.tabulate(study, rows, KEYS, options.processes), study.gold)


def build_cell(
    sweep: Sweep, task: str, network: str, repetition: int, value: float, settings: Settings
) -> Cell:
    """Return the network of a sweep at one value."""
    network = trial.BI_ENCODER if network == PARTIAL else network
    changes: dict[str, Any] = {**sweep.changes, sweep.setting: value}
    if sweep.setting in Cell._fields:
        return Cell(task, network, repetition, settings, **changes)
    return Cell(task, network, repetition, replace(settings, **changes))


def tabulate_sweeps(results: pd.DataFrame, gold: Mapping[str, PairDataset]) -> pd.DataFrame:
    """Tabulate the results of all repetitions, see `run`."""
    columns = ["silver_pairs", "silver_low", "silver_high"]
    table = trial.summarise(results, KEYS, columns, gold)
    partial = results[results["network"] == PARTIAL]
    for (task, value), group in partial.groupby(["task", "value"]):
        is_final = (partial["task"] == task) & (partial["value"] == 1.0)
        if len(group) > 1:
            final = partial.loc[is_final, "dev"].reset_index(drop=True)
            correlation = group["dev"].reset_index(drop=True).corr(final, method="spearman")
            is_row = (table["network"] == PARTIAL) & (table["task"] == task)
            table.loc[is_row & (table["value"] == value), "correlation_with_end"] = correlation
    return table
