"""Tune a lexical system on a parameter grid over judged topics, with cross-validation."""

from __future__ import annotations

import itertools
import logging
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from submission import __version__
from submission.data.qrels import read_qrels
from submission.errors import InputError, UsageError, nearest, short
from submission.rankings import DEPTH, of_rows, rows_of
from submission.rankings import Row as RankingRow
from submission.retrieval.lexical import asked, search
from submission.retrieval.parameters import Parameters
from submission.storage.checkpoint_directory import CARD, CONFIG, METRICS, dump_json, write_with_provenance
from submission.storage.code_fingerprint import code_fingerprint
from submission.storage.hashing import hashes_by_name
from submission.systems.enrichment import Enrichment
from submission.systems.execution import Execution
from submission.systems.lexical import index_of
from training.cards import JUDGED, card
from training.evaluation.evaluate import BPREF, HEADLINES, evaluate, judged_topics
from training.evaluation.folds import few, folds
from training.evaluation.overlap import require_overlap
from training.evaluation.plots import grid_plot
from training.experiment import Experiment, run
from training.formatting import CHOSEN_ON, CROSS_VALIDATED, defined_mean, rounded
from training.paths import GRIDS

log = logging.getLogger(__name__)

MEASURES = (*HEADLINES, "MAP all")  # one of them selects the grid point
COLUMNS = (*MEASURES, "nDCG@25 all", "nDCG@25 condensed", BPREF)  # stored per grid point and topic
TIES = "MAP all"  # breaks ties; remaining ties go to the earlier point


@dataclass(frozen=True)
class Grid:
    """A parameter grid; the last axis varies fastest."""

    axes: dict[str, list[Any]]  # by name, e.g. model.mu
    points: list[Parameters]


def read_grid(name: str) -> Grid:
    """Load a grid by its name in training/configs/grids or from a .toml file.

    Raises:
        UsageError: If the grid is missing or has unknown settings.
    """
    file = Path(name) if name.endswith(".toml") else GRIDS / f"{name}.toml"
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
        enrichment = document.pop("enrichment", None)
        axes = {f"{section}.{key}": v for section, table in document.items() for key, v in table.items() if isinstance(v, list)}
        points = [
            _point(document, enrichment, dict(zip(axes, values, strict=True))) for values in itertools.product(*axes.values())
        ]
    except FileNotFoundError:
        raise UsageError(
            f"unknown grid '{short(name)}'; {nearest(name, (path.stem for path in GRIDS.glob('*.toml')))}"
        ) from None
    except (OSError, AttributeError, ValueError) as error:
        raise UsageError(f"{file}: not a valid grid ({error}); see training/configs/grids for examples") from None
    return Grid(axes, points)


def _point(tables: Mapping[str, Mapping[str, Any]], enrichment: Any, values: Mapping[str, Any]) -> Parameters:
    settings = {
        section: {key: values.get(f"{section}.{key}", value) for key, value in table.items()}
        for section, table in tables.items()
    }
    return msgspec.convert({"expansion": None, **settings, "enrichment": enrichment, "version": __version__}, Parameters)


