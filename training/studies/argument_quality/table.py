"""The table of argument quality: what the scores of networks come to, beside the paper's figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from training.measuring.significance import intervals
from training.quality.validation import correlations, topics_of
from training.studies.argument_quality import rerank
from training.studies.argument_quality.measures import CORRELATIONS, by_list, lengths
from training.studies.argument_quality.paper import PAPER
from training.studies.argument_quality.pictures import Panel
from training.studies.argument_quality.protocol import Cell, Trial

TARGETS = {"combined": "score", "rhetorical": "rhetorical", "logical": "logical", "dialectical": "dialectical"}  # of webis
DEV = "Spearman on dev"  # by which a loss is chosen
LISTS = "webis_lists"  # the part of rows on lists that are re-ordered
NAMES = ["part", "on", "target", "network"]
COLUMNS = [*NAMES, "measure", "mean", "low", "high", "deviation", "seeds", "paper"]

Networks = dict[str, list[np.ndarray]]  # by name, for each seed the scores (rows,), NaN where it is not tested
Rows = list[dict[str, object]]


def measured(part: str, trial: Trial, networks: Networks) -> Rows:
    """Rows for every network on everything that a part tests, and for those that are in the paper alone."""
    rows: Rows = []
    for on, tested in _tested(trial).items():
        paper = {name: dict(zip(CORRELATIONS, own, strict=True)) for name, own in PAPER.get(part, {}).items()}
        for target, column in (TARGETS if on == "webis" else {"": "score"}).items():
            own = trial.table[tested].assign(score=trial.table[column])
            for network, found in networks.items():
                values = [by_list(own, scores[tested]) for scores in found]
                rows += _rows((part, on, target, network), values, paper.pop(network, {}))
        for network, figures in paper.items():
            place = dict(zip(NAMES, (part, on, "", network), strict=True))
            rows += [{**place, "measure": measure, "paper": figure} for measure, figure in figures.items()]
    return rows


def on_dev(part: str, trial: Trial, scored: Mapping[Cell, np.ndarray]) -> Rows:
    """Tabulate a row a network: its correlation on the lists that choose its epoch, the mean over all folds."""
    found: dict[str, dict[int, list[float]]] = {}
    for cell, of_cell in scored.items():
        rows = trial.rows(cell.fold, "dev")
        labels, scores = trial.table["score"].to_numpy()[rows], of_cell[rows]
        own = [correlations(labels[one], scores[one])["Spearman"] for one in topics_of(trial.table[rows])]
        found.setdefault(cell.network, {}).setdefault(cell.seed, []).extend(own)
    on = " and ".join(trial.part.trains)
    return [
        row
        for network, seeds in found.items()
        for row in _rows((part, on, "", network), [pd.DataFrame({DEV: own}) for own in seeds.values()])
    ]


def reordered(trial: Trial, networks: Networks) -> Rows:
    """Rows for the lists as they are; for each network by quality alone, and by both, re-ordered as is best on other topics."""
    tested = (trial.table["data"] == "webis").to_numpy()
    judged, names = trial.table[tested], list(rerank.MEASURES)
    columns = [*names, *(f"{name}, gained" for name in names)]
    rows: Rows = []
    for network, found in networks.items():
        seeds = [rerank.values(judged, scores[tested]) for scores in found]
        given = seeds[0][:, rerank.GIVEN]
        rows = rows or _rows((LISTS, "webis", "", "given order"), [pd.DataFrame(given, columns=names)])
        alone, both = [own[:, rerank.ALONE] for own in seeds], [rerank.cross_validated(own) for own in seeds]
        for way, own in (("quality alone", alone), ("both", both)):
            values = [pd.DataFrame(np.hstack([one, one - given]), columns=columns) for one in own]
            rows += _rows((LISTS, "webis", way, network), values)
    return rows


def panels(part: str, trial: Trial, scores: np.ndarray) -> Iterator[Panel]:
    """Yield the panels of a part's picture, from a network's scores (rows,)."""
    words, quality = lengths(trial.table), trial.table.groupby(["data", "topic"])["score"].rank(pct=True).to_numpy()
    for on, tested in _tested(trial).items():
        yield Panel(part if on == part else f"{part}, {on}", words[tested], scores[tested], quality[tested])


def shown(found: pd.DataFrame) -> str:
    """The means for people: a line a network, a column a measure."""
    of_lists = found["part"].eq(LISTS)
    tables = [found[~of_lists], found[of_lists]]
    lines = [own.pivot_table("mean", NAMES, "measure", sort=False) for own in tables if len(own)]
    return "\n\n".join(own.to_string(float_format=lambda value: f"{value:.3f}", na_rep="") for own in lines)


def _tested(trial: Trial) -> dict[str, np.ndarray]:
    """By data set that is tested, whether each argument is one of it, (rows,); texts that are no arguments are left out."""
    arguments = trial.table["argument"].ne(False) if "argument" in trial.table else True  # other data sets do not say
    return {on: ((trial.table["data"] == on) & arguments).to_numpy() for on in trial.part.tests or trial.part.trains}


def _rows(place: tuple[str, ...], values: Sequence[pd.DataFrame], paper: dict[str, float] | None = None) -> Rows:
    """A row a measure, of values by list (or topic) and measure, a frame a seed, and the paper's figures by measure."""
    bounds = intervals(sum(values[1:], values[0]) / len(values)).to_dict("index")
    deviations = pd.DataFrame([own.mean() for own in values]).std().to_dict()
    figures = {"mean", "low", "high"}
    return [
        {
            **dict(zip(NAMES, place, strict=True)), "measure": measure,
            **{name: value for name, value in bound.items() if name in figures},
            "deviation": deviations[measure], "seeds": len(values), "paper": (paper or {}).get(str(measure)),
        }
        for measure, bound in bounds.items()
    ]  # fmt: skip
