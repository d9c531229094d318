"""Vary one setting of Augmented SBERT at a time, as in Thakur et al. (2021), tables 5 and 9 to 12
and figures 1 and 6."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from aragorn.cache import open_cache
from aragorn.options import option
from aragorn_training.data.datasets.sentence_pairs import LOADERS, PairDataset
from aragorn_training.studies.augmented_sbert.trial import (
    BI_ENCODER,
    BM25,
    CROSS_ENCODER,
    KDE,
    RANDOM,
    SEMANTIC,
    Job,
    Request,
    Row,
    SentencePairOptions,
    Session,
    Settings,
    Trial,
    run_jobs,
    summarise,
)

FILE = "augmented_sbert_sweeps.csv"
DIGITS = 2
KEY = "sweep"
BWS = ("bws_cross", "bws_in")
ALL = ("bws_cross", "bws_in", "mrpc")
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


KEYS = ("sweep", "task", "network", "value")  # columns that identify a row
GOLD = "gold"
GOLD_PAIRS = "gold_pairs"
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

ORDER = tuple(SWEEPS)


class Point(NamedTuple):
    """One repetition of a task at one value of a sweep."""

    sweep: str
    task: str
    repetition: int
    value: float


def _sample_gold_pairs(gold: PairDataset, repetition: int, count: int) -> PairDataset:
    rows = np.sort(np.random.default_rng(repetition).permutation(len(gold.train))[:count])
    return replace(gold, train=gold.train.iloc[rows].reset_index(drop=True))


@dataclass(frozen=True, kw_only=True)
class Options(SentencePairOptions):
    """Options of the study."""

    sweeps: tuple[str, ...] = option(
        ORDER, "--sweep", choices=ORDER, help="setting to vary; repeatable"
    )

    @property
    def replaced(self) -> list[str]:
        """Sweeps whose rows are replaced."""
        return [*self.sweeps]


def run(options: Options) -> pd.DataFrame:
    """Train and evaluate the networks of sweeps.

    Returns:
        One row per sweep, task, network and value: mean and standard deviation on test and dev
        (percent), mean number of silver pairs, the shares of dissimilar and of similar ones (labels
        below .2, and of at least .5); for partly trained networks the Spearman correlation over
        seeds of their dev metric with that at the end of training.
    """
    points = list_points(options.sweeps, options.repetitions)
    gold = {
        task: LOADERS[task](options.input_dir, options.seed)
        for task in dict.fromkeys(point.task for point in points)
    }
    results = []
    with open_cache(options.work_dir, options.work_dir) as cache:
        session = Session(options, cache)
        for is_gold in (True, False):  # the networks that others share first
            batch = [
                Job(_build_trial(point, gold[point.task], session), _list_networks(point))
                for point in points
                if (point.sweep == GOLD) == is_gold
            ]
            results.append(run_jobs(batch, KEYS, session.process_count))
    table = pd.concat([frame for frame in results if len(frame)])
    return tabulate_sweeps(table[table["sweep"].isin(options.sweeps)], gold)


def _build_trial(point: Point, gold: PairDataset, session: Session) -> Trial:
    sweep = SWEEPS[point.sweep]
    settings = sweep.change(session.settings, point.value)
    name = f"sweep-{point.sweep}-{point.value:g}-{point.task}"
    store = session.open_parts(name, settings, point.repetition, gold)
    gold_store = store
    if point.sweep == GOLD or sweep.shares_gold:
        name = f"sweep-{GOLD}-{point.task}"
        gold_store = session.open_parts(name, session.settings, point.repetition, gold)
    if point.sweep == GOLD_PAIRS:
        gold = _sample_gold_pairs(gold, point.repetition, int(point.value))
    return Trial(
        gold, point.repetition, settings, session.encoders, store, session.device, gold_store
    )


def list_points(sweeps: Sequence[str], repetition_count: int) -> list[Point]:
    """List the points of sweeps and of the gold networks that they share, repetition by
    repetition."""
    shared_tasks = {
        task for name in sweeps if SWEEPS[name].shares_gold for task in SWEEPS[name].tasks
    }
    return [
        Point(name, task, repetition, value)
        for name, sweep in SWEEPS.items()
        for repetition in range(repetition_count * sweep.repetition_factor)
        for task in sweep.tasks
        if name in sweeps or (name == GOLD and task in shared_tasks)
        # one trial trains a network for all fractions of the steps
        for value in ((1.0,) if sweep.networks == (PARTIAL,) else sweep.values)
    ]


def _list_networks(point: Point) -> dict[Row, Request]:
    """Return the networks that a point's trial evaluates."""
    sweep = SWEEPS[point.sweep]
    if sweep.networks == (PARTIAL,):
        return {
            (point.sweep, point.task, PARTIAL, value): Request(BI_ENCODER, fraction=value)
            for value in sweep.values
        }
    return {
        (point.sweep, point.task, network, point.value): Request(network)
        for network in sweep.networks
    }


def tabulate_sweeps(results: pd.DataFrame, gold: Mapping[str, PairDataset]) -> pd.DataFrame:
    """Tabulate the results of all repetitions, see `run_sweeps`."""
    columns = ["silver_pairs", "silver_low", "silver_high"]
    table = summarise(results, KEYS, columns, gold)
    partial = results[results["network"] == PARTIAL]
    for (task, value), group in partial.groupby(["task", "value"]):
        is_final = (partial["task"] == task) & (partial["value"] == 1.0)
        if len(group) > 1:
            final = partial.loc[is_final, "dev"].reset_index(drop=True)
            correlation = group["dev"].reset_index(drop=True).corr(final, method="spearman")
            is_row = (table["network"] == PARTIAL) & (table["task"] == task)
            table.loc[is_row & (table["value"] == value), "correlation_with_end"] = correlation
    return table
