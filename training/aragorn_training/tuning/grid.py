"""Tune a lexical system on judged topics by grid search, with cross-validation."""

import itertools
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from aragorn import __version__
from aragorn.errors import InputError, UsageError
from aragorn.index.weighting import search
from aragorn.rankings import DEFAULT_DEPTH, build_rankings
from aragorn.storage.archives import hash_named_files
from aragorn.systems.enrichment import Enrichment
from aragorn.systems.lexical import LexicalParameters, get_term_index
from aragorn.versions import describe_versions
from aragorn_training import configs
from aragorn_training.cards import write_fitted
from aragorn_training.data.corpora import describe_judged_data, format_judged_credit
from aragorn_training.data.retrieval import DatasetRetrieval
from aragorn_training.evaluation.evaluate import (
    AP,
    BPREF,
    JUDGED,
    evaluate_run,
    get_evaluated_topics,
)
from aragorn_training.evaluation.folds import assign_folds, format_few_topics_warning
from aragorn_training.evaluation.plots import plot_grid
from aragorn_training.formatting import CROSS_VALIDATED, IN_SAMPLE, nan_mean, round_means
from aragorn_training.mapping import map_cached
from aragorn_training.options import SELECTION_MEASURES

VERSION = 1  # of the measures of the same rankings
COMPUTES_WITH = (
    "aragorn.index.weighting",
    "aragorn.systems.lexical",
    "aragorn_training.evaluation.evaluate",
)

log = logging.getLogger(__name__)

# cached per point and topic
STORED_MEASURES = (*SELECTION_MEASURES, "nDCG@25", "nDCG(judged_only=True)@25", BPREF, JUDGED)
MAX_POINTS = 100_000
TIE_BREAKER = AP  # breaks ties; remaining ties go to the earlier point


@dataclass(frozen=True)
class Grid:
    """A parameter grid, whose points are ordered with the last axis varying fastest."""

    axes: dict[str, list[Any]]  # values by name, e.g. model.mu
    points: list[LexicalParameters]


@dataclass(frozen=True)
class JudgedTopics:
    """The topics that have a relevant document, with judgments and folds."""

    qrels: pd.DataFrame  # `qid docno rel`, restricted to input documents
    hashes: dict[str, str]  # SHA-256 by file name
    topics: list[str]  # sorted
    folds: np.ndarray  # (topics,) fold indices


def load_grid(name: str) -> Grid:
    """Load a grid by name or path; raise UsageError if it is missing or invalid."""
    path, tables = configs.read("grid", name)
    axes = {
        f"{table}.{key}": value
        for table, settings in tables.items()
        if isinstance(settings, dict)
        for key, value in settings.items()
        if isinstance(value, list)
    }
    n_points = math.prod(map(len, axes.values()))
    if not 1 <= n_points <= MAX_POINTS:
        expected = f"expected 1 to {MAX_POINTS:,}"
        raise UsageError(f"{path}: {n_points:,} combinations of values; {expected}")
    choices = (dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values()))
    points = [
        configs.convert(path, _choose_point(tables, choice), LexicalParameters)
        for choice in choices
    ]
    if not axes or len({*points}) < len(points):
        problem = "repeated values" if axes else "no list of values"
        raise UsageError(f"{path}: {problem}; list each value of a parameter once")
    return Grid(axes, points)


