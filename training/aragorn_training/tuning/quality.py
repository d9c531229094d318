"""Tune the depth and the weight of a system's quality re-ranking.

The loss in relevance is measured on the qrels and on Webis-ArgQuality-20, the gain in quality on
Webis-ArgQuality-20 only. Topics that ask the same question are in the same fold.
"""

import itertools
import logging
import sys
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from aragorn import __version__
from aragorn.errors import UsageError
from aragorn.inference.checkpoint import RankerCheckpoint
from aragorn.inference.pair_scoring import score_texts
from aragorn.io.qrels import read_qrels
from aragorn.progress import track
from aragorn.rankings import DEFAULT_DEPTH, truncate_rankings
from aragorn.storage.archives import hash_input_files
from aragorn.storage.atomic_files import get_printable_name
from aragorn.systems.catalogue import QUALITY_RERANKINGS, System
from aragorn.systems.quality import QualityInterpolation, QualityRerankingStage
from aragorn.text.normalisation import normalise
from aragorn.versions import describe_versions
from aragorn_training.cards import write_fitted
from aragorn_training.data.corpora import describe_dataset, format_judged_credit
from aragorn_training.data.datasets.webis_argquality import MODELS
from aragorn_training.data.quality import load_source_hashes, load_webis_judgments
from aragorn_training.data.retrieval import DatasetRetrieval
from aragorn_training.evaluation.evaluate import evaluate_run, get_evaluated_topics
from aragorn_training.evaluation.folds import N_FOLDS, split_folds
from aragorn_training.evaluation.overlap import check_overlap
from aragorn_training.evaluation.significance import bootstrap_means
from aragorn_training.fitting.listwise import compute_dense_ranks
from aragorn_training.formatting import CROSS_VALIDATED, IN_SAMPLE, nan_mean, round_means
from aragorn_training.options import SELECTION_MEASURES
from aragorn_training.tuning.grid import STORED_MEASURES, encode_grid

VERSION = 1  # of quality scores of the same pairs

log = logging.getLogger(__name__)

DEPTHS = (10, 20, 30, 50)  # re-ranking depths
# weights of quality; the weight of relevance is 1
WEIGHTS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)
POINTS = tuple(
    QualityInterpolation(__version__, depth, weight)
    for depth, weight in itertools.product(DEPTHS, WEIGHTS)
)
RELEVANCE_ONLY = WEIGHTS.index(0.0)  # index of the first point with weight 0
QUALITY_ONLY = len(POINTS)  # index of the ranking by quality only, after all points
GAIN_COLUMNS = ("relevance", "score")  # judged relevance, combined quality
MEASURES = ("nDCG@5 relevance", "nDCG@10 relevance", "nDCG@5 quality", "nDCG@10 quality")
CONSTRAINT = MEASURES.index("nDCG@5 relevance")
OBJECTIVE = MEASURES.index("nDCG@5 quality")
MAX_RELEVANCE_LOSS = 0.01  # maximum loss in relevance on the topics used for selection
RELEVANCE_CONSTRAINT = SELECTION_MEASURES.index("nDCG@5")
WEBIS_MEASURES = tuple(f"Webis {name}" for name in MEASURES)
PARAMETERS = ["depth", "weight"]
ORIGINAL_ORDER = "original order"


def evaluate_grid(judgments: pd.DataFrame, quality: np.ndarray) -> np.ndarray:
    """Evaluate all grid points and the ranking by quality only; return values (topics, points + 1,
    MEASURES).

    Topics are sorted by id; values are means over the retrieval models' rankings. A text's gain is
    the number of distinct lower grades in its topic (0 for non-arguments); the ideal ranking is the
    best order of the same texts. The relevance score is -log(rank), as the rankings have no scores.

    Args:
        judgments: Webis-ArgQuality-20, see `webis_argquality.read_judgments`.
        quality: Quality scores (texts,) of the rows of `judgments`; higher is better.
    """
    texts = judgments.assign(quality=quality)
    for name in GAIN_COLUMNS:
        texts[name] = texts.groupby("qid")[name].transform(
            lambda grades: compute_dense_ranks(grades.to_numpy()) - 1.0
        )
    groups = [group for _, group in texts.groupby("qid")]
    return np.stack(
        [np.mean([_evaluate_ranking(group, model) for model in MODELS], axis=0) for group in groups]
    )


