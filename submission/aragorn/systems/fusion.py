"""Stages that fuse several rankings by a weighted sum of the members' normalised scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from aragorn.errors import CheckpointError, InputError, InsufficientMemoryError, OutputError
from aragorn.explanation import Explanation, Row
from aragorn.io.document_store import DocumentStore
from aragorn.pipeline.retrieval import Retrieval, Stage
from aragorn.pipeline.session import CheckpointStore
from aragorn.rankings import sort_by_topic, truncate_rankings
from aragorn.systems.weighted_sum import (
    LENGTH_FEATURE,
    PAIR_COLUMNS,
    WeightedSum,
    compute_log_lengths,
    merge_scores,
)

if TYPE_CHECKING:
    import pandas as pd

MemberFingerprints = Mapping[str, Mapping[str, str]]  # member name → checkpoint name → fingerprint


@dataclass(frozen=True)
class FusionStage(Stage):
    """A weighted sum of the members' normalised scores; the member names must match the model's.

    The documents of a topic's pool are ranked: the members' top documents, or the input run.
    """

    version = 1
    computes_with = ("aragorn.systems.weighted_sum",)
    fuse_options: ClassVar[str]  # required options of `aragorn-training fuse`
    members: tuple[tuple[str, Stage], ...]
    checkpoint: str

    def get_dependencies(self) -> tuple[Stage, ...]:
        return tuple(stage for _, stage in self.members)

    def load_checkpoint(self, checkpoints: CheckpointStore) -> WeightedSum:
        """Load the fitted model; raise CheckpointError if it is of other members."""
        model = checkpoints.load_config(self.checkpoint, WeightedSum)
        mismatch = describe_mismatch(
            model.member_fingerprints, self.get_member_fingerprints(checkpoints)
        )
        if mismatch:
            directory = checkpoints.directory / self.checkpoint
            command = f"aragorn-training fuse {self.checkpoint} {self.fuse_options} -o {directory}"
            raise CheckpointError(f"{directory}: {mismatch}; run `{command}`")
        return model

    def search(self, retrieval: Retrieval) -> pd.DataFrame:
        return self.rank_pairs(retrieval, self._get_pool_features(retrieval)[PAIR_COLUMNS])

    def score(self, retrieval: Retrieval, pairs: pd.DataFrame) -> np.ndarray:
        """Score pairs; those outside the pool are normalised as those in it."""
        model = self.load_checkpoint(retrieval.session.checkpoints)
        features = self._get_pair_features(retrieval, pairs)
        return model.score(model.normalise(features, self._get_pool_features(retrieval)))

    def explain(self, retrieval: Retrieval, qid: str, docno: str) -> Explanation:
        import pandas as pd

        model = self.load_checkpoint(retrieval.session.checkpoints)
        pool = self._get_pool_features(retrieval)
        raw = self._get_pair_features(retrieval, pd.DataFrame({"qid": [qid], "docno": [docno]}))
        features = model.normalise(raw, pool)
        rows = [Row(model.intercept, "intercept")]
        for name, [contribution] in model.compute_contributions(features).items():
            note = _describe_feature(model, name, raw[name].item(), features[name].item())
            rows.append(Row(float(contribution), name, note))
        if model.normaliser == "min_max":
            is_retrieved = bool(raw[list(model.weights)].notna().to_numpy().any())
        else:
            is_retrieved = docno in set(pool.loc[pool["qid"] == qid, "docno"])
        summary = _describe_sum(model, is_retrieved)
        return Explanation(model.score(features).item(), rows, summary)

    def format_formula(self, checkpoints: CheckpointStore) -> str:
        return f"score = {checkpoints.load_config(self.checkpoint, WeightedSum).format_formula()}"

    def get_member_fingerprints(self, checkpoints: CheckpointStore) -> dict[str, dict[str, str]]:
        """Return each member's fingerprints; raise CheckpointError if one is missing."""
        fingerprints: dict[str, dict[str, str]] = {}
        for name, stage in self.members:
            with attribute_errors(name):
                fingerprints[name] = stage.get_fingerprints(checkpoints)
        return fingerprints

    def get_metadata(self, get_name: Callable[[Stage], str]) -> dict[str, Any]:
        return {"interpolates": [get_name(stage) for _, stage in self.members]}

    def build_pool(self, retrieval: Retrieval, pool_depths: Mapping[str, int]) -> pd.DataFrame:
        """Return the pairs `qid docno` of all topics: input run, or the members' top documents."""
        import pandas as pd

        if retrieval.input_run is not None:
            return retrieval.input_run[PAIR_COLUMNS]
        rankings = self._get_top_rankings(retrieval, pool_depths).values()
        candidates = pd.concat([ranking[PAIR_COLUMNS] for ranking in rankings])
        return sort_by_topic(
            candidates.drop_duplicates(), retrieval.topics, ["docno"], ascending=[True]
        )

    def score_members(
        self, retrieval: Retrieval, pool_depths: Mapping[str, int], pairs: pd.DataFrame
    ) -> pd.DataFrame:
        """Return pairs `qid docno` with a column of scores per member in `pool_depths`."""
        stages = dict(self.members)
        columns = {}
        for name, pool_depth in pool_depths.items():
            with attribute_errors(name):
                columns[name] = _get_member_scores(retrieval, stages[name], pool_depth > 0, pairs)
        return pairs[PAIR_COLUMNS].assign(**columns)

    def _compute_features(self, retrieval: Retrieval, pairs: pd.DataFrame) -> pd.DataFrame:
        """Return pairs with the model's raw features; with min_max, NaN outside a top."""
        model = self.load_checkpoint(retrieval.session.checkpoints)
        if model.normaliser == "min_max":
            return merge_scores(
                pairs[PAIR_COLUMNS], self._get_top_rankings(retrieval, model.pool_depths)
            )
        features = self.score_members(retrieval, model.pool_depths, pairs)
        if model.length is None:
            return features
        return add_log_lengths(retrieval.collection.documents, features, model.length.cap)

    def _get_top_rankings(
        self, retrieval: Retrieval, pool_depths: Mapping[str, int]
    ) -> dict[str, pd.DataFrame]:
        stages = dict(self.members)
        rankings = {}
        for name, pool_depth in pool_depths.items():
            if pool_depth:
                with attribute_errors(name):
                    ranking = retrieval.rank(stages[name])
                rankings[name] = truncate_rankings(ranking, pool_depth)
        return rankings

    def _get_pool_features(self, retrieval: Retrieval) -> pd.DataFrame:
        pool_depths = self.load_checkpoint(retrieval.session.checkpoints).pool_depths
        return retrieval.memo.once(
            self,
            "pool",
            lambda: self._compute_features(retrieval, self.build_pool(retrieval, pool_depths)),
        )

    def _get_pair_features(self, retrieval: Retrieval, pairs: pd.DataFrame) -> pd.DataFrame:
        """Return pairs with their raw features; those of the pool are known."""
        features = pairs[PAIR_COLUMNS].merge(
            self._get_pool_features(retrieval), on=PAIR_COLUMNS, how="left", indicator=True
        )
        is_unpooled = features.pop("_merge") == "left_only"
        if is_unpooled.any():
            unpooled_pairs = features.loc[is_unpooled, PAIR_COLUMNS].reset_index(drop=True)
            unpooled_features = self._compute_features(retrieval, unpooled_pairs)
            features.loc[is_unpooled] = unpooled_features.set_index(features.index[is_unpooled])
        return features


