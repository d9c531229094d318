"""Tune the depth and the weight of a system's quality re-ranking.

The loss in relevance is measured on the qrels and on Webis-ArgQuality-20, the gain in quality on
Webis-ArgQuality-20 only. Topics that ask the same question are in the same fold.
"""

import itertools
import logging
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from aragorn import __version__
from aragorn.inference.checkpoint import RankerCheckpoint
from aragorn.inference.pair_scoring import score_texts
from aragorn.progress import track
from aragorn.rankings import DEFAULT_DEPTH, truncate_rankings
from aragorn.storage.archives import hash_input_files
from aragorn.storage.atomic_files import get_printable_name
from aragorn.systems.catalogue import QUALITY_RERANKINGS
from aragorn.systems.quality import QualityInterpolation, QualityRerankingStage
from aragorn.text.normalisation import normalise
from aragorn.versions import describe_versions
from aragorn_training.cards import write_fitted
from aragorn_training.data.corpora import describe_judged_data, format_judged_credit
from aragorn_training.data.datasets.webis_argquality import MODELS
from aragorn_training.data.quality import load_source_hashes, load_table
from aragorn_training.data.retrieval import DatasetRetrieval
from aragorn_training.evaluation.evaluate import evaluate_run, get_evaluated_topics
from aragorn_training.evaluation.folds import N_FOLDS, split_folds
from aragorn_training.evaluation.significance import bootstrap_means
from aragorn_training.fitting.listwise import compute_dense_ranks
from aragorn_training.formatting import CROSS_VALIDATED, IN_SAMPLE, nan_mean, round_means
from aragorn_training.options import SELECTION_MEASURES
from aragorn_training.tuning.grid import STORED_MEASURES, encode_grid

VERSION = 1  # of quality scores of the same pairs
COMPUTES_WITH = (
    "aragorn.inference.pair_scoring",
    "aragorn.systems.quality",
    "aragorn.text.normalisation",
    "aragorn_training.evaluation.evaluate",
    "aragorn_training.fitting.validation",
    "aragorn_training.tuning.grid",
)

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
# values (topics, points, measures) of topics, and their questions (topics,)
Collection = tuple[np.ndarray, np.ndarray]


