"""Evaluate tuned systems by nested cross-validation over judged topics.

For each fold of each partition, a system is tuned on the training topics and ranks the held-out
topics. Grids, length exponent, quality re-ranking, members' grids and number of unjudged documents
of the fusion are all selected on the training topics.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial

import msgspec
import numpy as np
import pandas as pd

from aragorn.pipeline.retrieval import Stage
from aragorn.progress import track
from aragorn.rankings import DEFAULT_DEPTH, rank_by_score, truncate_rankings
from aragorn.systems.catalogue import DEBATES, LEARNED_FUSIONS, QUALITY_RERANKINGS, SYSTEMS
from aragorn.systems.fusion import LearnedFusionStage
from aragorn.systems.latent import LatentParameters
from aragorn.systems.lexical import LexicalParameters
from aragorn.systems.quality import QualityRerankingStage
from aragorn.systems.weighted_sum import PAIR_COLUMNS
from aragorn.versions import describe_versions
from aragorn_training.data.retrieval import DatasetRetrieval
from aragorn_training.evaluation.evaluate import evaluate_run
from aragorn_training.evaluation.folds import assign_folds
from aragorn_training.formatting import nan_mean
from aragorn_training.fusion.evaluation import compute_features
from aragorn_training.fusion.learners import LabelledPool, fit_ridge
from aragorn_training.fusion.recipe import FusionRecipe
from aragorn_training.tuning.grid import (
    STORED_MEASURES,
    JudgedTopics,
    evaluate_grid,
    find_best_point,
    get_selection_columns,
    load_grid,
)
from aragorn_training.tuning.quality import (
    DEPTHS,
    evaluate_touche_topics,
    evaluate_webis_topics,
    get_questions,
    select_quality_point,
)

VERSION = 1  # of the fusions fitted to the same features
COMPUTES_WITH = (
    "aragorn.systems.weighted_sum",
    "aragorn_training.fusion.evaluation",
    "aragorn_training.fusion.learners",
    "aragorn_training.tuning.grid",
    "aragorn_training.tuning.quality",
)

N_PARTITIONS = 10
EXPONENTS = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the text length in SNRM
# numbers of unjudged documents labelled 0 in the fit of a learned fusion
UNJUDGED_PER_TOPIC = (0, 10, 30, 100)
GRIDS = (LexicalParameters, LatentParameters)  # parameters of which all points are ranked
SELECTION_COLUMNS = get_selection_columns("nDCG@5")

# mask of training topics (topics,) → values (topics, STORED_MEASURES)
TunedSystem = Callable[[np.ndarray], np.ndarray]


def cross_validate_repeatedly(tune: TunedSystem, n_topics: int, name: str) -> np.ndarray:
    """Return the values (topics, STORED_MEASURES) of held-out topics, averaged over N_PARTITIONS
    partitions into folds; `tune` tunes a system on the topics of a mask and returns its values of
    all."""
    values = np.empty((N_PARTITIONS, n_topics, len(STORED_MEASURES)))
    partitions = [assign_folds(n_topics, seed) for seed in range(N_PARTITIONS)]
    splits = [
        (row, folds == fold) for row, folds in enumerate(partitions) for fold in np.unique(folds)
    ]
    for row, is_held_out in track(splits, name, "folds"):
        values[row, is_held_out] = tune(~is_held_out)[is_held_out]
    return nan_mean(values, 0)


def select_point(values: np.ndarray, is_training: np.ndarray) -> int:
    """Return the point of values (points, topics, measures) with the best training mean."""
    return find_best_point(values[:, is_training][..., SELECTION_COLUMNS])


class NestedTuning:
    """Tuning of systems on subsets of the judged topics; values of grid points are cached."""

    def __init__(
        self, judged: JudgedTopics, recipe: FusionRecipe, retrieval: DatasetRetrieval
    ) -> None:
        self._judged = judged
        self._recipe = recipe
        self._retrieval = retrieval
        self._topics = np.array(judged.topics)
        # of all pairs scored so far
        self._quality = pd.DataFrame(columns=["qid", "docno", "quality"])
        self._get_points = cache(self._evaluate_points)
        self._evaluate_quality = cache(self._evaluate_reranking)
        self._load_webis = cache(partial(evaluate_webis_topics, retrieval=retrieval))
        self._load_features = cache(self._compute_features)

    def evaluate(self, name: str) -> pd.DataFrame:
        """Return a tuned system's values by topic in nested cross-validation."""
        tune = self.get_tuning(name)
        assert tune
        return pd.DataFrame(
            cross_validate_repeatedly(tune, len(self._topics), name),
            self._judged.topics,
            list(STORED_MEASURES),
        )

    def get_tuning(self, name: str) -> TunedSystem | None:
        """Return the function that tunes a system and evaluates it; None if it is not tuned."""
        if name in QUALITY_RERANKINGS:
            return partial(self._tune_quality, QUALITY_RERANKINGS[name])
        if name in LEARNED_FUSIONS:
            return partial(self._tune_fusion, LEARNED_FUSIONS[name])
        stage = SYSTEMS[name].stage
        return partial(self._tune_point, stage) if stage.parameters_type in GRIDS else None

    def _tune_point(self, stage: Stage, is_training: np.ndarray) -> np.ndarray:
        _, values = self._get_points(stage)
        return np.asarray(values[select_point(values, is_training)])

    def _tune_stage(self, stage: Stage, is_training: np.ndarray) -> Stage:
        """Return a stage, or its retriever, with parameters selected on the training topics."""
        if stage == DEBATES:
            return replace(DEBATES, retriever=self._tune_stage(DEBATES.retriever, is_training))
        if stage.parameters_type is not LexicalParameters:
            return stage
        points, values = self._get_points(stage)
        return points[select_point(values, is_training)]

    def _evaluate_points(self, stage: Stage) -> tuple[list[Stage], np.ndarray]:
        """Return the points of a stage as stages, and their values (points, topics, measures)."""
        assert stage.checkpoint
        if stage.parameters_type is LatentParameters:
            stages = [stage.with_parameters(LatentParameters(length)) for length in EXPONENTS]
            rankings = [self._retrieval.rank(point) for point in stages]
            return stages, np.stack([self._evaluate(ranking) for ranking in rankings])
        grid = load_grid(stage.checkpoint)
        stages = [stage.with_parameters(point) for point in grid.points]
        return stages, evaluate_grid(stage.checkpoint, grid, self._judged, self._retrieval)

    def _tune_quality(self, stage: QualityRerankingStage, is_training: np.ndarray) -> np.ndarray:
        values = self._evaluate_quality(
            replace(stage, relevance=self._tune_stage(stage.relevance, is_training))
        )
        webis_values, webis_questions = self._load_webis(stage)
        held_out_questions = get_questions(self._retrieval.topics, self._topics[~is_training])
        is_webis_training = ~np.isin(webis_questions, held_out_questions)
        point = select_quality_point(webis_values[is_webis_training], values[is_training])
        return np.asarray(values[:, point])

    def _evaluate_reranking(self, stage: QualityRerankingStage) -> np.ndarray:
        """Return values (topics, points, measures) of all points, scoring only new pairs."""
        ranking = truncate_rankings(self._retrieval.rank(stage.relevance), DEFAULT_DEPTH)
        pairs = truncate_rankings(ranking, max(DEPTHS))[PAIR_COLUMNS].merge(
            self._quality, how="left", on=PAIR_COLUMNS
        )
        new_pairs = pairs.loc[pairs["quality"].isna(), PAIR_COLUMNS].reset_index(drop=True)
        new_quality = new_pairs.assign(quality=stage.quality.score(self._retrieval, new_pairs))
        known = [self._quality] if len(self._quality) else []
        self._quality = pd.concat([*known, new_quality])
        return evaluate_touche_topics(ranking, self._quality, self._judged.qrels)

    def _tune_fusion(self, stage: LearnedFusionStage, is_training: np.ndarray) -> np.ndarray:
        members = tuple(
            (name, self._tune_stage(member, is_training)) for name, member in stage.members
        )
        tuned_stage = replace(stage, members=members)
        recipe = msgspec.json.encode(self._recipe, order="sorted")
        data_key = (recipe, sorted(self._judged.hashes.items()))
        member_keys = [self._retrieval.compute_key(member) for _, member in members]
        versions = describe_versions(__name__, type(stage))
        key = repr((data_key, versions, member_keys))
        store = self._retrieval.session.cache.parts("nested-fusion", key)
        part = np.packbits(is_training).tobytes().hex()
        return store.get_or_build_array(part, lambda: self._fit_fusion(tuned_stage, is_training))

    def _fit_fusion(self, stage: LearnedFusionStage, is_training: np.ndarray) -> np.ndarray:
        """Select the number of unjudged documents on training topics, and fit and evaluate."""
        features = self._load_features(stage)
        qrels = self._judged.qrels[~self._judged.qrels["qid"].isin(self._topics[~is_training])]
        folds = dict(
            zip(self._topics[is_training], assign_folds(is_training.sum()).tolist(), strict=True)
        )
        learner = partial(fit_ridge, alpha=self._recipe.fit.alpha)
        settings = [
            msgspec.structs.replace(self._recipe.fit, unjudged_per_topic=count)
            for count in UNJUDGED_PER_TOPIC
        ]
        pools = [LabelledPool(features, [qrels], fit_settings) for fit_settings in settings]
        rankings = [self._rank(pool.score_held_out_topics(learner, folds)) for pool in pools]
        values = np.stack(
            [evaluate_run(ranking, qrels, STORED_MEASURES).to_numpy() for ranking in rankings]
        )
        pool = pools[find_best_point(values[..., SELECTION_COLUMNS])]
        return self._evaluate(self._rank(pool.score(learner(pool.build_training_set()))))

    def _compute_features(self, stage: LearnedFusionStage) -> pd.DataFrame:
        """Return the features `qid docno MEMBER…` of the pool of all members."""
        pool_depths = self._recipe.get_pool_depths(self._recipe.members)
        pairs = stage.build_pool(self._retrieval, pool_depths)
        cap = self._recipe.max_log_length
        return compute_features(stage, self._retrieval, pool_depths, cap, pairs)

    def _rank(self, scores: pd.DataFrame) -> pd.DataFrame:
        return truncate_rankings(rank_by_score(scores, self._retrieval.topics), DEFAULT_DEPTH)

    def _evaluate(self, ranking: pd.DataFrame) -> np.ndarray:
        ranking = truncate_rankings(ranking, DEFAULT_DEPTH)
        return evaluate_run(ranking, self._judged.qrels, STORED_MEASURES).to_numpy()
