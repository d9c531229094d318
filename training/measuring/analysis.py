"""Similarity of the systems' lists: mean Jaccard index and Spearman correlation over topics (thesis 4.4, figure 4.11)."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping
from itertools import combinations, combinations_with_replacement
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import ConstantInputWarning, spearmanr

from submission.disk.files import make_directory, write_whole
from submission.errors import InputError, counted
from submission.input.order import Order
from submission.input.runs import read_run
from training.measuring.overlap import refuse_strangers
from training.pictures import figure, png

log = logging.getLogger(__name__)

DEPTH = 100  # documents a topic
FEWEST = 3  # documents in both lists, for a correlation


def analyse(directory: Path, output: Path, order: Order = "auto") -> dict[str, pd.DataFrame]:
    """Compare all runs of a directory, every two of them; write tables (CSV) and heat maps (PNG).

    Args:
        directory: with `<team>-<system>.txt` runs, as `rank` writes them.
        output: gets `jaccard.csv`, `spearman.csv`, `spearman-topics.csv` (the number of topics that have a correlation) and
            `jaccard.png`, `spearman.png`.
        order: by what runs are ordered, see `in_order`.

    Returns:
        The tables by name, systems × systems.

    Raises:
        InputError: fewer than two runs, two of one system, or two without a topic in common. OutputError: it cannot be written.
    """
    files = {file.stem: file for file in sorted(directory.glob("*-*.txt"))}
    if len(files) < 2:
        raise InputError(
            f"{directory}: {counted(len(files), 'run')} named <team>-<system>.txt; expected two or more to compare"
        )
    runs = {system(name): read_run(file, order) for name, file in files.items()}
    if len(runs) < len(files):
        raise InputError(
            f"{directory}: two runs of one system, of different teams; compare those of one team: {', '.join(files)}"
        )
    _require_overlap(runs)
    tables = similarities({name: lists(run) for name, run in runs.items()})
    make_directory(output)
    for name, table in tables.items():
        write_whole(output / f"{name}.csv", table.to_csv(float_format="%.4f", lineterminator="\n"))
    for name, picture in heat_maps(tables).items():
        write_whole(output / f"{name}.png", picture)
    log.info("%d systems compared: %s", len(runs), output)
    return tables


def _require_overlap(runs: Mapping[str, pd.DataFrame]) -> None:
    """Log how many topics all runs have; topics that some lack count as empty lists. Raises InputError: two have none."""
    topics = {name: list(dict.fromkeys(run["qid"])) for name, run in runs.items()}
    for (one, first), (other, second) in combinations(topics.items(), 2):
        if not set(first) & set(second):
            refuse_strangers(first, second, one, other)
    every, common = set().union(*topics.values()), set.intersection(*map(set, topics.values()))
    lacking = {name: len(every) - len(own) for name, own in topics.items() if len(own) < len(every)}
    words = f"; of {counted(len(every), 'topic')} in any, {lacking} are missing" if lacking else ""
    log.log(logging.WARNING if lacking else logging.INFO, "%d topics in common%s", len(common), words)


def similarities(lists: dict[str, dict[str, list[str]]]) -> dict[str, pd.DataFrame]:
    """Means over topics for every two systems.

    Args:
        lists: by system and qid, docnos in the order of their ranks.

    Returns:
        `jaccard`: over all topics of either system. `spearman`: over the topics where at least three documents are in both
        lists, of their order there; empty where there is no such topic. `spearman-topics`: how many topics those are.
    """
    names = list(lists)
    tables = {name: pd.DataFrame(np.nan, index=names, columns=names) for name in ("jaccard", "spearman")}
    counts = pd.DataFrame(0, index=names, columns=names)
    for one, other in combinations_with_replacement(names, 2):
        jaccards, correlations = [], []
        for qid in sorted(lists[one].keys() | lists[other].keys()):
            first, second = lists[one].get(qid, []), lists[other].get(qid, [])
            jaccards.append(jaccard(first, second))
            correlations.append(spearman(first, second))
        defined = [value for value in correlations if value is not None]
        for row, column in ((one, other), (other, one)):
            tables["jaccard"].loc[row, column] = np.mean(jaccards)
            tables["spearman"].loc[row, column] = np.mean(defined) if defined else np.nan
            counts.loc[row, column] = len(defined)
    return {**tables, "spearman-topics": counts}


def jaccard(first: list[str], second: list[str]) -> float:
    """The size of two lists' intersection over that of their union, which must not be empty (thesis eq. 4.1)."""
    return len({*first} & {*second}) / len({*first} | {*second})


def spearman(first: list[str], second: list[str]) -> float | None:
    """The correlation of two orders over the documents in both lists; None for fewer than three (thesis eq. 4.2)."""
    places = {docno: place for place, docno in enumerate(second)}
    both = [(place, places[docno]) for place, docno in enumerate(first) if docno in places]
    if len(both) < FEWEST:
        return None
    with warnings.catch_warnings(action="error", category=ConstantInputWarning):  # places are distinct: it cannot be
        return float(spearmanr(*zip(*both, strict=True)).statistic)


def heat_maps(tables: dict[str, pd.DataFrame]) -> dict[str, bytes]:
    """The pictures (PNG) of what `similarities` gives."""
    title = "Spearman correlation of the documents in both top 100"
    return {
        "jaccard": _heat_map(tables["jaccard"], "Jaccard index of the top 100", 0.0),
        "spearman": _heat_map(tables["spearman"], title, -1.0),
    }


def _heat_map(table: pd.DataFrame, title: str, lowest: float) -> bytes:
    """A table of values up to 1 as PNG, each value written into its field; an empty one is grey."""
    names = list(table.index)
    side = 3.2 + 0.72 * len(names)
    drawn = figure(side, side * 0.86)
    axes = drawn.subplots()
    axes.set_facecolor("#bbbbbb")
    image = axes.imshow(table.to_numpy(), vmin=lowest, vmax=1.0, cmap="viridis" if lowest == 0 else "RdBu")
    for (row, column), value in np.ndenumerate(table.to_numpy()):
        dark = (value < 0.55) if lowest == 0 else (abs(value) > 0.6)
        text = "–" if np.isnan(value) else f"{value:.2f}".replace("-0.00", "0.00")  # noqa: RUF001 a dash
        axes.text(column, row, text, ha="center", va="center", fontsize=10, color="white" if dark else "black")
    axes.set_xticks(range(len(names)), names, rotation=40, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(names)), names)
    axes.set_title(title)
    drawn.colorbar(image, ax=axes, shrink=0.8)
    return png(drawn)


def system(stem: str) -> str:
    """`aragorn-knrm` → `knrm`; a team's name may have hyphens too, a system's has none."""
    return stem.rpartition("-")[2]


def lists(run: pd.DataFrame) -> dict[str, list[str]]:
    """The first 100 docnos of a run by qid."""
    return {str(qid): group["docno"].tolist()[:DEPTH] for qid, group in run.groupby("qid", sort=False)}