def evaluate_quality_grid(judgments: pd.DataFrame, quality: np.ndarray) -> np.ndarray:
    """Evaluate all grid points, and the ranking by quality (texts,) only, on Webis-ArgQuality-20;
    return values (topics, points + 1, MEASURES).

    Topics are sorted by id; values are means over the retrieval models' rankings. A text's gain is
    the number of distinct lower grades in its topic (0 for non-arguments); the ideal ranking is the
    best order of the same texts. The relevance score is -log(rank), as the rankings have no scores.
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
    gains = [ranking[name].to_numpy()[orders] for name in GAIN_COLUMNS]
    return np.stack([_ndcg(values, depth) for values in gains for depth in (5, 10)], axis=1)


def _ndcg(gains: np.ndarray, depth: int) -> np.ndarray:
    """Return the nDCG (rankings,) of rankings of the same texts from gains (rankings, texts)."""
    discounts = 1 / np.log2(np.arange(2, depth + 2))
    dcg, ideal = (
        ordered_gains[:, :depth] @ discounts[: gains.shape[1]]
        for ordered_gains in (gains, -np.sort(-gains, axis=1))
    )
    return np.asarray(dcg / ideal)


def select_quality_point(webis_values: np.ndarray, *touche_values: np.ndarray) -> int:
    """Return the point with the best quality of those that lose at most MAX_RELEVANCE_LOSS of the
    relevance of RELEVANCE_ONLY, on Webis-ArgQuality-20 and, if given, on Touché's topics.

    Values have the shape (topics, points, measures).
    """
    means = webis_values.mean(axis=0)
    relevance = [means[:, CONSTRAINT]]
    relevance += [nan_mean(values, 0)[:, RELEVANCE_CONSTRAINT] for values in touche_values]
    is_feasible = np.all(
        [values >= values[RELEVANCE_ONLY] - MAX_RELEVANCE_LOSS for values in relevance], axis=0
    )
    return int(np.argmax(np.where(is_feasible, means[:, OBJECTIVE], -np.inf)))


def cross_validate_quality(
    webis: Collection, *touche: Collection
) -> tuple[list[np.ndarray], list[int]]:
    """Return the values (topics, measures) of each collection's topics at the point selected on the
    other folds, and the point of each fold; equal questions are in one fold."""
    collections = (webis, *touche)
    held_out = [np.empty_like(values[:, 0]) for values, _ in collections]
    points = []
    questions = sorted({question for _, names in collections for question in names})
    for fold in split_folds(questions, N_FOLDS, 0, 0):
        masks = [np.isin(names, list(fold.test)) for _, names in collections]
        pairs = list(zip(collections, masks, strict=True))
        points.append(select_quality_point(*(values[~is_test] for (values, _), is_test in pairs)))
        for result, ((values, _), is_test) in zip(held_out, pairs, strict=True):
            result[is_test] = values[is_test, points[-1]]
    return held_out, points


def tune_quality(
    system: str, qrels_file: Path, retrieval: DatasetRetrieval, output: Path
) -> pd.DataFrame:
    """Evaluate all grid points of a system of QUALITY_RERANKINGS; save the best as its checkpoint,
    with the full grid as grid.csv and grid.png, and return means over all topics, a row per point.

    `prepare quality` has prepared the retrieval's working directory.
    """
    stage = QUALITY_RERANKINGS[system]
    webis_values, webis_questions = evaluate_webis_topics(stage, retrieval)
    [qrels] = retrieval.read_qrels({qrels_file.name: qrels_file}).values()
    touche_values = _score_and_evaluate(stage, qrels, retrieval)[..., : len(SELECTION_MEASURES)]
    touche_questions = get_questions(retrieval.topics, get_evaluated_topics(qrels))
    best_point = select_quality_point(webis_values, touche_values)
    (held_out_webis, held_out_touche), fold_points = cross_validate_quality(
        (webis_values, webis_questions), (touche_values, touche_questions)
    )
    original_webis = webis_values[:, RELEVANCE_ONLY]
    original_touche = touche_values[:, RELEVANCE_ONLY]
    n_touche = {get_printable_name(qrels_file): len(touche_values)}
    metrics = {
        "topics": n_touche | {"Webis-ArgQuality-20": len(webis_values)},
        ORIGINAL_ORDER: _round_means(original_touche, original_webis),
        CROSS_VALIDATED: _round_means(held_out_touche, held_out_webis),
        "gain": _compute_gain_intervals(
            held_out_touche - original_touche, held_out_webis - original_webis
        ),
        "folds": [_get_point_settings(point) for point in fold_points],
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
        system=system,
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
    """Rank, score the top documents and return values (topics, points, STORED_MEASURES)."""
    ranking = truncate_rankings(retrieval.rank(stage.relevance), DEFAULT_DEPTH)
    top_pairs = truncate_rankings(ranking, max(DEPTHS))[["qid", "docno"]].reset_index(drop=True)
    quality = top_pairs.assign(quality=stage.quality.score(retrieval, top_pairs))
    return evaluate_touche_topics(ranking, quality, qrels)


def _build_provenance(
    stage: QualityRerankingStage, qrels_file: Path, retrieval: DatasetRetrieval
) -> dict[str, Any]:
    """Return the hashes of the inputs and the fingerprint of the network that scores quality."""
    webis_hashes = load_source_hashes(retrieval.session.cache.path, "webis")
    training_data = describe_judged_data(
        retrieval.dataset, hash_input_files([qrels_file]) | webis_hashes
    )
    fingerprint = stage.quality.get_fingerprint(retrieval.session.checkpoints)
    return {"training_data": training_data, "quality": fingerprint}


def get_questions(topics: pd.DataFrame, qids: Iterable[str]) -> np.ndarray:
    """Return the normalised questions (N,) of N of the topics `qid query`."""
    texts = dict(zip(topics["qid"], topics["query"], strict=True))
    return np.array([normalise(texts[qid]) for qid in qids])


def evaluate_webis_topics(
    stage: QualityRerankingStage, retrieval: DatasetRetrieval
) -> tuple[np.ndarray, np.ndarray]:
    """Evaluate Webis-ArgQuality-20 at all grid points, with cached scores of the network; return
    values (topics, points, WEBIS_MEASURES) and the normalised questions (topics,)."""
    judgments = load_table(retrieval.session.cache.path, "webis", columns=None)
    network = stage.quality.load_checkpoint(retrieval.session.checkpoints)
    assert isinstance(network, RankerCheckpoint)
    pairs = [*judgments[["topic", "premise"]].itertuples(index=False, name=None)]
    network_key = stage.quality.describe_results(retrieval.session)
    key = repr((network_key, describe_versions(__name__), pairs))
    parts = retrieval.session.cache.parts("scores-webis", sha256(key.encode()).hexdigest())
    quality = parts.get_or_build_array(
        "quality", lambda: score_texts(network, pairs, retrieval.session.device)
    )
    questions = np.array(
        [normalise(group["topic"].iloc[0]) for _, group in judgments.groupby("qid")]
    )
    return evaluate_quality_grid(judgments, quality)[:, :QUALITY_ONLY], questions


def evaluate_touche_topics(
    ranking: pd.DataFrame, quality: pd.DataFrame, qrels: pd.DataFrame
) -> np.ndarray:
    """Evaluate the judged topics of a relevance ranking `qid docno rank score` at all grid points
    by quality scores `qid docno quality` of at least the top documents; return values (topics,
    points, STORED_MEASURES)."""
    ranking = ranking.merge(quality, on=["qid", "docno"], how="left")
    runs = []
    for index, point in enumerate(track(POINTS, "re-ranking", "points")):
        scores = pd.Series(0.0, index=ranking.index)
        for _, rows in ranking.groupby("qid", sort=False):
            scores[rows.index] = point.score(
                rows["score"].to_numpy(), rows["quality"].to_numpy()[: point.depth]
            )
        reranking = ranking.assign(score=scores)
        reranking = reranking.sort_values(["qid", "score", "rank"], ascending=[True, False, True])
        ranks = reranking.groupby("qid").cumcount() + 1
        runs.append(reranking.assign(rank=ranks, qid=f"{index:02} " + reranking["qid"]))
    # all points are evaluated as topics of one run, since most of the time of an evaluation does
    # not depend on its size
    prefixes = [f"{index:02} " for index in range(len(POINTS))]
    judgments = pd.concat([qrels.assign(qid=prefix + qrels["qid"]) for prefix in prefixes])
    values = evaluate_run(pd.concat(runs, ignore_index=True), judgments, STORED_MEASURES).to_numpy()
    return values.reshape(len(POINTS), -1, len(STORED_MEASURES)).swapaxes(0, 1)


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
