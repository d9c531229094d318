"""A grid of parameters over judged topics → a lexical system's checkpoint: the best point, and its worth on other topics."""

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

from submission import __version__, lists
from submission.disk.code import code_fingerprint
from submission.disk.fingerprint import hashes_by_name
from submission.disk.provenance import CARD, CONFIG, METRICS, dump_json, write_with_provenance
from submission.errors import InputError, UsageError, nearest, short
from submission.input.qrels import read_qrels
from submission.lists import DEPTH
from submission.retrieval.lexical import asked, search
from submission.retrieval.parameters import Parameters
from submission.systems.enrichment import Enrichment
from submission.systems.execution import Execution
from submission.systems.lexical import index_of
from training.cards import JUDGED, card
from training.experiment import Experiment, run
from training.figures import CHOSEN_ON, CROSS_VALIDATED, defined_mean, rounded
from training.measuring.evaluate import BPREF, HEADLINES, evaluate, judged_topics
from training.measuring.folds import few, folds
from training.measuring.overlap import require_overlap
from training.measuring.plots import grid_plot
from training.paths import GRIDS

log = logging.getLogger(__name__)

MEASURES = (*HEADLINES, "MAP all")  # one of them decides
COLUMNS = (*MEASURES, "nDCG@25 all", "nDCG@25 condensed", BPREF)  # kept of every point and topic
TIES = "MAP all"  # decides between points whose measure is the same; then the earlier point


@dataclass(frozen=True)
class Grid:
    """The points of a grid, the last axis running fastest."""

    axes: dict[str, list[Any]]  # by names like model.mu
    points: list[Parameters]


def read_grid(name: str) -> Grid:
    """A grid by its name in training/grids, or a .toml file.

    Raises:
        UsageError: there is none, or it says something that no model knows.
    """
    file = Path(name) if name.endswith(".toml") else GRIDS / f"{name}.toml"
    try:
        said = tomllib.loads(file.read_text(encoding="utf-8"))
        enrichment = said.pop("enrichment", None)
        axes = {f"{t}.{key}": v for t, table in said.items() for key, v in table.items() if isinstance(v, list)}
        points = [
            _point(said, enrichment, dict(zip(axes, values, strict=True))) for values in itertools.product(*axes.values())
        ]
    except FileNotFoundError:
        raise UsageError(f"no grid '{short(name)}'; {nearest(name, (path.stem for path in GRIDS.glob('*.toml')))}") from None
    except (OSError, AttributeError, ValueError) as error:
        raise UsageError(f"{file}: no grid ({error}); see training/grids for examples") from None
    return Grid(axes, points)


def _point(tables: Mapping[str, Mapping[str, Any]], enrichment: Any, values: Mapping[str, Any]) -> Parameters:
    at = {t: {key: values.get(f"{t}.{key}", value) for key, value in table.items()} for t, table in tables.items()}
    return msgspec.convert({"expansion": None, **at, "enrichment": enrichment, "version": __version__}, Parameters)


def tune(
    name: str, grid: Grid, qrels_files: Mapping[str, Path], execution: Execution, output: Path, measure: str
) -> pd.DataFrame:
    """Search all points, write the best as a checkpoint, which has the whole grid too, as grid.csv and grid.png.

    What is finished is kept in the execution's working directory.

    Args:
        name: of the checkpoint.
        grid: what is tried.
        qrels_files: by their names; of one, the topics are five folds; of several, those of each are one.
        execution: on the input that they judge.
        output: the checkpoint's directory.
        measure: one of MEASURES, by whose mean points are compared.

    Returns:
        The grid: a row a point with the means over all topics.

    Raises:
        InputError: malformed files, topics that are judged twice. OutputError: something cannot be written.
    """
    judged = judgments(qrels_files, execution)
    values = values_of(name, grid, judged, execution)[:, :, : len(MEASURES)]
    decisive = deciding(measure)
    best = best_of(values[:, :, decisive])
    chosen, held_out = cross_validated(values, judged.fold_of, decisive)
    metrics: dict[str, Any] = {
        "topics": len(judged.topics),
        "points": len(grid.points),
        "decided by": measure,
        **({CROSS_VALIDATED: rounded(MEASURES, defined_mean(held_out, 0))} if chosen else {}),
        "folds": [_axes(grid, point) for point in chosen],
        CHOSEN_ON: rounded(MEASURES, defined_mean(values[best], 0)),
    }
    table = pd.DataFrame([_axes(grid, point) for point in range(len(grid.points))])
    table[list(MEASURES)] = defined_mean(values, 1)
    provenance: dict[str, Any] = {"trained on": {"input": execution.input.hashes | judged.hashes}, "grid": grid.axes}
    enrichment = enrichment_of(grid.points[best])
    if enrichment:
        provenance["enrichment"] = {enrichment.checkpoint: enrichment.opened(execution.checkpoints).fingerprint}
    text = card(
        "grid", name=name, formula=grid.points[best].formula(), metrics=metrics, measures=MEASURES,
        ways=(CROSS_VALIDATED, CHOSEN_ON), data=JUDGED, provenance=provenance,
    )  # fmt: skip
    contents = {
        CONFIG: dump_json(msgspec.to_builtins(grid.points[best])),
        METRICS: dump_json(metrics),
        CARD: text.encode(),
        "grid.csv": table.to_csv(index=False, float_format="%.6f", lineterminator="\n").encode(),
    }
    if grid.axes:
        contents["grid.png"] = grid_plot(table, list(grid.axes), measure)
    write_with_provenance(output, contents, provenance)
    log.info("%s: %s", output, grid.points[best].formula())
    on_others = f"{metrics[CROSS_VALIDATED][measure]:.3f} cross-validated" if chosen else "not cross-validated"
    log.info("%s: %s, %.3f on all topics", measure, on_others, table[measure][best])
    return table