def _evaluate_ranking(texts: pd.DataFrame, model: str) -> np.ndarray:
    """Evaluate all points on one model's ranking; return values (points + 1, MEASURES)."""
    ranking = texts[texts[model].notna()].sort_values(model)
    relevance = -np.log(ranking[model].to_numpy())
    quality = ranking["quality"].to_numpy()
    scores = [*(point.score(relevance, quality[: point.depth]) for point in POINTS), quality]
    orders = np.argsort(-np.stack(scores), axis=1, kind="stable")
    return np.stack(
        [
            _ndcg(ranking[gain].to_numpy()[orders], depth)
            for gain in GAIN_COLUMNS
            for depth in (5, 10)
        ],
        axis=1,
    )


def _ndcg(gains: np.ndarray, depth: int) -> np.ndarray:
    """Return the nDCG (rankings,) of rankings of the same texts from gains (rankings, texts)."""
    discounts = 1 / np.log2(np.arange(2, depth + 2))
    dcg, ideal = (
        ordered_gains[:, :depth] @ discounts[: gains.shape[1]]
        for ordered_gains in (gains, -np.sort(-gains, axis=1))
    )
    return np.asarray(dcg / ideal)


def select_feasible_point(quality: np.ndarray, *relevance: np.ndarray) -> int:
    """Return the index of the point with the highest quality whose losses in relevance are at most
    MAX_RELEVANCE_LOSS.

    Args:
        quality: Mean quality (points,).
        relevance: Mean relevance (points,) per collection; losses are relative to the point
            RELEVANCE_ONLY.
    """
    is_feasible = np.all(
        [means >= means[RELEVANCE_ONLY] - MAX_RELEVANCE_LOSS for means in relevance], axis=0
    )
    return int(np.argmax(np.where(is_feasible, quality, -np.inf)))


def cross_validate(grid_values: np.ndarray) -> np.ndarray:
    """Return each topic's values (topics, MEASURES) at the point selected on other folds."""
    held_out_values = np.empty_like(grid_values[:, 0])
    topic_names = [str(topic) for topic in range(len(grid_values))]
    for fold in split_folds(topic_names, N_FOLDS, 0, 0):
        is_test = np.isin(topic_names, list(fold.test))
        means = grid_values[~is_test, :QUALITY_ONLY].mean(axis=0)
        held_out_values[is_test] = grid_values[
            is_test, select_feasible_point(means[:, OBJECTIVE], means[:, CONSTRAINT])
        ]
    return held_out_values


def tune_quality(
    system: System, qrels_file: Path, retrieval: DatasetRetrieval, output: Path
) -> pd.DataFrame:
    """Evaluate all grid points and save the best as the system's checkpoint, with the full grid as
    grid.csv and grid.png.

    Args:
        system: Quality re-ranking system.
        qrels_file: Relevance judgments.
        retrieval: DatasetRetrieval on the judged input; `prepare quality` has prepared its working
            directory.
        output: Checkpoint directory.

    Returns:
        One row per grid point with means over all topics.

    Raises:
        UsageError: If the system does not re-rank by quality.
    """
    if system.name not in QUALITY_RERANKINGS:
        raise UsageError(f"{system.name} does not re-rank by quality; choose a system that does")
    stage = QUALITY_RERANKINGS[system.name]
    webis_values, webis_questions = evaluate_webis_topics(stage, retrieval)
    qrels = read_qrels(qrels_file, retrieval.collection.documents.read_all_docnos())
    check_overlap(retrieval.dataset, qrels, qrels_file.name)
    touche_values = _score_and_evaluate(stage, qrels, retrieval)[..., : len(SELECTION_MEASURES)]
    touche_questions = get_questions(retrieval.topics, get_evaluated_topics(qrels))
    best_point = select_point(touche_values, webis_values)
    metrics = {
        "topics": {
            get_printable_name(qrels_file): len(touche_values),
            "Webis-ArgQuality-20": len(webis_values),
        },
        **_cross_validate(touche_values, webis_values, touche_questions, webis_questions),
        IN_SAMPLE: _round_means(touche_values[:, best_point], webis_values[:, best_point]),
    }
    table = pd.DataFrame([_get_point_settings(point) for point in range(QUALITY_ONLY)])
    table[[*SELECTION_MEASURES, *WEBIS_MEASURES]] = np.hstack(
        [nan_mean(touche_values, 0), webis_values.mean(axis=0)]
    )
    point = POINTS[best_point]
    provenance = _build_provenance(stage, qrels_file, retrieval)
    write_fitted(
        output,
        point,
        metrics,
        provenance,
        "quality_reranking",
        encode_grid(table, PARAMETERS, WEBIS_MEASURES[OBJECTIVE]),
        name=get_printable_name(output),
        system=system.name,
        formula=point.format_formula(),
        data=format_judged_credit(provenance["training_data"]),
        points=len(POINTS),
        max_loss=MAX_RELEVANCE_LOSS,
        evaluations=(ORIGINAL_ORDER, CROSS_VALIDATED, IN_SAMPLE),
        constrained_measures=(SELECTION_MEASURES[RELEVANCE_CONSTRAINT], WEBIS_MEASURES[CONSTRAINT]),
    )
    log.info("%s: %s", output, point.format_formula())
    return table


