"""Evaluate a learned fusion and its variants by cross-validation."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import NamedTuple

import msgspec
import numpy as np
import pandas as pd

from submission.fusion.linear import Linear
from submission.rankings import DEPTH, cut, ranked
from submission.storage.code_fingerprint import code_fingerprint
from submission.systems.catalogue import MEMBERS, SYSTEMS
from submission.systems.execution import Execution
from submission.systems.learned_fusion import PAIR, LearnedFusion
from training.evaluation.evaluate import HEADLINES, evaluate, judged_topics
from training.evaluation.folds import folds
from training.experiment import Experiment, run
from training.fusion.labels import Fitting, Model
from training.fusion.learners import Weights, lambdamart, ranknet, ridge
from training.fusion.recipe import RIDGE, Fit, LambdaMART, Recipe

log = logging.getLogger(__name__)

REPETITIONS = 10  # repeated cross-validation with new folds and unjudged samples
JUDGED_ALONE = "fitted to judged documents alone"


class Variant(NamedTuple):
    """A feature subset and learner, cross-validated once."""

    features: tuple[str, ...]
    draw: int = 0  # seed offset of folds and unjudged samples; 0: the fusion's own
    model: str = RIDGE


class Trial:
    """Features of the pools and cross-validated results of fusions fitted to them."""

    def __init__(self, name: str, recipe: Recipe, judged: Mapping[str, pd.DataFrame], execution: Execution) -> None:
        """Load or compute the features."""
        self.name, self.recipe, self.judged, self.execution = name, recipe, judged, execution
        self.stage = LearnedFusion(
            tuple((member, MEMBERS[member]) for member in sorted({*recipe.members, *recipe.tried})), name
        )
        self.made_with = self.stage.made_with(execution.checkpoints)
        first = next(iter(judged.values()))
        self.topics = judged_topics(first).tolist()
        self.folds = self._folds(seed=0)
        features, self.table = self._features(self._unfitted([*recipe.features, *recipe.tried]))

        hashes = [sha256(frame.to_csv(index=False).encode()).hexdigest() for frame in judged.values()]
        self.key = features, msgspec.json.encode(recipe, order="sorted"), hashes  # inputs of a variant's results

    @property
    def ridge(self) -> partial[Weights]:
        """Learner of the checkpoint's model."""
        return partial(ridge, alpha=self.recipe.fit.alpha)

    def fitting(self, features: Collection[str], fit: Fit) -> Fitting:
        """Label the pool of a feature subset's members."""
        pool = self.stage.pool(self.execution, self._unfitted(features))
        table = pool.merge(self.table[[*PAIR, *features]], on=PAIR)
        return Fitting(table, list(self.judged.values()), fit)

    def cross_validated(self, variant: Variant, unjudged: int | None = None) -> pd.DataFrame:
        """Return cross-validated scores `qid docno score` of a variant.

        Args:
            variant: Variant of the fusion.
            unjudged: Unjudged documents per topic labelled 0; None: the recipe's setting.
        """
        settings = self.recipe.fit
        unjudged = settings.unjudged if unjudged is None else unjudged
        fit = msgspec.structs.replace(settings, seed=settings.seed + variant.draw, unjudged=unjudged)
        return self.fitting(variant.features, fit).cross_validated(self._model(variant.model), self._folds(variant.draw))

    def runs(self) -> dict[str, pd.DataFrame]:
        """Return the compared runs: the fusion, the fusion fitted to judged documents only, and the baselines."""
        fusions = {
            self.name: self.ranked(self.cross_validated(self.own)),
            JUDGED_ALONE: self.ranked(self.cross_validated(self.own, unjudged=0)),
        }
        baselines = {name: self.execution.lists(SYSTEMS[name].stage) for name in self.recipe.baselines}
        return fusions | {name: cut(ranking, DEPTH) for name, ranking in baselines.items()}

    def variants(self) -> dict[str, dict[str, pd.DataFrame]]:
        """Evaluate all variants per topic (HEADLINES only); results are cached.

        Returns:
            By table and row: `ablation` (the fusion, and without each feature unless no candidate source remains); `repeated`
            (the same, mean over REPETITIONS); `tried` (the fusion, and with each candidate member); `models` (all learners,
            ridge first).
        """
        features, draws = self.recipe.features, range(1, REPETITIONS + 1)
        leave_one_out = {feature: self._with(name for name in features if name != feature) for feature in features}
        ablations = {self.name: self.own}
        ablations |= {name: variant for name, variant in leave_one_out.items() if self._proposes(variant.features)}
        tables = {
            "ablation": {name: [variant] for name, variant in ablations.items()},
            "repeated": {name: [variant._replace(draw=draw) for draw in draws] for name, variant in ablations.items()},
            "tried": {self.name: [self.own], **{name: [self._with([*features, name])] for name in self.recipe.tried}},
            "models": {name: [self.own._replace(model=name)] for name in (RIDGE, *self.recipe.compared)},
        }
        variants = dict.fromkeys(variant for rows in tables.values() for group in rows.values() for variant in group)
        results = run(Variants(self), list(variants), self.execution.work.directory)
        frames = {variant: pd.DataFrame(values, self.topics, list(HEADLINES)) for variant, values in results.items()}
        return {
            table: {name: pd.concat([frames[item] for item in group]).groupby(level=0).mean() for name, group in rows.items()}
            for table, rows in tables.items()
        }

    def ranked(self, scores: pd.DataFrame) -> pd.DataFrame:
        """Convert scores `qid docno score` to a ranking cut at run depth."""
        return cut(ranked(scores, self.execution.topics), DEPTH)

    def measured(self, scores: pd.DataFrame) -> pd.DataFrame:
        """Evaluate scores `qid docno score` per topic with the first qrels."""
        return evaluate(self.ranked(scores), next(iter(self.judged.values())))

    def values(self, runs: Mapping[str, pd.DataFrame]) -> dict[str, dict[str, pd.DataFrame]]:
        """Evaluate runs per topic with all qrels."""
        return {
            label: {name: evaluate(ranking, qrels) for name, ranking in runs.items()} for label, qrels in self.judged.items()
        }

    @property
    def own(self) -> Variant:
        """The fusion with all its features."""
        return self._with(self.recipe.features)

    def _with(self, features: Iterable[str]) -> Variant:
        return Variant(tuple(features))

    def _proposes(self, features: Collection[str]) -> bool:
        """Return whether any of the features contributes candidates."""
        return any(self.recipe.members.get(name) for name in features)

    def _model(self, name: str) -> Model:
        settings, seed = self.recipe.compared.get(name), self.recipe.fit.seed
        if settings is None:
            return self.ridge
        if isinstance(settings, LambdaMART):
            return partial(lambdamart, settings=settings, seed=seed)
        return partial(ranknet, settings=settings, seed=seed)

    def _folds(self, seed: int) -> dict[str, int]:
        return dict(zip(self.topics, folds(len(self.topics), seed).tolist(), strict=True))

    def _unfitted(self, features: Collection[str]) -> Linear:
        return self.recipe.model(self.made_with, dict.fromkeys(features, 0.0), 0.0)

    def _features(self, model: Linear) -> tuple[str, pd.DataFrame]:
        """Load or compute the feature table `qid docno FEATURE...`; return its cache key and the table."""
        pairs = self.stage.pool(self.execution, model)
        key_parts = [model.fingerprint, code_fingerprint(__name__), *map(self.execution.key, self.stage.made_of())]
        key = sha256("\n".join(key_parts).encode()).hexdigest()
        cache = self.execution.work.place(f"features-{self.name}", key)
        names = list(model.weights)
        values = cache.array("features.npy", lambda: self.stage.features(self.execution, model, pairs)[names].to_numpy(float))
        log.info("Pooled %d pairs of %d topics, %d features", len(pairs), pairs["qid"].nunique(), len(names))
        return key, pairs.assign(**dict(zip(names, values.T, strict=True)))


@dataclass(frozen=True)
class Variants(Experiment[Variant, np.ndarray]):
    """Experiment over variants; a result has shape (topics, HEADLINES), by the first qrels."""

    unit, result = "variants", np.ndarray
    trial: Trial

    @property
    def name(self) -> str:
        """Name of the cache directory."""
        return f"fusion-{self.trial.name}"

    def key(self, variant: Variant) -> object:
        """Return the cache key of a variant."""
        return self.trial.key, variant

    def compute(self, variant: Variant) -> np.ndarray:
        """Cross-validate and evaluate a variant."""
        return self.trial.measured(self.trial.cross_validated(variant))[list(HEADLINES)].to_numpy()