def tune(
    name: str, grid: Grid, qrels_files: Mapping[str, Path], execution: Execution, output: Path, measure: str
) -> pd.DataFrame:
    """Evaluate all grid points and save the best one as a checkpoint, with the full grid as grid.csv and grid.png.

    Finished points are cached in the execution's working directory.

    Args:
        name: Name of the checkpoint.
        grid: Grid to search.
        qrels_files: Qrels files by name. One file: five folds over its topics; several: one fold per file.
        execution: Execution on the judged input.
        output: Checkpoint directory.
        measure: One of MEASURES, whose mean selects the grid point.

    Returns:
        The grid: one row per point with means over all topics.

    Raises:
        InputError: If a file is malformed or two files judge the same document.
        OutputError: If a file cannot be written.
    """
    judged = judgments(qrels_files, execution)
    values = values_of(name, grid, judged, execution)[:, :, : len(MEASURES)]
    selection_columns = deciding(measure)
    best = best_of(values[:, :, selection_columns])
    selected, held_out = cross_validated(values, judged.fold_of, selection_columns)
    metrics: dict[str, Any] = {
        "topics": len(judged.topics),
        "points": len(grid.points),
        "decided by": measure,
        **({CROSS_VALIDATED: rounded(MEASURES, defined_mean(held_out, 0))} if selected else {}),
        "folds": [_axes(grid, point) for point in selected],
        CHOSEN_ON: rounded(MEASURES, defined_mean(values[best], 0)),
    }
    table = pd.DataFrame([_axes(grid, point) for point in range(len(grid.points))])
    table[list(MEASURES)] = defined_mean(values, 1)
    provenance: dict[str, Any] = {"trained on": {"input": execution.input.hashes | judged.hashes}, "grid": grid.axes}
    enrichment = enrichment_of(grid.points[best])
    if enrichment:
        provenance["enrichment"] = {enrichment.checkpoint: enrichment.opened(execution.checkpoints).fingerprint}
    write_with_provenance(output, _contents(name, grid, grid.points[best], table, metrics, provenance), provenance)
    log.info("%s: %s", output, grid.points[best].formula())
    cross_validated_mean = f"{metrics[CROSS_VALIDATED][measure]:.3f} cross-validated" if selected else "not cross-validated"
    log.info("%s: %s, %.3f in-sample", measure, cross_validated_mean, table[measure][best])
    return table


def _contents(
    name: str, grid: Grid, point: Parameters, table: pd.DataFrame, metrics: Mapping[str, Any], provenance: Mapping[str, Any]
) -> dict[str, bytes]:
    """Return the files of the checkpoint."""
    readme = card(
        "grid", name=name, formula=point.formula(), metrics=metrics, measures=MEASURES, data=JUDGED,
        evaluations=(CROSS_VALIDATED, CHOSEN_ON), provenance=provenance,
    )  # fmt: skip
    contents = {
        CONFIG: dump_json(msgspec.to_builtins(point)),
        METRICS: dump_json(metrics),
        CARD: readme.encode(),
        "grid.csv": table.to_csv(index=False, float_format="%.6f", lineterminator="\n").encode(),
    }
    if grid.axes:
        contents["grid.png"] = grid_plot(table, list(grid.axes), metrics["decided by"])
    return contents


def _axes(grid: Grid, point: int) -> dict[str, Any]:
    """Return a point's value on each axis."""
    indices = np.unravel_index(point, [len(values) for values in grid.axes.values()])
    return {name: values[index] for (name, values), index in zip(grid.axes.items(), indices, strict=True)}


@dataclass(frozen=True)
class Judgments:
    """Judged topics, each in a fold."""

    qrels: pd.DataFrame  # `qid docno rel`, restricted to input documents
    hashes: dict[str, str]  # SHA-256 by file name
    topics: list[str]  # topics with a relevant document, sorted
    fold_of: np.ndarray  # (topics,)


def judgments(files: Mapping[str, Path], execution: Execution) -> Judgments:
    """Load the judgments of an execution's documents and assign topics to folds: five for one file, else one per file.

    Raises:
        InputError: If a file is malformed, files overlap, or no judged topic is in the input.
    """
    documents = execution.documents.all_docnos()
    judged = {name: read_qrels(file, documents) for name, file in files.items()}
    qrels = pd.concat(judged.values(), ignore_index=True)
    if qrels.duplicated(["qid", "docno"]).any():
        raise InputError(
            f"{[*files.values()][-1]}: judges documents that another qrels file also judges; remove the duplicates"
        )
    topics = judged_topics(qrels).tolist()
    for name, frame in judged.items():
        require_overlap(execution.input, frame, name)
    fold_of = _folds(topics, {name: set(frame["qid"]) for name, frame in judged.items()})
    return Judgments(qrels, hashes_by_name(files), topics, fold_of)


