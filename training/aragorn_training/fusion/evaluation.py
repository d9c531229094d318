"""Evaluate a learned fusion and its variants by cross-validation."""

import logging
from collections.abc import Collection, Mapping
from functools import partial
from hashlib import sha256
from typing import NamedTuple

import msgspec
import numpy as np
import pandas as pd

from aragorn.rankings import DEFAULT_DEPTH, rank_by_score, truncate_rankings
from aragorn.systems.catalogue import FUSION_CANDIDATES, SYSTEMS
from aragorn.systems.fusion import LearnedFusionStage, add_log_lengths
from aragorn.systems.weighted_sum import LENGTH_FEATURE, PAIR_COLUMNS
from aragorn.versions import describe_versions
from aragorn_training.data.retrieval import DatasetRetrieval
from aragorn_training.evaluation.evaluate import (
    HEADLINE_MEASURES,
    evaluate_run,
    get_evaluated_topics,
)
from aragorn_training.evaluation.folds import assign_folds
from aragorn_training.fusion.learners import (
    LabelledPool,
    Learner,
    LinearModel,
    fit_lambdamart,
    fit_ranknet,
    fit_ridge,
)
from aragorn_training.fusion.recipe import RIDGE, FitSettings, FusionRecipe, LambdaMARTSettings
from aragorn_training.mapping import map_cached

VERSION = 1  # of the features of the same scores
COMPUTES_WITH = (
    "aragorn.systems.weighted_sum",
    "aragorn_training.evaluation.evaluate",
    "aragorn_training.fusion.learners",
)

log = logging.getLogger(__name__)

# number of cross-validations, each with other folds and samples of unjudged documents
N_REPETITIONS = 10
JUDGED_ONLY = "fitted to judged documents only"


class Variant(NamedTuple):
    """A feature subset and a learner, to be cross-validated once."""

    features: tuple[str, ...]
    repetition: int = 0  # added to the seeds of folds and of samples of unjudged documents
    learner: str = RIDGE


