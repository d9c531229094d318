"""Draw the negatives that validation ranks among the premises of a conclusion (Entezari 2020,
sections 3.2.3, 3.3).

The thesis assigns unrelated arguments before it splits the collection, from a sample of 20
arguments per premise. A validation conclusion has 5 premises and needs 100 negatives, so that its
sample is its negatives: 100 random arguments of the collection.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import msgspec
import numpy as np
from rapidfuzz import fuzz, process

from aragorn.errors import InputError
from aragorn_training.data.split import RandomStream, create_generator

SAMPLE_FACTOR = 20  # arguments sampled per negative

Pool = Literal["split", "collection"]
Rule = Literal["random", "least_similar"]


class CandidateSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of the negatives of validation queries, the table [validation] of a recipe."""

    pool: Pool = "collection"  # arguments of the validation split, or of both splits
    rule: Rule = "random"  # least_similar: the least similar conclusions of a larger sample
    log_all: bool = False  # whether the log has the metrics with every pool and rule, too

    @property
    def names(self) -> dict[str, str]:
        """Pool and rule by key."""
        return {"pool": self.pool, "rule": self.rule}

    def describe(self) -> str:
        """Describe the negatives, e.g. "negatives drawn at random from the collection"."""
        is_random = self.rule == "random"
        rule = "drawn at random from" if is_random else "of the least similar conclusions in"
        pool = "the collection" if self.pool == "collection" else "the validation split"
        return f"negatives {rule} {pool}"


ALL_SETTINGS = tuple(
    CandidateSettings(pool, rule) for pool in get_args(Pool) for rule in get_args(Rule)
)
# of checkpoints whose provenance names no candidates
UNRECORDED = CandidateSettings("split", "least_similar")


def read_candidate_settings(values: Mapping[str, Any]) -> CandidateSettings:
    """Read the settings from the provenance of an ensemble, or from a recipe in a provenance."""
    settings = values.get("validation")
    return UNRECORDED if settings is None else msgspec.convert(settings, CandidateSettings)


def draw_negatives(
    conclusions: np.ndarray,
    queries: np.ndarray,
    count: int,
    rule: Rule,
    seed: int,
    sample_factor: int = SAMPLE_FACTOR,
) -> np.ndarray:
    """Draw negatives for each query from the arguments of other conclusions, without replacement.

    The rule `least_similar` draws `sample_factor` times as many arguments (at most all) and keeps
    those whose conclusions have the lowest Levenshtein ratios with the query, in ascending order.
    Each query has a separate random stream.

    Args:
        conclusions: Normalised conclusions (N,) of the arguments in the pool.
        queries: Normalised conclusions (Q,) of the queries.
        count: Number of negatives per query.
        rule: Rule by which negatives are selected.
        seed: Seed of the draw.
        sample_factor: Number of arguments sampled per negative.

    Returns:
        Row indices (Q, count) of arguments in the pool. Raises InputError if a query has fewer than
        `count` arguments of other conclusions.
    """
    negatives = np.empty((len(queries), count), dtype=np.int64)
    for index, query in enumerate(queries):
        unrelated = np.flatnonzero(conclusions != query)
        if len(unrelated) < count:
            raise InputError(
                f"the conclusion {query!r} needs {count} negatives, but only {len(unrelated)} "
                "arguments have other conclusions; add arguments of other conclusions"
            )
        rng = create_generator(seed, RandomStream.CANDIDATES, index)
        if rule == "random":
            negatives[index] = rng.choice(unrelated, size=count, replace=False)
            continue
        size = min(len(unrelated), sample_factor * count)
        sample = rng.choice(unrelated, size=size, replace=False)
        negatives[index] = select_least_similar(query, conclusions, sample, count)
    return negatives


def select_least_similar(
    query: str, conclusions: np.ndarray, rows: np.ndarray, count: int
) -> np.ndarray:
    """Return the `count` rows whose conclusions have the lowest Levenshtein ratios with a query."""
    ratios = process.cdist([query], conclusions[rows], scorer=fuzz.ratio)[0]
    return np.asarray(rows[np.argsort(ratios, kind="stable")[:count]])