def _score_and_evaluate(
    stage: QualityRerankingStage, qrels: pd.DataFrame, retrieval: DatasetRetrieval
) -> np.ndarray:
    """Rank by relevance, score the quality of the top documents and evaluate all grid points;
    return values (topics, points, STORED_MEASURES)."""
    ranking = truncate_rankings(retrieval.rank(stage.relevance), DEFAULT_DEPTH)
    top_pairs = truncate_rankings(ranking, max(DEPTHS))[["qid", "docno"]].reset_index(drop=True)
    quality = top_pairs.assign(quality=stage.quality.score(retrieval, top_pairs))
    return evaluate_touche_topics(ranking, quality, qrels)


def _build_provenance(
    stage: QualityRerankingStage, qrels_file: Path, retrieval: DatasetRetrieval
) -> dict[str, Any]:
    """Return the hashes of the inputs and the fingerprint of the network that scores quality."""
    inputs = (
        retrieval.dataset.file_hashes
        | hash_input_files([qrels_file])
        | load_source_hashes(retrieval.session.cache.path, "webis")
    )
    network = stage.quality.load_checkpoint(retrieval.session.checkpoints)
    assert network is not None
    training_data = {"input": inputs, **describe_dataset(retrieval.dataset)}
    return {"training_data": training_data, "quality": network.fingerprint}


def _cross_validate(
    touche_values: np.ndarray,
    webis_values: np.ndarray,
    touche_questions: np.ndarray,
    webis_questions: np.ndarray,
) -> dict[str, Any]:
    """Return the metrics of the original order and, cross-validated, of re-ranking."""
    held_out_values = np.empty_like(touche_values[:, 0]), np.empty_like(webis_values[:, 0])
    points = []
    for fold in split_folds(sorted({*touche_questions, *webis_questions}), N_FOLDS, 0, 0):
        test_masks = [
            np.isin(questions, list(fold.test)) for questions in (touche_questions, webis_questions)
        ]
        point = select_point(touche_values[~test_masks[0]], webis_values[~test_masks[1]])
        for result, values, mask in zip(
            held_out_values, (touche_values, webis_values), test_masks, strict=True
        ):
            result[mask] = values[mask, point]
        points.append(point)
    original_values = touche_values[:, RELEVANCE_ONLY], webis_values[:, RELEVANCE_ONLY]
    return {
        ORIGINAL_ORDER: _round_means(*original_values),
        CROSS_VALIDATED: _round_means(*held_out_values),
        "gain": _compute_gain_intervals(
            held_out_values[0] - original_values[0], held_out_values[1] - original_values[1]
        ),
        "folds": [_get_point_settings(point) for point in points],
    }


def get_questions(topics: pd.DataFrame, qids: Iterable[str]) -> np.ndarray:
    """Return the normalised questions (N,) of N of the topics `qid query`."""
    texts = dict(zip(topics["qid"], topics["query"], strict=True))
    return np.array([normalise(texts[qid]) for qid in qids])