class EnsembleStage(FusionStage):
    """A fusion that is fitted to validation pairs of networks (Entezari 2020, section 3.6)."""

    version = 1
    family = "regression ensemble"
    fuse_options = "--work-dir WORK_DIR"


class LearnedFusionStage(FusionStage):
    """A fusion that is fitted to judgments."""

    version = 1
    family = "learned fusion"
    fuse_options = "-i INPUT --qrels QRELS --work-dir WORK_DIR"


def describe_mismatch(fitted: MemberFingerprints, current: MemberFingerprints) -> str:
    """Describe how members or checkpoints differ from those of the fitted model, or ""."""
    if fitted.keys() != current.keys():
        return (
            f"fitted with the members {', '.join(sorted(fitted))}, but the system has "
            f"{', '.join(sorted(current))}"
        )
    changed_members = [name for name, checkpoints in fitted.items() if current[name] != checkpoints]
    return (
        f"fitted with other checkpoints of {', '.join(changed_members)}" if changed_members else ""
    )


@contextmanager
def attribute_errors(member: str) -> Iterator[None]:
    """Add the member's name to a CheckpointError, or an internal error, of the block."""
    try:
        yield
    except (InputError, InsufficientMemoryError, OutputError):
        raise  # not specific to this member
    except CheckpointError as error:
        raise CheckpointError(f"member {member} failed: {error}") from None
    except Exception as error:  # an internal error
        raise RuntimeError(f"member {member} failed: {error}") from error


def add_log_lengths(documents: DocumentStore, pairs: pd.DataFrame, cap: float) -> pd.DataFrame:
    """Add the column `length` to pairs: log of the premise's word count, at most `cap`."""
    texts = documents.read_texts(set(pairs["docno"])).set_index("docno")
    lengths = compute_log_lengths(texts.loc[pairs["docno"], "premise"], cap)
    return pairs.assign(**{LENGTH_FEATURE: lengths})


def _get_member_scores(
    retrieval: Retrieval, stage: Stage, adds_candidates: bool, pairs: pd.DataFrame
) -> np.ndarray:
    """Compute a member's scores (N,) of N pairs; reuse those in its ranking."""
    scores = np.full(len(pairs), np.nan)
    if adds_candidates and retrieval.input_run is None:
        ranking = retrieval.rank(stage)[[*PAIR_COLUMNS, "score"]]
        scores = (
            pairs[PAIR_COLUMNS]
            .merge(ranking, on=PAIR_COLUMNS, how="left")["score"]
            .to_numpy(float, copy=True)
        )
    is_missing = np.isnan(scores)
    if is_missing.any():
        scores[is_missing] = stage.score(
            retrieval, pairs.loc[is_missing, PAIR_COLUMNS].reset_index(drop=True)
        )
    return scores


def _describe_feature(model: WeightedSum, name: str, raw: float, value: float) -> str:
    weight = f"weight {model.weights[name]:.4f}"
    if model.normaliser == "z_score":
        return f"raw score {raw:.4f}, z-score {value:+.3f} over the pool, {weight}"
    if np.isnan(raw):
        return f"not in the member's top {model.pool_depths[name]}"
    return f"score {raw:.4f}, min-max scaled {value:.4f}, {weight}"


def _describe_sum(model: WeightedSum, is_retrieved: bool) -> str:
    if model.normaliser == "z_score":
        summary = f"weighted sum of {model.feature_description}, standardised over the topic's pool"
        absence = "; the document is not in the pool: no member retrieved it"
        return summary if is_retrieved else summary + absence
    if is_retrieved:
        return "weighted sum of the members' min-max scaled scores, plus the intercept"
    return "intercept only: the document is not in any member's top documents"