def _axes(grid: Grid, point: int) -> dict[str, Any]:
    """A point's place on each axis."""
    places = np.unravel_index(point, [len(values) for values in grid.axes.values()])
    return {name: values[place] for (name, values), place in zip(grid.axes.items(), places, strict=True)}


@dataclass(frozen=True)
class Judgments:
    """Judged topics, each in a fold."""

    qrels: pd.DataFrame  # `qid docno rel`, of documents of the input
    hashes: dict[str, str]  # of their files
    topics: list[str]  # those with a relevant document, ascending
    fold_of: np.ndarray  # (topics,)


def judgments(files: Mapping[str, Path], execution: Execution) -> Judgments:
    """Read what some files judge of an execution's input; of one, the topics are five folds; of several, those of each are one.

    Raises:
        InputError: malformed files, topics that are judged twice, none that the input has.
    """
    documents = execution.documents.all_docnos()
    judged = {name: read_qrels(file, documents) for name, file in files.items()}
    qrels = pd.concat(judged.values(), ignore_index=True)
    if qrels.duplicated(["qid", "docno"]).any():
        raise InputError(f"{[*files.values()][-1]}: judges documents that another file judges too; give each judgment once")
    topics = judged_topics(qrels).tolist()
    for name, frame in judged.items():
        require_overlap(execution.input, frame, name)
    fold_of = _folds(topics, {name: set(frame["qid"]) for name, frame in judged.items()})
    return Judgments(qrels, hashes_by_name(files), topics, fold_of)


@dataclass(frozen=True)
class Points(Experiment[Parameters, np.ndarray]):
    """The points of a grid as an experiment: a point's result is its measures (topics, COLUMNS)."""

    unit, result = "points", np.ndarray
    grid: str
    judged: Judgments
    execution: Execution

    @property
    def name(self) -> str:
        """The name of the grid's results."""
        return f"tune-{self.grid}"

    def key(self, point: Parameters) -> object:
        """Return all that decides a point's measures."""
        enrichment = enrichment_of(point)
        decided_by = enrichment.decided_by(self.execution) if enrichment else []
        fingerprint = self.execution.input.fingerprint
        return sorted(self.judged.hashes.items()), fingerprint, code_fingerprint(__name__), DEPTH, decided_by, point.fingerprint

    def compute(self, point: Parameters) -> np.ndarray:
        """Search at a point and measure its run by topic."""
        return evaluate(run_of(point, self.execution), self.judged.qrels)[list(COLUMNS)].to_numpy()


def values_of(name: str, grid: Grid, judged: Judgments, execution: Execution) -> np.ndarray:
    """Measure all points: (points, topics, COLUMNS). What is finished is kept by the name. Raises OutputError."""
    points = run(Points(name, judged, execution), grid.points, execution.work.directory)
    return np.stack(list(points.values()))


def deciding(measure: str) -> list[int]:
    """The columns by which points are compared: a measure, and what decides ties."""
    return [COLUMNS.index(measure), COLUMNS.index(TIES)]


def cross_validated(values: np.ndarray, fold_of: np.ndarray, decisive: Sequence[int]) -> tuple[list[int], np.ndarray]:
    """Find for each fold the best point on the others, and the values (topics, columns) of each topic at its fold's.

    Args:
        values: (points, topics, columns).
        fold_of: (topics,).
        decisive: the columns that decide.

    Returns:
        Both; of a single fold no points, and NaN: there are no others to choose on.
    """
    if len(set(fold_of.tolist())) < 2:
        return [], np.full(values.shape[1:], np.nan)
    chosen = [best_of(values[:, fold_of != fold][:, :, decisive]) for fold in range(fold_of.max() + 1)]
    return chosen, values[np.array(chosen)[fold_of], np.arange(len(fold_of))]


def run_of(point: Parameters, execution: Execution) -> pd.DataFrame:
    """The lists of all topics at a point."""
    opened, collection = index_of(execution, point.index, enrichment_of(point)), execution.documents.collection
    rows: list[lists.Row] = []
    for qid, text in zip(execution.topics["qid"], execution.topics["query"], strict=True):
        found = search(opened, asked(opened, text, point.model, point.expansion), point.model, DEPTH)
        rows += lists.rows_of(qid, (collection[number] for number in found.documents.tolist()), found.scores)
    return lists.of_rows(rows)


def enrichment_of(point: Parameters) -> Enrichment | None:
    """Return the enrichment that the index is made by, if any."""
    return None if point.enrichment is None else Enrichment(point.enrichment)


def _folds(topics: Sequence[str], files: Mapping[str, set[str]]) -> np.ndarray:
    """The number of each topic's fold."""
    if len(files) > 1:
        return np.array([next(number for number, own in enumerate(files.values()) if topic in own) for topic in topics])
    if words := few(len(topics)):
        log.warning("%s", words)
    return folds(len(topics))


def best_of(values: np.ndarray) -> int:
    """The first point with the highest mean of the first measure, among such of the second: (points, topics, 2)."""
    means = defined_mean(values, 1).round(9)
    return int(np.lexsort((np.arange(len(means)), -means[:, 1], -means[:, 0]))[0])