def evaluate_webis_topics(
    stage: QualityRerankingStage, retrieval: DatasetRetrieval
) -> tuple[np.ndarray, np.ndarray]:
    """Evaluate Webis-ArgQuality-20 at all grid points; the network's scores are cached.

    Returns:
        Values (topics, points, WEBIS_MEASURES) and the normalised questions (topics,).
    """
    judgments = load_webis_judgments(retrieval.session.cache.path)
    network = stage.quality.load_checkpoint(retrieval.session.checkpoints)
    assert isinstance(network, RankerCheckpoint)
    pairs = [*judgments[["topic", "premise"]].itertuples(index=False, name=None)]
    key = sha256(
        repr(
            (
                network.fingerprint,
                retrieval.session.computation,
                describe_versions(*stage.quality.get_sources(), sys.modules[__name__]),
                pairs,
            )
        ).encode()
    )
    parts = retrieval.session.cache.parts("scores-webis", key.hexdigest())
    quality = parts.get_or_build_array(
        "quality", lambda: score_texts(network, pairs, retrieval.session.device)
    )
    questions = np.array(
        [normalise(group["topic"].iloc[0]) for _, group in judgments.groupby("qid")]
    )
    return evaluate_grid(judgments, quality)[:, :QUALITY_ONLY], questions


def evaluate_touche_topics(
    ranking: pd.DataFrame, quality: pd.DataFrame, qrels: pd.DataFrame
) -> np.ndarray:
    """Evaluate the judged topics at all grid points.

    Args:
        ranking: Relevance ranking `qid docno rank score`.
        quality: Quality scores `qid docno quality` of at least the top documents.
        qrels: Relevance judgments `qid docno rel`.

    Returns:
        Values (topics, points, STORED_MEASURES).
    """
    ranking = ranking.merge(quality, on=["qid", "docno"], how="left")
    runs = []
    for index, point in enumerate(track(POINTS, "re-ranking", "points")):
        scores = pd.Series(0.0, index=ranking.index)
        for _, rows in ranking.groupby("qid", sort=False):
            scores[rows.index] = point.score(
                rows["score"].to_numpy(), rows["quality"].to_numpy()[: point.depth]
            )
        reranking = ranking.assign(score=scores).sort_values(
            ["qid", "score", "rank"], ascending=[True, False, True]
        )
        runs.append(
            reranking.assign(
                rank=reranking.groupby("qid").cumcount() + 1, qid=f"{index:02} " + reranking["qid"]
            )
        )
    # all points are evaluated as topics of one run, since most of the time of an evaluation does
    # not depend on its size
    judgments = pd.concat(
        [qrels.assign(qid=f"{index:02} " + qrels["qid"]) for index in range(len(POINTS))]
    )
    values = evaluate_run(pd.concat(runs, ignore_index=True), judgments, STORED_MEASURES).to_numpy()
    return values.reshape(len(POINTS), -1, len(STORED_MEASURES)).swapaxes(0, 1)


def select_point(touche_values: np.ndarray, webis_values: np.ndarray) -> int:
    """Select the best quality among points that lose at most MAX_RELEVANCE_LOSS anywhere."""
    touche_means = nan_mean(touche_values, 0)
    webis_means = webis_values.mean(axis=0)
    relevance = webis_means[:, CONSTRAINT], touche_means[:, RELEVANCE_CONSTRAINT]
    return select_feasible_point(webis_means[:, OBJECTIVE], *relevance)


def _get_point_settings(point: int) -> dict[str, Any]:
    return dict(zip(PARAMETERS, (POINTS[point].depth, POINTS[point].weight), strict=True))


def _round_means(touche_values: np.ndarray, webis_values: np.ndarray) -> dict[str, float | None]:
    """Return rounded means by measure of values (topics, measures) on both collections."""
    means = np.concatenate([nan_mean(touche_values, 0), webis_values.mean(axis=0)])
    return round_means((*SELECTION_MEASURES, *WEBIS_MEASURES), means)


def _compute_gain_intervals(touche_gains: np.ndarray, webis_gains: np.ndarray) -> dict[str, Any]:
    """Compute mean gains by measure, with intervals, from gains (topics, measures)."""
    summary: dict[str, Any] = {}
    for values, names in ((touche_gains, SELECTION_MEASURES), (webis_gains, WEBIS_MEASURES)):
        bounds = bootstrap_means(pd.DataFrame(values, columns=list(names))).round(4)
        summary |= {str(name): row.to_dict() for name, row in bounds.iterrows()}
    return summary