def _choose_point(tables: Mapping[str, Any], choice: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a grid point, whose values on the axes are those of `choice`."""
    point: dict[str, Any] = {"expansion": None, **tables, "version": __version__}
    for axis, value in choice.items():
        table, key = axis.split(".", 1)
        point[table] = {**point[table], key: value}
    return point


def tune_grid(
    name: str,
    grid: Grid,
    qrels_files: Mapping[str, Path],
    retrieval: DatasetRetrieval,
    output: Path,
    selection_measure: str,
) -> pd.DataFrame:
    """Evaluate all grid points; save the one with the best mean of `selection_measure` as a
    checkpoint, with the full grid as grid.csv and grid.png, and return means over all topics, a row
    per point.

    Finished points are cached in the retrieval's working directory.
    """
    judged = load_judged_topics(qrels_files, retrieval)
    values = evaluate_grid(name, grid, judged, retrieval)[:, :, : len(SELECTION_MEASURES)]
    columns = get_selection_columns(selection_measure)
    best_point = find_best_point(values[:, :, columns])
    selected_points, held_out_values = cross_validate(values, judged.folds, columns)
    metrics: dict[str, Any] = {
        "topics": len(judged.topics),
        "points": len(grid.points),
        "selection measure": selection_measure,
    }
    summary = "not cross-validated"
    if selected_points:
        means = round_means(SELECTION_MEASURES, nan_mean(held_out_values, 0))
        metrics[CROSS_VALIDATED] = means
        summary = f"{means[selection_measure]:.3f} cross-validated"
    metrics["folds"] = [_get_axis_values(grid, point) for point in selected_points]
    metrics[IN_SAMPLE] = round_means(SELECTION_MEASURES, nan_mean(values[best_point], 0))
    table = pd.DataFrame([_get_axis_values(grid, point) for point in range(len(grid.points))])
    table[list(SELECTION_MEASURES)] = nan_mean(values, 1)
    point = grid.points[best_point]
    provenance = _build_provenance(grid, point, judged, retrieval)
    write_fitted(
        output,
        point,
        metrics,
        provenance,
        "grid",
        encode_grid(table, list(grid.axes), selection_measure),
        name=name,
        formula=point.describe(),
        measures=SELECTION_MEASURES,
        data=format_judged_credit(provenance["training_data"]),
        evaluations=(CROSS_VALIDATED, IN_SAMPLE),
    )
    log.info("%s: %s", output, point.describe())
    log.info(
        "%s: %s, %.3f in-sample", selection_measure, summary, table[selection_measure][best_point]
    )
    return table


def _build_provenance(
    grid: Grid, point: LexicalParameters, judged: JudgedTopics, retrieval: DatasetRetrieval
) -> dict[str, Any]:
    """Return the inputs and the grid that decide a point, and its tagger's fingerprint."""
    provenance: dict[str, Any] = {
        "training_data": describe_judged_data(retrieval.dataset, judged.hashes),
        "grid": grid.axes,
    }
    if enrichment := _get_enrichment(point):
        checkpoint = enrichment.load_checkpoint(retrieval.session.checkpoints)
        provenance["enrichment"] = {enrichment.checkpoint: checkpoint.fingerprint}
    return provenance


def encode_grid(table: pd.DataFrame, axes: Sequence[str], measure: str) -> dict[str, bytes]:
    """Return the full grid as grid.csv, and a plot of a measure as grid.png."""
    csv = table.to_csv(index=False, float_format="%.6f", lineterminator="\n").encode()
    return {"grid.csv": csv, "grid.png": plot_grid(table, axes, measure)}


def _get_axis_values(grid: Grid, point: int) -> dict[str, Any]:
    """Return the value on each axis of the point with index `point`."""
    indices = np.unravel_index(point, [*map(len, grid.axes.values())])
    axes = zip(grid.axes.items(), indices, strict=True)
    return {name: values[index] for (name, values), index in axes}


def load_judged_topics(files: Mapping[str, Path], retrieval: DatasetRetrieval) -> JudgedTopics:
    """Load the judgments of a retrieval's documents, with five folds of topics, or one per file of
    several; raise InputError for double judgments or no relevant topic."""
    frames = retrieval.read_qrels(files)
    qrels = pd.concat(frames.values(), ignore_index=True)
    if (is_duplicate := qrels.duplicated(["qid", "docno"])).any():
        pair = qrels.loc[is_duplicate, ["qid", "docno"]].head(1)
        names = [str(files[name]) for name, frame in frames.items() if len(frame.merge(pair))]
        judgment = f"judgment of {pair['docno'].item()} for topic {pair['qid'].item()}"
        raise InputError(f"{' and '.join(names)}: duplicate {judgment}; remove one")
    topics = get_evaluated_topics(qrels).tolist()
    folds = _assign_folds(topics, [set(frame["qid"]) for frame in frames.values()])
    return JudgedTopics(qrels, hash_named_files(files), topics, folds)


def evaluate_grid(
    name: str, grid: Grid, judged: JudgedTopics, retrieval: DatasetRetrieval
) -> np.ndarray:
    """Evaluate all points; return values (points, topics, STORED_MEASURES), which are cached."""
    enrichment = _get_enrichment(grid.points[0])
    key = (
        sorted(judged.hashes.items()),
        retrieval.describe_request(),
        describe_versions(__name__),
        DEFAULT_DEPTH,
        enrichment.describe_results(retrieval.session) if enrichment else "",
    )
    values = map_cached(
        partial(_evaluate_point, judged, retrieval),
        grid.points,
        retrieval.session.cache.path,
        name=f"tune-{name}",
        key=key,
        result_type=np.ndarray,
        identify=lambda point: point.fingerprint,
    )
    return np.stack(list(values.values()))


def _evaluate_point(
    judged: JudgedTopics, retrieval: DatasetRetrieval, point: LexicalParameters
) -> np.ndarray:
    """Rank with a point's parameters; return values (topics, STORED_MEASURES)."""
    ranking = rank_with(point, retrieval)
    return evaluate_run(ranking, judged.qrels, STORED_MEASURES).to_numpy()


def get_selection_columns(selection_measure: str) -> list[int]:
    """Return the indices in STORED_MEASURES of the selection measure and of the tie breaker."""
    return [STORED_MEASURES.index(selection_measure), STORED_MEASURES.index(TIE_BREAKER)]


def cross_validate(
    values: np.ndarray, folds: np.ndarray, selection_columns: Sequence[int]
) -> tuple[list[int], np.ndarray]:
    """Select the best point of values (points, topics, columns) for each fold on the other folds,
    by the columns of the selection measure and of the tie breaker.

    Returns:
        The selected point per fold, and each topic's values (topics, columns) at the point of its
        fold; an empty list and NaN if there is only one fold.
    """
    if len(set(folds.tolist())) < 2:
        return [], np.full(values.shape[1:], np.nan)
    selected_points = [
        find_best_point(values[:, folds != fold][:, :, selection_columns])
        for fold in range(folds.max() + 1)
    ]
    return selected_points, values[np.array(selected_points)[folds], np.arange(len(folds))]


def rank_with(point: LexicalParameters, retrieval: DatasetRetrieval) -> pd.DataFrame:
    """Rank at most DEFAULT_DEPTH documents for each topic with a point's parameters."""
    index = get_term_index(retrieval.collection, point.index, _get_enrichment(point))
    docnos = retrieval.collection.documents.searchable_docnos
    rows: list[tuple[str, str, float]] = []
    for qid, text in retrieval.topics[["qid", "query"]].to_numpy():
        query = index.parse_query(text, point.model, point.expansion)
        hits = search(index, query, point.model, DEFAULT_DEPTH)
        positions = hits.documents.tolist()
        rows += zip(repeat(qid), (docnos[row] for row in positions), hits.scores.tolist())
    return build_rankings(rows)


def _get_enrichment(point: LexicalParameters) -> Enrichment | None:
    return None if point.enrichment is None else Enrichment(point.enrichment)


def _assign_folds(topics: Sequence[str], topics_by_file: Sequence[set[str]]) -> np.ndarray:
    if len(topics_by_file) > 1:
        folds = {qid: fold for fold, qids in reversed([*enumerate(topics_by_file)]) for qid in qids}
        return np.array([folds[topic] for topic in topics])
    if warning := format_few_topics_warning(len(topics)):
        log.warning("%s", warning)
    return assign_folds(len(topics))


def find_best_point(values: np.ndarray) -> int:
    """Return the point with the highest mean over topics of values (points, topics, 2), the
    selection measure and the tie breaker, which decides ties, and then the order."""
    means = nan_mean(values, 1).round(9)
    return int(np.lexsort((np.arange(len(means)), -means[:, 1], -means[:, 0]))[0])
