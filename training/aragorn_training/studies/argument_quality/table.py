"""Evaluate scores of ranked arguments (correlations, partial ones given length, and nDCG), and
tabulate the results of the study."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from scipy.stats import rankdata
from sklearn.metrics import ndcg_score

from aragorn_training.evaluation.significance import bootstrap_means
from aragorn_training.evaluation.similarity import CORRELATIONS, correlate, group_rows_by_topic
from aragorn_training.fitting.listwise import compute_dense_ranks
from aragorn_training.studies.argument_quality.protocol import Cell, SettingRunner
from aragorn_training.tuning import quality

PARTIAL_SPEARMAN = "partial Spearman (length)"
DEPTHS = (5, 10, 15)
NDCG_LINEAR, NDCG_EXPONENTIAL = (
    tuple(f"nDCG@{depth}{gain}" for depth in DEPTHS) for gain in ("", " exponential")
)
MEASURES = (*CORRELATIONS, PARTIAL_SPEARMAN, *NDCG_LINEAR, *NDCG_EXPONENTIAL)

PUBLISHED_ENSEMBLE = "ensemble of Favreau 2022"
# losses of its members by training data
PUBLISHED_ENSEMBLES: dict[tuple[str, ...], tuple[str, ...]] = {
    ("ukp",): ("mse", "hinge", "logistic", "approx_ndcg"),
    ("ibm",): ("mse", "hinge", "logistic", "softmax", "list_mle"),
}
# columns of Webis-ArgQuality-20 by judged dimension of quality
QUALITY_DIMENSIONS = {
    "combined": "score",
    **{name: name for name in ("rhetorical", "logical", "dialectical")},
}
DEV_SPEARMAN = "Spearman (dev)"  # selects the loss
RERANKING = "webis_reranking"  # setting name of the re-ranking rows
KEY_COLUMNS = ["setting", "test_set", "target", "network"]
COLUMNS = [*KEY_COLUMNS, "measure", "mean", "ci_low", "ci_high", "sd", "n_seeds"]

# test scores (rows,) of each seed by network; NaN if untested
ScoresByNetwork = dict[str, list[np.ndarray]]
# scores (rows,) of each fold's network by network and seed
ScoresByFold = dict[tuple[str, int], list[np.ndarray]]
Rows = list[dict[str, object]]


def tabulate_test_sets(setting: str, runner: SettingRunner, networks: ScoresByNetwork) -> Rows:
    """Tabulate the measures of each network on each test set (and dimension of quality)."""
    rows: Rows = []
    for test_set, mask in _mask_test_sets(runner).items():
        targets = QUALITY_DIMENSIONS if test_set == "webis" else {"": "score"}
        for target, column in targets.items():
            judgments = runner.table[mask].assign(score=runner.table[column])
            for network, seeds in networks.items():
                frames = [evaluate_by_topic(judgments, scores[mask]) for scores in seeds]
                rows += _tabulate_measures((setting, test_set, target, network), frames)
    return rows


def group_folds(scores_by_cell: Mapping[Cell, np.ndarray], setting: str) -> ScoresByFold:
    """Group the scores of a setting's cells, which are ordered by fold."""
    folds: ScoresByFold = {}
    for cell, scores in scores_by_cell.items():
        if cell.setting == setting:
            folds.setdefault((cell.network, cell.seed), []).append(scores)
    return folds


def tabulate_dev(setting: str, runner: SettingRunner, folds: ScoresByFold) -> Rows:
    """Tabulate each network's mean Spearman correlation over the dev topics of all folds."""
    frames: dict[str, list[pd.DataFrame]] = {}
    for (network, _), fold_scores in folds.items():
        values = []
        for fold, scores in enumerate(fold_scores):
            dev = runner.table.assign(predicted=scores)[runner.mask_split(fold, "dev")]
            labels = dev["score"].to_numpy()
            predictions = dev["predicted"].to_numpy()
            values += [
                correlate(labels[rows], predictions[rows])["Spearman"]
                for rows in group_rows_by_topic(dev)
            ]
        frames.setdefault(network, []).append(pd.DataFrame({DEV_SPEARMAN: values}))
    data = " and ".join(runner.setting.train_data)
    return [
        row
        for network, seeds in frames.items()
        for row in _tabulate_measures((setting, data, "", network), seeds)
    ]


