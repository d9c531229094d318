"""The features of all pools, and the runs that come of fitting to them: on topics that were not fitted to."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from functools import partial
from hashlib import sha256

import msgspec
import pandas as pd

from submission import lists
from submission.disk.code import code_fingerprint
from submission.fusion.linear import Linear
from submission.progress import progress
from submission.systems.catalogue import MEMBERS, SYSTEMS
from submission.systems.execution import Execution
from submission.systems.weigh import PAIR, Weigh
from training.fusing.fitting import Fitting, Model
from training.fusing.lambdamart import lambdamart
from training.fusing.ranknet import ranknet
from training.fusing.recipe import RIDGE, LambdaMART, Recipe
from training.fusing.ridge import Weights, ridge
from training.measuring.evaluate import evaluate, judged_topics
from training.measuring.folds import folds

log = logging.getLogger(__name__)

REPETITIONS = 10  # of the cross-validation, by other folds and other unjudged documents
JUDGED_ALONE = "fitted to judged documents alone"


class Trial:
    """The features of all pools, and what comes of fitting to them, on topics that were not fitted to."""

    def __init__(self, name: str, recipe: Recipe, judged: Mapping[str, pd.DataFrame], execution: Execution) -> None:
        """Compute the features, unless they are kept."""
        self.name, self.recipe, self.judged, self.execution = name, recipe, judged, execution
        self.stage = Weigh(tuple((member, MEMBERS[member]) for member in sorted({*recipe.members, *recipe.tried})), name)
        self.made_with = self.stage.made_with(execution.checkpoints)
        first = next(iter(judged.values()))
        self.topics = judged_topics(first).tolist()
        self.folds = self._folds(seed=0)
        self.table = self._features(self._unfitted([*recipe.features, *recipe.tried]))

    @property
    def ridge(self) -> partial[Weights]:
        """The model of the checkpoint."""
        return partial(ridge, alpha=self.recipe.fit.alpha)

    def fitting(self, features: Collection[str], recipe: Recipe | None = None) -> Fitting:
        """By some of the features, whose members have a pool of their own."""
        pool = self.stage.pool(self.execution, self._unfitted(features))
        table = pool.merge(self.table[[*PAIR, *features]], on=PAIR)
        return Fitting(table, list(self.judged.values()), (recipe or self.recipe).fit)

    def cross_validated(
        self, features: Collection[str] | None = None, recipe: Recipe | None = None, model: Model | None = None
    ) -> pd.DataFrame:
        """Scores `qid docno score`, each topic's by a model fitted without its fold: the ridge regression, or the one given."""
        return self.fitting(features or self.recipe.features, recipe).cross_validated(model or self.ridge, self.folds)

    def runs(self) -> dict[str, pd.DataFrame]:
        """The runs that are compared: the fusion, the same without unjudged documents in the fit, and the baselines."""
        alone = msgspec.structs.replace(self.recipe, fit=msgspec.structs.replace(self.recipe.fit, unjudged=0))
        own = {self.name: self.run(self.cross_validated()), JUDGED_ALONE: self.run(self.cross_validated(recipe=alone))}
        baselines = {name: self.execution.lists(SYSTEMS[name].stage) for name in self.recipe.baselines}
        return own | {name: lists.cut(found, lists.DEPTH) for name, found in baselines.items()}

    def ablated(self) -> dict[str, pd.DataFrame]:
        """The measures by topic without each feature, by its name; not of one without which no member proposes documents."""
        features = progress(list(self._without().items()), "ablation", "features")
        return {feature: self.measured(self.cross_validated(others)) for feature, others in features}

    def repeated(self) -> dict[str, pd.DataFrame]:
        """Repeat the ablation, and the fusion itself, over other folds and unjudged documents; means over repetitions."""
        variants = {self.name: self.recipe.features} | self._without()
        measured: dict[str, list[pd.DataFrame]] = {name: [] for name in variants}
        for seed in progress(range(1, REPETITIONS + 1), "repeated", "cross-validations"):
            fit = msgspec.structs.replace(self.recipe.fit, seed=self.recipe.fit.seed + seed)
            drawn = msgspec.structs.replace(self.recipe, fit=fit)
            for name, features in variants.items():
                scores = self.fitting(features, drawn).cross_validated(self.ridge, self._folds(seed))
                measured[name].append(self.measured(scores))
        return {name: pd.concat(tables).groupby(level=0).mean() for name, tables in measured.items()}

    def added(self) -> dict[str, pd.DataFrame]:
        """The measures by topic with each member that is tried, by its name."""
        tried = progress(self.recipe.tried, "tried", "members")
        return {member: self.measured(self.cross_validated([*self.recipe.features, member])) for member in tried}

    def compared(self) -> dict[str, pd.DataFrame]:
        """The measures by topic of all models, by their names, the ridge regression's first."""
        seed, models = self.recipe.fit.seed, dict[str, Model]({RIDGE: self.ridge})
        for name, settings in self.recipe.compared.items():
            if isinstance(settings, LambdaMART):
                models[name] = partial(lambdamart, settings=settings, seed=seed)
            else:
                models[name] = partial(ranknet, settings=settings, seed=seed)
        names = progress(list(models), "models", "models")
        return {name: self.measured(self.cross_validated(model=models[name])) for name in names}

    def run(self, scores: pd.DataFrame) -> pd.DataFrame:
        """The lists of scores `qid docno score`, as deep as a run."""
        return lists.cut(lists.ranked(scores, self.execution.topics), lists.DEPTH)

    def measured(self, scores: pd.DataFrame) -> pd.DataFrame:
        """The measures by topic of scores `qid docno score`, by the first judgments."""
        return evaluate(self.run(scores), next(iter(self.judged.values())))

    def values(self, runs: Mapping[str, pd.DataFrame]) -> dict[str, dict[str, pd.DataFrame]]:
        """The measures by topic of runs, by all judgments."""
        return {label: {run: evaluate(found, qrels) for run, found in runs.items()} for label, qrels in self.judged.items()}

    def _without(self) -> dict[str, list[str]]:
        """By each feature's name the others, where a member among them proposes documents."""
        features, members = self.recipe.features, self.recipe.members
        without = {feature: [name for name in features if name != feature] for feature in features}
        return {feature: others for feature, others in without.items() if any(members.get(name) for name in others)}

    def _folds(self, seed: int) -> dict[str, int]:
        return dict(zip(self.topics, folds(len(self.topics), seed).tolist(), strict=True))

    def _unfitted(self, features: Collection[str]) -> Linear:
        return self.recipe.model(self.made_with, dict.fromkeys(features, 0.0), 0.0)

    def _features(self, model: Linear) -> pd.DataFrame:
        """`qid docno` and a column a feature; members that take long keep parts of their own while they compute."""
        pairs = self.stage.pool(self.execution, model)
        key = [model.fingerprint, code_fingerprint(__name__), *map(self.execution.key, self.stage.made_of())]
        kept = self.execution.work.place(f"features-{self.name}", sha256("\n".join(key).encode()).hexdigest())
        names = list(model.weights)
        made = kept.array("features.npy", lambda: self.stage.features(self.execution, model, pairs)[names].to_numpy(float))
        log.info("%d pairs in the pools of %d topics, %d features", len(pairs), pairs["qid"].nunique(), len(names))
        return pairs.assign(**dict(zip(names, made.T, strict=True)))