class FusionEvaluation:
    """Cross-validated evaluation of a learned fusion and its variants; `__init__` loads or computes
    all features."""

    def __init__(
        self,
        name: str,
        recipe: FusionRecipe,
        qrels: Mapping[str, pd.DataFrame],
        retrieval: DatasetRetrieval,
    ) -> None:
        self.name = name
        self.recipe = recipe
        self.qrels = qrels
        self.retrieval = retrieval
        members = sorted({*recipe.members, *recipe.candidates})
        self.stage = LearnedFusionStage(
            tuple((member, FUSION_CANDIDATES[member]) for member in members), name
        )
        self.fingerprints = self.stage.get_member_fingerprints(retrieval.session.checkpoints)
        self.topics = get_evaluated_topics(next(iter(qrels.values()))).tolist()
        self.folds = self._assign_folds(seed=0)
        features_key, self.table = self._load_or_compute_features()

        hashes = [
            sha256(frame.to_csv(index=False).encode()).hexdigest() for frame in qrels.values()
        ]
        # everything that results depend on, except the variant
        self.cache_key = (features_key, msgspec.json.encode(recipe, order="sorted"), hashes)

    @property
    def ridge_learner(self) -> partial[LinearModel]:
        """Ridge regression with the recipe's penalty, the learner of the checkpoint's model."""
        return partial(fit_ridge, alpha=self.recipe.fit.alpha)

    def label_pool(self, features: Collection[str], fit_settings: FitSettings) -> LabelledPool:
        """Label the documents pooled by the members among `features` as in `fit_settings`."""
        pool = self.stage.build_pool(self.retrieval, self.recipe.get_pool_depths(features))
        table = pool.merge(self.table[[*PAIR_COLUMNS, *features]], on=PAIR_COLUMNS)
        return LabelledPool(table, list(self.qrels.values()), fit_settings)

    def score_held_out_topics(self, variant: Variant, **changes: int) -> pd.DataFrame:
        """Return a variant's cross-validated scores `qid docno score`; `changes` replace settings
        of the fit."""
        seed = self.recipe.fit.seed + variant.repetition
        pool = self.label_pool(
            variant.features, msgspec.structs.replace(self.recipe.fit, seed=seed, **changes)
        )
        return pool.score_held_out_topics(
            self._get_learner(variant.learner), self._assign_folds(variant.repetition)
        )

    def rank_for_comparison(self) -> dict[str, pd.DataFrame]:
        """Rank, by name, with the fusion, by cross-validation, the fusion fitted to judged
        documents only, and each baseline."""
        full = self.full_variant
        rankings = {
            self.name: self.to_ranking(self.score_held_out_topics(full)),
            JUDGED_ONLY: self.to_ranking(self.score_held_out_topics(full, unjudged_per_topic=0)),
        }
        for name in self.recipe.baselines:
            ranking = self.retrieval.rank(SYSTEMS[name].stage)
            rankings[name] = truncate_rankings(ranking, DEFAULT_DEPTH)
        return rankings

    def evaluate_variants(self) -> dict[str, dict[str, pd.DataFrame]]:
        """Evaluate all variants per topic by the headline measures; results are cached.

        Returns:
            Values by table and row. `ablation`: the fusion, and the fusion without each feature, if
            a remaining member adds documents to the pool; `ablation_repeated`: the same, averaged
            over N_REPETITIONS; `candidates`: the fusion, and the fusion with each candidate member;
            `learners`: the fusion with each learner, ridge regression first.
        """
        full = self.full_variant
        features = self.recipe.feature_names
        ablations = {self.name: full}
        for feature in features:
            subset = tuple(name for name in features if name != feature)
            if any(self.recipe.members.get(name) for name in subset):
                ablations[feature] = Variant(subset)
        rows = [("ablation", *row) for row in ablations.items()]
        rows += [
            ("ablation_repeated", name, variant._replace(repetition=n))
            for name, variant in ablations.items()
            for n in range(1, N_REPETITIONS + 1)
        ]
        rows.append(("candidates", self.name, full))
        rows += [
            ("candidates", name, Variant((*features, name))) for name in self.recipe.candidates
        ]
        learners = (RIDGE, *self.recipe.comparison)
        rows += [("learners", name, full._replace(learner=name)) for name in learners]
        results = map_cached(
            self._evaluate_variant,
            list(dict.fromkeys(variant for *_, variant in rows)),
            self.retrieval.session.cache.path,
            name=f"fusion-{self.name}",
            key=self.cache_key,
            result_type=np.ndarray,
        )
        frames: dict[str, dict[str, list[pd.DataFrame]]] = {}
        for table, name, variant in rows:
            frame = pd.DataFrame(results[variant], self.topics, list(HEADLINE_MEASURES))
            frames.setdefault(table, {}).setdefault(name, []).append(frame)
        return {
            table: {
                name: pd.concat(group).groupby(level=0).mean() for name, group in groups.items()
            }
            for table, groups in frames.items()
        }

    def _evaluate_variant(self, variant: Variant) -> np.ndarray:
        """Return a variant's values (topics, HEADLINE_MEASURES) against the first qrels."""
        return self.evaluate_scores(self.score_held_out_topics(variant)).to_numpy()

    def to_ranking(self, scores: pd.DataFrame) -> pd.DataFrame:
        """Convert scores `qid docno score` to a ranking, at most DEFAULT_DEPTH per topic."""
        return truncate_rankings(rank_by_score(scores, self.retrieval.topics), DEFAULT_DEPTH)

    def evaluate_scores(self, scores: pd.DataFrame) -> pd.DataFrame:
        """Evaluate scores `qid docno score` per topic by HEADLINE_MEASURES and the first qrels."""
        qrels = next(iter(self.qrels.values()))
        return evaluate_run(self.to_ranking(scores), qrels, HEADLINE_MEASURES)

    def evaluate_runs(
        self, rankings: Mapping[str, pd.DataFrame]
    ) -> dict[str, dict[str, pd.DataFrame]]:
        """Evaluate runs per topic against each qrels; return tables by qrels and run."""
        return {
            label: {name: evaluate_run(ranking, qrels) for name, ranking in rankings.items()}
            for label, qrels in self.qrels.items()
        }

    @property
    def full_variant(self) -> Variant:
        """The fusion with all its features."""
        return Variant(tuple(self.recipe.feature_names))

    def _get_learner(self, name: str) -> Learner:
        settings = self.recipe.comparison.get(name)
        seed = self.recipe.fit.seed
        if settings is None:
            return self.ridge_learner
        if isinstance(settings, LambdaMARTSettings):
            return partial(fit_lambdamart, settings=settings, seed=seed)
        return partial(fit_ranknet, settings=settings, seed=seed)

    def _assign_folds(self, seed: int) -> dict[str, int]:
        return dict(zip(self.topics, assign_folds(len(self.topics), seed).tolist(), strict=True))

    def _load_or_compute_features(self) -> tuple[str, pd.DataFrame]:
        """Return the cache key and the cached table `qid docno FEATURE…` of all features."""
        pool_depths = self.recipe.get_pool_depths([*self.recipe.members, *self.recipe.candidates])
        cap = self.recipe.max_log_length
        pairs = self.stage.build_pool(self.retrieval, pool_depths)
        names = list(pool_depths) + [LENGTH_FEATURE] * (cap is not None)

        def compute() -> np.ndarray:
            table = compute_features(self.stage, self.retrieval, pool_depths, cap, pairs)
            return table[names].to_numpy(float)

        versions = describe_versions(__name__, type(self.stage))
        member_keys = map(self.retrieval.compute_key, self.stage.get_dependencies())
        parts = "\n".join([repr((pool_depths, cap)), versions, *member_keys])
        key = sha256(parts.encode()).hexdigest()
        cache = self.retrieval.session.cache.parts(f"features-{self.name}", key)
        values = cache.get_or_build_array("features", compute)
        n_topics = pairs["qid"].nunique()
        log.info("Pooled %d pairs of %d topics, %d features", len(pairs), n_topics, len(names))
        return key, pairs.assign(**dict(zip(names, values.T, strict=True)))


def compute_features(
    stage: LearnedFusionStage,
    retrieval: DatasetRetrieval,
    pool_depths: Mapping[str, int],
    max_log_length: float | None,
    pairs: pd.DataFrame,
) -> pd.DataFrame:
    """Return pairs `qid docno` with the members' scores and, if capped, the log length."""
    scores = stage.score_members(retrieval, pool_depths, pairs)
    if max_log_length is None:
        return scores
    return add_log_lengths(retrieval.collection.documents, scores, max_log_length)
