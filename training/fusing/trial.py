"""The features of all pools, and the runs that come of fitting to them: on topics that were not fitted to."""

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

from submission import lists
from submission.disk.code import code_fingerprint
from submission.fusion.linear import Linear
from submission.systems.catalogue import MEMBERS, SYSTEMS
from submission.systems.execution import Execution
from submission.systems.learned_fusion import PAIR, LearnedFusion
from training.experiment import Experiment, run
from training.fusing.fitting import Fitting, Model
from training.fusing.lambdamart import lambdamart
from training.fusing.ranknet import ranknet
from training.fusing.recipe import RIDGE, Fit, LambdaMART, Recipe
from training.fusing.ridge import Weights, ridge
from training.measuring.evaluate import HEADLINES, evaluate, judged_topics
from training.measuring.folds import folds

log = logging.getLogger(__name__)

REPETITIONS = 10  # of the cross-validation, by other folds and other unjudged documents
JUDGED_ALONE = "fitted to judged documents alone"


class Variant(NamedTuple):
    """A fusion of some features, by a model, cross-validated once."""

    features: tuple[str, ...]
    draw: int = 0  # of folds and unjudged documents; 0: the fusion's own
    model: str = RIDGE


class Trial:
    """The features of all pools, and what comes of fitting to them, on topics that were not fitted to."""

    def __init__(self, name: str, recipe: Recipe, judged: Mapping[str, pd.DataFrame], execution: Execution) -> None:
        """Compute the features, unless they are kept."""
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
        self.key = features, msgspec.json.encode(recipe, order="sorted"), hashes  # all that decides a variant's measures

    @property
    def ridge(self) -> partial[Weights]:
        """The model of the checkpoint."""
        return partial(ridge, alpha=self.recipe.fit.alpha)

    def fitting(self, features: Collection[str], fit: Fit) -> Fitting:
        """By some of the features, whose members have a pool of their own."""
        pool = self.stage.pool(self.execution, self._unfitted(features))
        table = pool.merge(self.table[[*PAIR, *features]], on=PAIR)
        return Fitting(table, list(self.judged.values()), fit)

    def cross_validated(self, variant: Variant, unjudged: int | None = None) -> pd.DataFrame:
        """Score `qid docno score`, each topic's documents by a model fitted without its fold.

        Args:
            variant: of the fusion.
            unjudged: documents of a topic that are fitted to as 0; None: as many as the recipe says.
        """
        own = self.recipe.fit
        number = own.unjudged if unjudged is None else unjudged
        fit = msgspec.structs.replace(own, seed=own.seed + variant.draw, unjudged=number)
        return self.fitting(variant.features, fit).cross_validated(self._model(variant.model), self._folds(variant.draw))

    def runs(self) -> dict[str, pd.DataFrame]:
        """The runs that are compared: the fusion, the same without unjudged documents in the fit, and the baselines."""
        own = {
            self.name: self.ranked(self.cross_validated(self.own)),
            JUDGED_ALONE: self.ranked(self.cross_validated(self.own, unjudged=0)),
        }
        baselines = {name: self.execution.lists(SYSTEMS[name].stage) for name in self.recipe.baselines}
        return own | {name: lists.cut(found, lists.DEPTH) for name, found in baselines.items()}

    def variants(self) -> dict[str, dict[str, pd.DataFrame]]:
        """Measure the fusion's variants by topic, HEADLINES alone, and keep what is finished.

        Returns:
            By table and by the name in it: `ablation`, the fusion and without each feature, but for one without which no member
            proposes documents; `repeated`, the same as means over REPETITIONS other folds and samples of unjudged documents;
            `tried`, the fusion and with each member that is tried; `models`, all models, the ridge regression first.
        """
        features, draws = self.recipe.features, range(1, REPETITIONS + 1)
        without = {feature: self._with(name for name in features if name != feature) for feature in features}
        ablated = {self.name: self.own} | {name: one for name, one in without.items() if self._proposes(one.features)}
        tables = {
            "ablation": {name: [one] for name, one in ablated.items()},
            "repeated": {name: [one._replace(draw=draw) for draw in draws] for name, one in ablated.items()},
            "tried": {self.name: [self.own], **{name: [self._with([*features, name])] for name in self.recipe.tried}},
            "models": {name: [self.own._replace(model=name)] for name in (RIDGE, *self.recipe.compared)},
        }
        variants = list(dict.fromkeys(one for table in tables.values() for some in table.values() for one in some))
        found = run(Variants(self), variants, self.execution.work.directory)
        frames = {one: pd.DataFrame(values, self.topics, list(HEADLINES)) for one, values in found.items()}
        return {
            table: {name: pd.concat([frames[one] for one in some]).groupby(level=0).mean() for name, some in rows.items()}
            for table, rows in tables.items()
        }

    def ranked(self, scores: pd.DataFrame) -> pd.DataFrame:
        """The lists of scores `qid docno score`, as deep as a run."""
        return lists.cut(lists.ranked(scores, self.execution.topics), lists.DEPTH)

    def measured(self, scores: pd.DataFrame) -> pd.DataFrame:
        """The measures by topic of scores `qid docno score`, by the first judgments."""
        return evaluate(self.ranked(scores), next(iter(self.judged.values())))

    def values(self, runs: Mapping[str, pd.DataFrame]) -> dict[str, dict[str, pd.DataFrame]]:
        """The measures by topic of runs, by all judgments."""
        return {label: {run: evaluate(found, qrels) for run, found in runs.items()} for label, qrels in self.judged.items()}

    @property
    def own(self) -> Variant:
        """The fusion itself."""
        return self._with(self.recipe.features)

    def _with(self, features: Iterable[str]) -> Variant:
        return Variant(tuple(features))

    def _proposes(self, features: Collection[str]) -> bool:
        """Tell whether a member among some features proposes documents."""
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
        """Compute `qid docno` and a column a feature, and what decides them; members that take long keep their own parts."""
        pairs = self.stage.pool(self.execution, model)
        decided_by = [model.fingerprint, code_fingerprint(__name__), *map(self.execution.key, self.stage.made_of())]
        key = sha256("\n".join(decided_by).encode()).hexdigest()
        kept = self.execution.work.place(f"features-{self.name}", key)
        names = list(model.weights)
        made = kept.array("features.npy", lambda: self.stage.features(self.execution, model, pairs)[names].to_numpy(float))
        log.info("%d pairs in the pools of %d topics, %d features", len(pairs), pairs["qid"].nunique(), len(names))
        return key, pairs.assign(**dict(zip(names, made.T, strict=True)))


@dataclass(frozen=True)
class Variants(Experiment[Variant, np.ndarray]):
    """The variants of a fusion as an experiment: a result is the measures (topics, HEADLINES), by the first judgments."""

    unit, result = "variants", np.ndarray
    trial: Trial

    @property
    def name(self) -> str:
        """The name of the fusion's results."""
        return f"fusion-{self.trial.name}"

    def key(self, variant: Variant) -> object:
        """Return all that decides the measures of a variant."""
        return self.trial.key, variant

    def compute(self, variant: Variant) -> np.ndarray:
        """Fit a variant without each fold and measure what it ranks."""
        return self.trial.measured(self.trial.cross_validated(variant))[list(HEADLINES)].to_numpy()
