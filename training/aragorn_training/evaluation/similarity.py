"""Compare rankings of systems, and correlate scores with argument quality."""

import logging
from collections.abc import Mapping, Sequence
from itertools import combinations, combinations_with_replacement
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import kendalltau, pearsonr, spearmanr

from aragorn.errors import (
    MAX_NAMES_LISTED,
    InputError,
    abbreviate_list,
    build_unreadable_input_error,
    escape_name,
    pluralise,
)
from aragorn.io import Order
from aragorn.io.files import select_files
from aragorn.io.runs import read_run
from aragorn.storage.atomic_files import create_directory, write_all_atomic
from aragorn_training.evaluation.overlap import raise_no_common_topic
from aragorn_training.evaluation.plots import PNG_SIGNATURE, create_figure, render_png
from aragorn_training.evaluation.tables import format_csv
from aragorn_training.formatting import format_value

log = logging.getLogger(__name__)

DEPTH = 100  # number of documents compared per topic
NO_MATCH = rb"(?!)"  # pattern that replaces no file but an empty one
MIN_COMMON_DOCUMENTS = 3  # minimum number of common documents for a correlation
# kendalltau computes tau-b
CORRELATIONS = {"Pearson": pearsonr, "Spearman": spearmanr, "Kendall": kendalltau}


def group_rows_by_topic(table: pd.DataFrame) -> list[np.ndarray]:
    """Return the row numbers of each (data, topic) pair, in order of occurrence."""
    topic_ids = table.groupby(["data", "topic"], sort=False).ngroup().to_numpy()
    return [
        np.flatnonzero(topic_ids == topic_id) for topic_id in range(topic_ids.max(initial=-1) + 1)
    ]


def correlate(labels: np.ndarray, scores: np.ndarray) -> dict[str, float]:
    """Return Pearson's r, Spearman's rho and Kendall's tau-b by name; 0 for equal scores."""
    if (scores == scores[0]).all():
        return dict.fromkeys(CORRELATIONS, 0.0)
    return {
        name: float(measure(labels, scores).statistic) for name, measure in CORRELATIONS.items()
    }


def average_correlations(table: pd.DataFrame, scores: np.ndarray) -> dict[str, float]:
    """Return the correlations of scores (rows,) with a table's labels, averaged over topics, in
    percent by name; raise InputError if all arguments of a topic have the same quality."""
    labels = table["score"].to_numpy()
    by_topic = []
    for rows in group_rows_by_topic(table):
        if (labels[rows] == labels[rows[0]]).all():
            data, topic = table[["data", "topic"]].iloc[rows[0]]
            raise InputError(
                f"{data}, topic {topic!r}: all arguments have the same quality; remove the topic"
            )
        by_topic.append(correlate(labels[rows], scores[rows]))
    means = {name: np.mean([values[name] for values in by_topic]) for name in CORRELATIONS}
    return {name: round(100 * float(mean), 2) for name, mean in means.items()}


def compare_runs(directory: Path, output: Path, order: Order = "auto") -> dict[str, pd.DataFrame]:
    """Compare all pairs of runs <team>-<system>.txt in a directory; write heat maps (PNG) and
    tables (CSV) to `output`, and return the tables (runs × runs, see `name_runs`) by name.

    Raises InputError for fewer than two runs, two files of one run, or runs without a common topic.
    """
    files = _index_by_name(name_runs(list_runs(directory)))
    if len(files) < 2:
        reason = f"{pluralise(len(files), 'run')} named <team>-<system>.txt"
        raise InputError(directory, "", reason, "expected at least two")
    runs = {name: read_run(file, order) for name, file in files.items()}
    _check_common_topics(runs)
    tables = compute_similarity_tables({name: select_top_docnos(run) for name, run in runs.items()})
    for first, second in combinations(runs, 2):
        if tables["jaccard"].loc[first, second] == 0:
            cause = "no common document in any topic"
            message = "%s and %s: %s; check that both are of the same corpus"
            log.warning(message, first, second, cause)
    create_directory(output)
    contents: dict[Path, tuple[str | bytes, bytes]] = {}
    for name, table in tables.items():
        contents[output / f"{name}.csv"] = format_csv(table.rename_axis("system"), 4, n_fixed=1)
    for name, heat_map in plot_heat_maps(tables).items():
        # a picture of that name without the table is the user's
        has_table = (output / f"{name}.csv").exists()
        contents[output / f"{name}.png"] = heat_map, PNG_SIGNATURE if has_table else NO_MATCH
    write_all_atomic(contents)
    log.info("Compared %d systems: %s", len(runs), output)
    return tables


def _check_common_topics(runs: Mapping[str, pd.DataFrame]) -> None:
    """Log the number of common topics; raise InputError if two runs have none in common."""
    topics = {name: list(dict.fromkeys(run["qid"])) for name, run in runs.items()}
    for (first_name, first), (second_name, second) in combinations(topics.items(), 2):
        if not set(first) & set(second):
            raise_no_common_topic(first, second, first_name, second_name)
    all_topics = set().union(*topics.values())
    common_topics = set.intersection(*map(set, topics.values()))
    missing = [
        f"{name} ({abbreviate_list(qids, MAX_NAMES_LISTED)})"
        for name, run_topics in topics.items()
        if (qids := sorted(all_topics - {*run_topics}))
    ]
    suffix = f" of {len(all_topics)}; missing topics: {', '.join(missing)}" if missing else ""
    level = logging.WARNING if missing else logging.INFO
    log.log(level, "Topics in all runs: %d%s", len(common_topics), suffix)