@dataclass(frozen=True)
class Points(Experiment[Parameters, np.ndarray]):
    """Experiment over grid points; a result has shape (topics, COLUMNS)."""

    unit, result = "points", np.ndarray
    grid: str
    judged: Judgments
    execution: Execution

    @property
    def name(self) -> str:
        """Name of the cache directory."""
        return f"tune-{self.grid}"

    def key(self, point: Parameters) -> object:
        """Return the cache key of a grid point."""
        enrichment = enrichment_of(point)
        enrichment_key = enrichment.decided_by(self.execution) if enrichment else []
        input_key = self.execution.input.fingerprint
        return (
            sorted(self.judged.hashes.items()),
            input_key,
            code_fingerprint(__name__),
            DEPTH,
            enrichment_key,
            point.fingerprint,
        )

    def compute(self, point: Parameters) -> np.ndarray:
        """Retrieve with a point's parameters and evaluate the run per topic."""
        return evaluate(run_of(point, self.execution), self.judged.qrels)[list(COLUMNS)].to_numpy()


def values_of(name: str, grid: Grid, judged: Judgments, execution: Execution) -> np.ndarray:
    """Evaluate all points: (points, topics, COLUMNS). Results are cached under `name`."""
    points = run(Points(name, judged, execution), grid.points, execution.work.directory)
    return np.stack(list(points.values()))


def deciding(measure: str) -> list[int]:
    """Return the column indices of the selection measure and of the tie breaker."""
    return [COLUMNS.index(measure), COLUMNS.index(TIES)]


def cross_validated(values: np.ndarray, fold_of: np.ndarray, decisive: Sequence[int]) -> tuple[list[int], np.ndarray]:
    """Select the best point per fold on the other folds and return each topic's values at its fold's point.

    Args:
        values: Array of shape (points, topics, columns).
        fold_of: Fold index per topic.
        decisive: Indices of the selection columns.

    Returns:
        Selected points and values (topics, columns); with a single fold, no points and NaN.
    """
    if len(set(fold_of.tolist())) < 2:
        return [], np.full(values.shape[1:], np.nan)
    selected = [best_of(values[:, fold_of != fold][:, :, decisive]) for fold in range(fold_of.max() + 1)]
    return selected, values[np.array(selected)[fold_of], np.arange(len(fold_of))]


def run_of(point: Parameters, execution: Execution) -> pd.DataFrame:
    """Rank all topics with a point's parameters."""
    index, docnos = index_of(execution, point.index, enrichment_of(point)), execution.documents.collection
    rows: list[RankingRow] = []
    for qid, text in zip(execution.topics["qid"], execution.topics["query"], strict=True):
        hits = search(index, asked(index, text, point.model, point.expansion), point.model, DEPTH)
        rows += rows_of(qid, (docnos[position] for position in hits.documents.tolist()), hits.scores)
    return of_rows(rows)


def enrichment_of(point: Parameters) -> Enrichment | None:
    """Return the enrichment of a point's index, if any."""
    return None if point.enrichment is None else Enrichment(point.enrichment)


def _folds(topics: Sequence[str], files: Mapping[str, set[str]]) -> np.ndarray:
    """Return the fold index of each topic."""
    if len(files) > 1:
        return np.array([next(fold for fold, judged in enumerate(files.values()) if topic in judged) for topic in topics])
    if warning := few(len(topics)):
        log.warning("%s", warning)
    return folds(len(topics))


def best_of(values: np.ndarray) -> int:
    """Return the point with the highest mean measure in (points, topics, 2); ties by the second measure, then by order."""
    means = defined_mean(values, 1).round(9)
    return int(np.lexsort((np.arange(len(means)), -means[:, 1], -means[:, 0]))[0])
