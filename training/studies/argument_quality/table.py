"""Tabulate the study's results with the published ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from training.evaluation.correlation import correlations, topics_of
from training.evaluation.significance import intervals
from training.studies.argument_quality.metrics import CORRELATIONS, by_list, lengths
from training.studies.argument_quality.pictures import Panel
from training.studies.argument_quality.protocol import Cell, Trial
from training.studies.argument_quality.published import PAPER
from training.tuning import quality_grid

TARGETS = {
    "combined": "score",
    "rhetorical": "rhetorical",
    "logical": "logical",
    "dialectical": "dialectical",
}  # Webis-ArgQuality-20: dimension, column
DEV = "Spearman on dev"  # selects the loss
LISTS = "webis_lists"  # setting name of the re-ranking rows
NAMES = ["part", "on", "target", "network"]
COLUMNS = [*NAMES, "measure", "mean", "low", "high", "deviation", "seeds", "paper"]

Networks = dict[str, list[np.ndarray]]  # test scores (rows,) per seed, NaN if untested
Rows = list[dict[str, object]]


def measured(part: str, trial: Trial, networks: Networks) -> Rows:
    """Tabulate every network on every test set, and the published results."""
    rows: Rows = []
    for test_set, mask in _tested(trial).items():
        published = {name: dict(zip(CORRELATIONS, values, strict=True)) for name, values in PAPER.get(part, {}).items()}
        for target, column in (TARGETS if test_set == "webis" else {"": "score"}).items():
            judged = trial.table[mask].assign(score=trial.table[column])
            for network, seeds in networks.items():
                frames = [by_list(judged, scores[mask]) for scores in seeds]
                rows += _rows((part, test_set, target, network), frames, published.pop(network, {}))
        for network, values in published.items():
            key = dict(zip(NAMES, (part, test_set, "", network), strict=True))
            rows += [{**key, "measure": measure, "paper": value} for measure, value in values.items()]
    return rows


def on_dev(part: str, trial: Trial, scored: Mapping[Cell, np.ndarray]) -> Rows:
    """Tabulate each network's mean dev correlation over folds."""
    by_network: dict[str, dict[int, list[float]]] = {}
    for cell, cell_scores in scored.items():
        mask = trial.rows(cell.fold, "dev")
        labels, scores = trial.table["score"].to_numpy()[mask], cell_scores[mask]
        values = [correlations(labels[rows], scores[rows])["Spearman"] for rows in topics_of(trial.table[mask])]
        by_network.setdefault(cell.network, {}).setdefault(cell.seed, []).extend(values)
    data = " and ".join(trial.part.trains)
    return [
        row
        for network, seeds in by_network.items()
        for row in _rows((part, data, "", network), [pd.DataFrame({DEV: values}) for values in seeds.values()])
    ]


def reordered(trial: Trial, networks: Networks) -> Rows:
    """Tabulate the original rankings and, per network, re-ranking by quality only and by both (cross-validated)."""
    mask = (trial.table["data"] == "webis").to_numpy()
    judged, names = trial.table[mask], list(quality_grid.MEASURES)
    columns = [*names, *(f"{name}, gained" for name in names)]
    rows: Rows = []
    for network, seed_scores in networks.items():
        grids = [quality_grid.values(judged, scores[mask]) for scores in seed_scores]
        original = grids[0][:, quality_grid.GIVEN]
        rows = rows or _rows((LISTS, "webis", "", "given order"), [pd.DataFrame(original, columns=names)])
        quality_only, combined = (
            [grid[:, quality_grid.ALONE] for grid in grids],
            [quality_grid.cross_validated(grid) for grid in grids],
        )
        for variant, seeds in (("quality alone", quality_only), ("both", combined)):
            frames = [pd.DataFrame(np.hstack([values, values - original]), columns=columns) for values in seeds]
            rows += _rows((LISTS, "webis", variant, network), frames)
    return rows


def panels(part: str, trial: Trial, scores: np.ndarray) -> Iterator[Panel]:
    """Yield the plot panels of a setting from a network's scores (rows,)."""
    words, quality = lengths(trial.table), trial.table.groupby(["data", "topic"])["score"].rank(pct=True).to_numpy()
    for test_set, mask in _tested(trial).items():
        yield Panel(part if test_set == part else f"{part}, {test_set}", words[mask], scores[mask], quality[mask])


def shown(results: pd.DataFrame) -> str:
    """Format the means, one row per network and one column per measure."""
    is_reranking = results["part"].eq(LISTS)
    tables = [results[~is_reranking], results[is_reranking]]
    means = [table.pivot_table("mean", NAMES, "measure", sort=False) for table in tables if len(table)]
    return "\n\n".join(table.to_string(float_format=lambda value: f"{value:.3f}", na_rep="") for table in means)


def _tested(trial: Trial) -> dict[str, np.ndarray]:
    """Return a mask (rows,) per test set; texts that are no arguments are excluded."""
    arguments = trial.table["argument"].ne(False) if "argument" in trial.table else True  # only Webis labels non-arguments
    return {data: ((trial.table["data"] == data) & arguments).to_numpy() for data in trial.part.tests or trial.part.trains}


def _rows(key: tuple[str, ...], values: Sequence[pd.DataFrame], published: dict[str, float] | None = None) -> Rows:
    """Tabulate one row per measure from one frame per seed (topics, measures) and the published values."""
    bounds = intervals(sum(values[1:], values[0]) / len(values)).to_dict("index")
    deviations = pd.DataFrame([frame.mean() for frame in values]).std().to_dict()
    figures = {"mean", "low", "high"}
    return [
        {
            **dict(zip(NAMES, key, strict=True)), "measure": measure,
            **{name: value for name, value in bound.items() if name in figures},
            "deviation": deviations[measure], "seeds": len(values), "paper": (published or {}).get(str(measure)),
        }
        for measure, bound in bounds.items()
    ]  # fmt: skip