def compute_similarity_tables(rankings: dict[str, dict[str, list[str]]]) -> dict[str, pd.DataFrame]:
    """Compute the similarity of each pair of systems, averaged over topics, from ranked docnos by
    system and qid: `jaccard`, over common topics; `spearman`, over topics with at least three
    common documents; `spearman-topics`, the number of these. Means of no topic are NaN."""
    names = list(rankings)
    tables = {
        name: pd.DataFrame(value, index=names, columns=names)
        for name, value in {"jaccard": np.nan, "spearman": np.nan, "spearman-topics": 0}.items()
    }
    for system_a, system_b in combinations_with_replacement(names, 2):
        first, second = rankings[system_a], rankings[system_b]
        qids = sorted(first.keys() & second.keys())
        jaccards = [jaccard(first[qid], second[qid]) for qid in qids]
        coefficients = [spearman(first[qid], second[qid]) for qid in qids]
        defined = [value for value in coefficients if value is not None]
        values = {
            "jaccard": np.mean(jaccards) if jaccards else np.nan,
            "spearman": np.mean(defined) if defined else np.nan,
            "spearman-topics": len(defined),
        }
        for name, value in values.items():
            tables[name].loc[system_a, system_b] = tables[name].loc[system_b, system_a] = value
    return tables


def jaccard(first: list[str], second: list[str]) -> float:
    """Compute the Jaccard index of two rankings, not both empty (Entezari 2020, eq. 4.1)."""
    return len({*first} & {*second}) / len({*first} | {*second})


def spearman(first: list[str], second: list[str]) -> float | None:
    """Compute Spearman's correlation of common documents; None for < 3 (Entezari 2020, eq. 4.2)."""
    ranks = {docno: rank for rank, docno in enumerate(second)}
    common_ranks = np.array([ranks[docno] for docno in first if docno in ranks])
    n = len(common_ranks)
    if n < MIN_COMMON_DOCUMENTS:
        return None
    differences = np.argsort(np.argsort(common_ranks)) - np.arange(n)  # there are no ties
    return float(1 - 6 * (differences**2).sum() / (n * (n**2 - 1)))


def plot_heat_maps(tables: dict[str, pd.DataFrame]) -> dict[str, bytes]:
    """Plot the tables `jaccard` and `spearman` of `compute_similarity_tables` as PNG by name."""
    jaccard_map = _plot_heat_map(tables["jaccard"], "Jaccard index of the top 100", 0.0)
    title = "Spearman correlation of the documents in both top 100"
    return {"jaccard": jaccard_map, "spearman": _plot_heat_map(tables["spearman"], title, -1.0)}


def _plot_heat_map(table: pd.DataFrame, title: str, vmin: float) -> bytes:
    """Plot a table as an annotated heat map with colours from `vmin` to 1; NaN cells are grey."""
    names = list(table.index)
    side = 3.2 + 0.72 * len(names)
    fig = create_figure(side, side * 0.86)
    ax = fig.subplots()
    ax.set_facecolor("#bbbbbb")
    colours = "viridis" if vmin == 0 else "RdBu"
    image = ax.imshow(table.to_numpy(), vmin=vmin, vmax=1.0, cmap=colours)
    centred: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 10}
    for (row, column), value in np.ndenumerate(table.to_numpy()):
        is_dark = (value < 0.55) if vmin == 0 else (abs(value) > 0.6)
        text = format_value(value, 2).replace("-0.00", "0.00")
        ax.text(column, row, text, color="white" if is_dark else "black", **centred)
    ax.set_xticks(range(len(names)), names, rotation=40, ha="right", rotation_mode="anchor")
    ax.set_yticks(range(len(names)), names)
    ax.set_title(title)
    fig.colorbar(image, ax=ax, shrink=0.8)
    return render_png(fig)


def list_runs(directory: Path) -> list[Path]:
    """Return the runs <team>-<system>.txt, plain or gzipped, of a directory, sorted; raise
    InputError if it is missing or unreadable."""
    try:
        return select_files(directory.iterdir(), "*-*.txt")
    except OSError as error:
        raise build_unreadable_input_error(error) from None


def find_system_runs(directory: Path) -> dict[str, Path]:
    """Return the runs of a directory by system; raise InputError for two of a system."""
    return _index_by_name({file: split_name(file)[1] for file in list_runs(directory)})


def name_runs(files: Sequence[Path]) -> dict[Path, str]:
    """Name runs of `list_runs` by system, or by <team>-<system> if they are of several teams."""
    parts = {file: split_name(file) for file in files}
    is_one_team = len({team for team, _ in parts.values()}) == 1
    return {
        file: system if is_one_team else f"{team}-{system}"
        for file, (team, system) in parts.items()
    }


def split_name(file: Path) -> tuple[str, str]:
    """Return team and system of a run <team>-<system>.txt; a system's name has no hyphen."""
    team, _, system = file.name.removesuffix(".gz").removesuffix(".txt").rpartition("-")
    return escape_name(team), escape_name(system)


def _index_by_name(names: Mapping[Path, str]) -> dict[str, Path]:
    files: dict[str, Path] = {}
    for file, name in names.items():
        if name in files:
            reason = f"two runs of the system {name} ({files[name].name}, {file.name})"
            raise InputError(file.parent, "", reason, "keep one of them")
        files[name] = file
    return files


def select_top_docnos(run: pd.DataFrame) -> dict[str, list[str]]:
    """Return a run's top DEPTH docnos, in the order of the run, by qid."""
    return {
        str(qid): group["docno"].tolist()[:DEPTH] for qid, group in run.groupby("qid", sort=False)
    }