def tabulate_reranking(runner: SettingRunner, networks: ScoresByNetwork) -> Rows:
    """Tabulate Webis' lists in original order and re-ranked, with and without relevance."""
    mask = (runner.table["data"] == "webis").to_numpy()
    judged = runner.table[mask]
    names = list(quality.MEASURES)
    columns = [*names, *(f"Δ {name}" for name in names)]
    rows: Rows = []
    for network, seed_scores in networks.items():
        grids = [quality.evaluate_quality_grid(judged, scores[mask]) for scores in seed_scores]
        baseline = grids[0][:, quality.RELEVANCE_ONLY]
        rows = rows or _tabulate_measures(
            (RERANKING, "webis", "", "original order"), [pd.DataFrame(baseline, columns=names)]
        )
        quality_only = [grid[:, quality.QUALITY_ONLY] for grid in grids]
        topics = np.arange(len(baseline)).astype(str)
        held_out_values = [
            quality.cross_validate_quality((grid[:, : quality.QUALITY_ONLY], topics))[0][0]
            for grid in grids
        ]
        for variant, seeds in (
            ("quality only", quality_only),
            ("relevance and quality", held_out_values),
        ):
            arrays = [np.hstack([values, values - baseline]) for values in seeds]
            frames = [pd.DataFrame(array, columns=columns) for array in arrays]
            rows += _tabulate_measures((RERANKING, "webis", variant, network), frames)
    return rows


def _mask_test_sets(runner: SettingRunner) -> dict[str, np.ndarray]:
    """Return a mask (rows,) by test set, without the texts that Webis labels as non-arguments."""
    # only Webis labels non-arguments
    arguments = runner.table["argument"].ne(False) if "argument" in runner.table else True
    data_sets = runner.setting.test_data or runner.setting.train_data
    return {name: ((runner.table["data"] == name) & arguments).to_numpy() for name in data_sets}


def _tabulate_measures(key: tuple[str, ...], values: Sequence[pd.DataFrame]) -> Rows:
    """Build one row per measure from `values`, one frame (topics, measures) per seed."""
    bounds = bootstrap_means(sum(values[1:], values[0]) / len(values)).to_dict("index")
    deviations = pd.DataFrame([frame.mean() for frame in values]).std().to_dict()
    return [
        dict(zip(KEY_COLUMNS, key, strict=True))
        | {"measure": measure}
        | {str(name): value for name, value in bound.items()}
        | {"sd": deviations[measure], "n_seeds": len(values)}
        for measure, bound in bounds.items()
    ]


def count_argument_words(table: pd.DataFrame) -> np.ndarray:
    """Return the word counts (rows,) of a table's arguments, the scores of the length baseline."""
    return table["premise"].str.split().str.len().to_numpy(dtype=np.float64)


def evaluate_by_topic(table: pd.DataFrame, scores: np.ndarray) -> pd.DataFrame:
    """Evaluate scores (rows,) of a table `data topic premise score`: one row per (data, topic) in
    table order, with columns MEASURES.

    nDCG gains are dense ranks of the labels (1 = worst) divided by their maximum (linear), or
    2^rank - 1 (exponential); ties in score share the mean gain.
    """
    labels = table["score"].to_numpy(dtype=np.float64)
    lengths = count_argument_words(table)
    topics = group_rows_by_topic(table)
    names = pd.MultiIndex.from_frame(table.iloc[[rows[0] for rows in topics]][["data", "topic"]])
    values = [_evaluate_topic(labels[rows], scores[rows], lengths[rows]) for rows in topics]
    return pd.DataFrame(values, names, list(MEASURES))


def _evaluate_topic(labels: np.ndarray, scores: np.ndarray, lengths: np.ndarray) -> list[float]:
    coefficients = correlate(labels, scores)
    ranks = compute_dense_ranks(labels)
    max_rank = ranks.max()
    # scaled by 2^-max_rank, which cancels in nDCG
    gains = (ranks / max_rank, np.exp2(ranks - max_rank) - np.exp2(-max_rank))
    values = [ndcg_score([gain], [scores], k=depth) for gain in gains for depth in DEPTHS]
    partial = partial_spearman(labels, scores, lengths)
    return [*(coefficients[name] for name in CORRELATIONS), partial, *map(float, values)]


def partial_spearman(labels: np.ndarray, scores: np.ndarray, lengths: np.ndarray) -> float:
    """Compute Spearman's partial correlation given length; 0 if length determines either."""
    ranks = np.stack([rankdata(values) for values in (labels, scores, lengths)])
    *centred_ranks, length_ranks = ranks - ranks.mean(axis=1, keepdims=True)
    squared_norm = max(length_ranks @ length_ranks, 1e-9)
    residuals = [
        rank - (rank @ length_ranks) / squared_norm * length_ranks for rank in centred_ranks
    ]
    norms = np.prod([np.linalg.norm(residual) for residual in residuals])
    return float(residuals[0] @ residuals[1] / norms) if norms > 1e-9 else 0.0
