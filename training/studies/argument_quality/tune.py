"""Tune how many documents a system re-orders by quality and by how much; chosen on judged topics, measured on others.

Judgments of relevance say what the new order costs, the lists of Webis-ArgQuality-20 what it costs and what it gains. The two
share questions: such a question tests on both sides or on none.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from submission import lists
from submission.disk.files import sha256
from submission.disk.provenance import CARD, CONFIG, METRICS, dump_json, write_with_provenance
from submission.errors import UsageError
from submission.input.qrels import read_qrels
from submission.lists import DEPTH
from submission.progress import progress
from submission.scoring.checkpoint import Checkpoint
from submission.systems.catalogue import System
from submission.systems.execution import Execution
from submission.systems.quality_reranking import QualityReranking
from submission.text.normalise import normalise
from training.cards import card
from training.figures import CHOSEN_ON, CROSS_VALIDATED, defined_mean, rounded
from training.measuring.evaluate import HEADLINES, evaluate
from training.measuring.overlap import require_overlap
from training.measuring.plots import grid_plot
from training.measuring.significance import intervals
from training.quality.prepare import judgments, published
from training.studies.argument_quality import rerank
from training.studies.argument_quality.folds import folds
from training.studies.argument_quality.rerank import ALONE, FOLDS, GIVEN, HELD, POINTS, RAISED

log = logging.getLogger(__name__)

MEASURES = (*HEADLINES, "MAP all")  # of the judged topics
DECIDES = MEASURES.index("nDCG@5 all")
WEBIS = tuple(f"Webis {name}" for name in rerank.MEASURES)
AXES = ["documents", "weight"]
GIVEN_ORDER = "given order"


def tune_quality(system: System, qrels_file: Path, execution: Execution, output: Path) -> pd.DataFrame:
    """Try all points, write the best as the system's checkpoint, which has the whole grid too, as grid.csv and grid.png.

    Args:
        system: one that re-orders.
        qrels_file: judgments of relevance.
        execution: on the input that they judge; its working directory has what `prepare lists` wrote.
        output: the checkpoint's directory.

    Returns:
        The grid: a row a point with the means over all topics.

    Raises:
        UsageError: the system re-orders nothing. InputError: malformed files, no tables. CheckpointError: what it is made of is
        missing. OutputError: something cannot be written.
    """
    stage = system.stage
    if not isinstance(stage, QualityReranking):
        raise UsageError(f"{system.name} re-orders nothing; choose a system that does")
    work = execution.work.directory
    judged = judgments(work)
    network = stage.quality.opened(execution.checkpoints)
    assert isinstance(network, Checkpoint)
    quality = network.scores(list(zip(judged["topic"], judged["premise"], strict=True)), execution.device)
    on_webis = rerank.values(judged, quality)[:, :ALONE]
    qrels = read_qrels(qrels_file, execution.documents.all_docnos())
    require_overlap(execution.input, qrels, qrels_file.name)
    on_topics, qids = _on_topics(stage, qrels, execution)

    texts = dict(zip(execution.topics["qid"], execution.topics["query"], strict=True))
    of_topics = np.array([normalise(texts[qid]) for qid in qids])
    of_webis = np.array([normalise(own["topic"].iloc[0]) for _, own in judged.groupby("qid")])
    held_out = np.empty_like(on_topics[:, 0]), np.empty_like(on_webis[:, 0])
    found = []
    for fold in folds(sorted({*of_topics, *of_webis}), FOLDS, 0, 0):
        tests = [np.isin(questions, list(fold.test)) for questions in (of_topics, of_webis)]
        point = _chosen(on_topics[~tests[0]], on_webis[~tests[1]])
        for measured, values, test in zip(held_out, (on_topics, on_webis), tests, strict=True):
            measured[test] = values[test, point]
        found.append(point)
    best = _chosen(on_topics, on_webis)
    metrics = {
        "topics": {qrels_file.name: len(on_topics), "Webis-ArgQuality-20": len(on_webis)},
        GIVEN_ORDER: _means(on_topics[:, GIVEN], on_webis[:, GIVEN]),
        CROSS_VALIDATED: _means(*held_out),
        "gained": _gained(held_out[0] - on_topics[:, GIVEN], held_out[1] - on_webis[:, GIVEN]),
        "folds": [_axes(point) for point in found],
        CHOSEN_ON: _means(on_topics[:, best], on_webis[:, best]),
    }
    table = pd.DataFrame([_axes(point) for point in range(ALONE)])
    table[[*MEASURES, *WEBIS]] = np.hstack([defined_mean(on_topics, 0), on_webis.mean(axis=0)])
    inputs = {qrels_file.name: sha256(qrels_file), **published(work, "webis")}
    provenance = {"trained on": {"input": execution.input.hashes | inputs}, "quality": network.fingerprint}
    text = card(
        "quality", name=output.name, system=system.name, formula=POINTS[best].formula(), points=len(POINTS), metrics=metrics,
        max_loss=rerank.LOSS, constrained_measures=(MEASURES[DECIDES], WEBIS[HELD]),
        evaluations=(GIVEN_ORDER, CROSS_VALIDATED, CHOSEN_ON),
    )  # fmt: skip
    contents = {
        CONFIG: dump_json(msgspec.to_builtins(POINTS[best])),
        METRICS: dump_json(metrics),
        CARD: text.encode(),
        "grid.csv": table.to_csv(index=False, float_format="%.6f", lineterminator="\n").encode(),
        "grid.png": grid_plot(table, AXES, WEBIS[RAISED]),
    }
    write_with_provenance(output, contents, provenance)
    log.info("%s: %s", output, POINTS[best].formula())
    return table


def _on_topics(stage: QualityReranking, qrels: pd.DataFrame, execution: Execution) -> tuple[np.ndarray, list[str]]:
    """The measures (topics, points, MEASURES) of the judged topics at each point, and their ids."""
    listed = lists.cut(execution.lists(stage.relevance), DEPTH).reset_index(drop=True)
    head = listed[listed["rank"] <= max(rerank.DEPTHS)]
    quality = pd.Series(stage.quality.scores(execution, head[["qid", "docno"]]), index=head.index)
    found = []
    for point in progress(POINTS, "re-ordered", "points"):
        scores = pd.Series(0.0, index=listed.index)
        for _, own in listed.groupby("qid", sort=False):
            first = own.index[: point.documents]
            scores[own.index] = point.scores(own["score"].to_numpy(), quality[first].to_numpy())
        ordered = listed.assign(score=scores).sort_values(["qid", "score", "rank"], ascending=[True, False, True])
        run = ordered.assign(rank=ordered.groupby("qid").cumcount() + 1)
        found.append(evaluate(run, qrels)[list(MEASURES)])
    return np.stack([own.to_numpy() for own in found], axis=1), found[0].index.tolist()


def _chosen(on_topics: np.ndarray, on_webis: np.ndarray) -> int:
    """The point that raises quality most and costs no relevance, neither here nor there."""
    here, there = defined_mean(on_topics, 0), on_webis.mean(axis=0)
    return rerank.chosen(there[:, RAISED], there[:, HELD], here[:, DECIDES])


def _axes(point: int) -> dict[str, Any]:
    return {name: getattr(POINTS[point], name) for name in AXES}


def _means(on_topics: np.ndarray, on_webis: np.ndarray) -> dict[str, float | None]:
    """Of (topics, MEASURES) and (topics, WEBIS)."""
    return rounded((*MEASURES, *WEBIS), np.concatenate([defined_mean(on_topics, 0), on_webis.mean(axis=0)]))


def _gained(on_topics: np.ndarray, on_webis: np.ndarray) -> dict[str, dict[str, float]]:
    """Means and intervals of differences."""
    found: dict[str, dict[str, float]] = {}
    for values, names in ((on_topics, MEASURES), (on_webis, WEBIS)):
        bounds = intervals(pd.DataFrame(values, columns=list(names))).round(4)
        rows = zip(names, bounds[["mean", "low", "high"]].to_numpy().tolist(), strict=True)
        found |= {name: dict(zip(("mean", "low", "high"), row, strict=True)) for name, row in rows}
    return found
