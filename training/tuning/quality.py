"""Tune a system's quality re-ranking: depth and weight.

Relevance judgments measure the loss in relevance; Webis-ArgQuality-20 measures loss in relevance and gain in quality. Questions
that occur in both are in the same fold.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from submission.data.qrels import read_qrels
from submission.errors import UsageError
from submission.inference.ranker_checkpoint import Checkpoint
from submission.progress import progress
from submission.rankings import DEPTH, cut
from submission.storage.atomic_files import sha256
from submission.storage.checkpoint_directory import CARD, CONFIG, METRICS, dump_json, write_with_provenance
from submission.systems.catalogue import System
from submission.systems.execution import Execution
from submission.systems.quality_reranking import QualityReranking
from submission.text.normalisation import normalise
from training.cards import card
from training.data.quality import judgments, published
from training.evaluation.evaluate import HEADLINES, evaluate
from training.evaluation.overlap import require_overlap
from training.evaluation.plots import grid_plot
from training.evaluation.significance import intervals
from training.formatting import CHOSEN_ON, CROSS_VALIDATED, defined_mean, rounded
from training.studies.argument_quality.folds import folds
from training.tuning import quality_grid
from training.tuning.quality_grid import ALONE, FOLDS, GIVEN, HELD, POINTS, RAISED

log = logging.getLogger(__name__)

MEASURES = (*HEADLINES, "MAP all")  # of the judged topics
DECIDES = MEASURES.index("nDCG@5 all")
WEBIS = tuple(f"Webis {name}" for name in quality_grid.MEASURES)
AXES = ["documents", "weight"]
GIVEN_ORDER = "given order"


def tune_quality(system: System, qrels_file: Path, execution: Execution, output: Path) -> pd.DataFrame:
    """Evaluate all grid points and save the best as the system's checkpoint, with the full grid as grid.csv and grid.png.

    Args:
        system: Quality re-ranking system.
        qrels_file: Relevance judgments.
        execution: Execution on the judged input; its working directory was prepared by `prepare lists`.
        output: Checkpoint directory.

    Returns:
        The grid: one row per grid point with the means over all topics.

    Raises:
        UsageError: If the system does not re-rank by quality.
        InputError: If files are malformed or tables are missing.
        CheckpointError: If a required checkpoint is missing.
        OutputError: If a file cannot be written.
    """
    stage = system.stage
    if not isinstance(stage, QualityReranking):
        raise UsageError(f"{system.name} does not re-rank by quality; choose a system that does")
    work = execution.work.directory
    judged = judgments(work)
    network = stage.quality.opened(execution.checkpoints)
    assert isinstance(network, Checkpoint)
    quality = network.scores(list(zip(judged["topic"], judged["premise"], strict=True)), execution.device)
    webis_values = quality_grid.values(judged, quality)[:, :ALONE]
    qrels = read_qrels(qrels_file, execution.documents.all_docnos())
    require_overlap(execution.input, qrels, qrels_file.name)
    touche_values, qids = _on_topics(stage, qrels, execution)

    texts = dict(zip(execution.topics["qid"], execution.topics["query"], strict=True))
    touche_questions = np.array([normalise(texts[qid]) for qid in qids])
    webis_questions = np.array([normalise(group["topic"].iloc[0]) for _, group in judged.groupby("qid")])
    best = _chosen(touche_values, webis_values)
    metrics = {
        "topics": {qrels_file.name: len(touche_values), "Webis-ArgQuality-20": len(webis_values)},
        **_cross_validate(touche_values, webis_values, touche_questions, webis_questions),
        CHOSEN_ON: _means(touche_values[:, best], webis_values[:, best]),
    }
    table = pd.DataFrame([_axes(point) for point in range(ALONE)])
    table[[*MEASURES, *WEBIS]] = np.hstack([defined_mean(touche_values, 0), webis_values.mean(axis=0)])
    inputs = {qrels_file.name: sha256(qrels_file), **published(work, "webis")}
    provenance = {"trained on": {"input": execution.input.hashes | inputs}, "quality": network.fingerprint}
    _save(output, system.name, best, metrics, table, provenance)
    log.info("%s: %s", output, POINTS[best].formula())
    return table


def _save(
    output: Path, system: str, best: int, metrics: dict[str, Any], table: pd.DataFrame, provenance: dict[str, Any]
) -> None:
    """Save the best grid point as a checkpoint, with the grid as a table and a plot."""
    readme = card(
        "quality", name=output.name, system=system, formula=POINTS[best].formula(), points=len(POINTS), metrics=metrics,
        max_loss=quality_grid.LOSS, constrained_measures=(MEASURES[DECIDES], WEBIS[HELD]),
        evaluations=(GIVEN_ORDER, CROSS_VALIDATED, CHOSEN_ON),
    )  # fmt: skip
    contents = {
        CONFIG: dump_json(msgspec.to_builtins(POINTS[best])),
        METRICS: dump_json(metrics),
        CARD: readme.encode(),
        "grid.csv": table.to_csv(index=False, float_format="%.6f", lineterminator="\n").encode(),
        "grid.png": grid_plot(table, AXES, WEBIS[RAISED]),
    }
    write_with_provenance(output, contents, provenance)


def _cross_validate(
    touche_values: np.ndarray, webis_values: np.ndarray, touche_questions: np.ndarray, webis_questions: np.ndarray
) -> dict[str, Any]:
    """Return the metrics of the original order and, cross-validated over questions, of re-ranking."""
    held_out = np.empty_like(touche_values[:, 0]), np.empty_like(webis_values[:, 0])
    points = []
    for fold in folds(sorted({*touche_questions, *webis_questions}), FOLDS, 0, 0):
        test_masks = [np.isin(questions, list(fold.test)) for questions in (touche_questions, webis_questions)]
        point = _chosen(touche_values[~test_masks[0]], webis_values[~test_masks[1]])
        for measured, values, mask in zip(held_out, (touche_values, webis_values), test_masks, strict=True):
            measured[mask] = values[mask, point]
        points.append(point)
    original = touche_values[:, GIVEN], webis_values[:, GIVEN]
    return {
        GIVEN_ORDER: _means(*original),
        CROSS_VALIDATED: _means(*held_out),
        "gained": _gained(held_out[0] - original[0], held_out[1] - original[1]),
        "folds": [_axes(point) for point in points],
    }


def _on_topics(stage: QualityReranking, qrels: pd.DataFrame, execution: Execution) -> tuple[np.ndarray, list[str]]:
    """Evaluate the judged topics at all grid points: (topics, points, MEASURES), and the qids."""
    ranking = cut(execution.lists(stage.relevance), DEPTH).reset_index(drop=True)
    top = ranking[ranking["rank"] <= max(quality_grid.DEPTHS)]
    quality = pd.Series(stage.quality.scores(execution, top[["qid", "docno"]]), index=top.index)
    frames = []
    for point in progress(POINTS, "re-ranking", "points"):
        scores = pd.Series(0.0, index=ranking.index)
        for _, rows in ranking.groupby("qid", sort=False):
            first = rows.index[: point.documents]
            scores[rows.index] = point.scores(rows["score"].to_numpy(), quality[first].to_numpy())
        ordered = ranking.assign(score=scores).sort_values(["qid", "score", "rank"], ascending=[True, False, True])
        run = ordered.assign(rank=ordered.groupby("qid").cumcount() + 1)
        frames.append(evaluate(run, qrels)[list(MEASURES)])
    return np.stack([frame.to_numpy() for frame in frames], axis=1), frames[0].index.tolist()


def _chosen(touche_values: np.ndarray, webis_values: np.ndarray) -> int:
    """Select the point with the best quality that keeps relevance on both collections."""
    touche_means, webis_means = defined_mean(touche_values, 0), webis_values.mean(axis=0)
    return quality_grid.chosen(webis_means[:, RAISED], webis_means[:, HELD], touche_means[:, DECIDES])


def _axes(point: int) -> dict[str, Any]:
    return {name: getattr(POINTS[point], name) for name in AXES}


def _means(touche_values: np.ndarray, webis_values: np.ndarray) -> dict[str, float | None]:
    """Average and round values (topics, MEASURES) and (topics, WEBIS)."""
    return rounded((*MEASURES, *WEBIS), np.concatenate([defined_mean(touche_values, 0), webis_values.mean(axis=0)]))


def _gained(touche_gains: np.ndarray, webis_gains: np.ndarray) -> dict[str, dict[str, float]]:
    """Compute means and intervals of the gains."""
    summary: dict[str, dict[str, float]] = {}
    for values, names in ((touche_gains, MEASURES), (webis_gains, WEBIS)):
        bounds = intervals(pd.DataFrame(values, columns=list(names))).round(4)
        rows = zip(names, bounds[["mean", "low", "high"]].to_numpy().tolist(), strict=True)
        summary |= {name: dict(zip(("mean", "low", "high"), row, strict=True)) for name, row in rows}
    return summary
