"""Label premises by distant supervision, and draw negatives (Entezari 2020, sections 3.2.3, 3.3).

The premises of a conclusion are its positives. Its negatives in training are premises of the least
similar conclusions or, as hard negatives, premises of other conclusions that are retrieved for it.

Validation ranks 100 negatives among the 5 premises of a conclusion. The thesis assigns unrelated
arguments before it splits the collection, from a sample of 20 arguments per premise, so that the
sample of such a conclusion is its negatives: 100 random arguments of the collection.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, get_args

import msgspec
import numpy as np
import pandas as pd
from rapidfuzz import fuzz, process

from aragorn.errors import InputError
from aragorn.index.weighting import Dirichlet, Model, build_query, search
from aragorn.progress import track
from aragorn.systems.lexical import IndexSettings, TermIndex, build_term_index
from aragorn_training.data.split import (
    NEGATIVES_PER_ARGUMENT,
    VALIDATION,
    VALIDATION_RULE,
    RandomStream,
    create_generator,
)

VERSION = 1  # of the negatives of the same arguments
COMPUTES_WITH = (
    "aragorn.index.weighting",
    "aragorn.systems.lexical",
    "numpy",
    "pandas",
    "rapidfuzz",
)

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


RETRIEVAL_DEPTH = 100  # documents retrieved per conclusion for hard negatives
INDEX_SETTINGS = IndexSettings(stemmer="none")  # same index as the system `dirichlet`


def sample_negatives(arguments: pd.DataFrame, per_argument: int, seed: int) -> np.ndarray:
    """Sample negatives for every argument from the least similar conclusions.

    A conclusion with n premises needs `per_argument` · n negatives. SAMPLE_FACTOR times as many
    arguments of other conclusions (at most all) are sampled without replacement. Those whose
    normalised conclusions have the lowest Levenshtein ratios with the conclusion are assigned to
    its arguments round-robin.

    Args:
        arguments: Arguments of one split, sorted by `normalised_conclusion`.
        per_argument: Number of negatives per argument.
        seed: Seed of the sample.

    Returns:
        Row indices (arguments, per_argument) of the negatives. Raises InputError if the most
        frequent conclusion needs more than there are arguments of other conclusions.
    """
    conclusions = arguments["normalised_conclusion"].to_numpy()
    starts = np.flatnonzero(np.r_[True, conclusions[1:] != conclusions[:-1]])
    ends = np.r_[starts[1:], len(conclusions)]
    _check_corpus_size(starts, ends, per_argument)
    negatives = np.empty((len(conclusions), per_argument), dtype=np.int64)
    rng = create_generator(seed, RandomStream.NEGATIVES, per_argument)
    groups = [*zip(starts.tolist(), ends.tolist(), strict=True)]
    for start, end in track(groups, "negatives", "conclusions"):
        sample = _sample_rows(rng, start, end, len(conclusions), per_argument)
        count = per_argument * (end - start)
        rows = select_least_similar(conclusions[start], conclusions, sample, count)
        negatives[start:end] = rows.reshape(per_argument, end - start).T  # round-robin
    return negatives


def mine_hard_negatives(arguments: pd.DataFrame, fallback: np.ndarray, seed: int) -> np.ndarray:
    """Mine one hard negative per argument: a premise of another conclusion, retrieved for the
    conclusion of the argument; return row indices (arguments,).

    The top RETRIEVAL_DEPTH arguments that a Dirichlet-smoothed language model retrieves for a
    conclusion are assigned to its arguments in random order, cyclically if it has more arguments;
    `fallback` (arguments,) if nothing is retrieved. As retrieved premises are unjudged, some may be
    relevant. `arguments` of one split: `docno conclusion normalised_conclusion premise`.
    """
    rng = create_generator(seed, RandomStream.HARD_NEGATIVES)
    negatives = fallback.copy()
    for rows, hits in retrieve_for_conclusions(
        arguments, INDEX_SETTINGS, Dirichlet(), RETRIEVAL_DEPTH
    ):
        if len(hits):
            negatives[rows] = np.resize(rng.permutation(hits), len(rows))
    return negatives


def retrieve_for_conclusions(
    arguments: pd.DataFrame, index_settings: IndexSettings, model: Model, depth: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Retrieve `depth` arguments of other conclusions for every normalised conclusion; the query is
    its first argument's conclusion.

    Yields the row indices of a conclusion's `arguments` (`docno conclusion normalised_conclusion
    premise`), sorted by docno, and of the retrieved arguments, by descending score.
    """
    # the index numbers documents by docno
    docno_order = np.argsort(arguments["docno"].to_numpy(), kind="stable")
    by_docno = arguments.iloc[docno_order].set_index("docno", drop=False)
    with TemporaryDirectory() as folder:
        docnos = by_docno.index.tolist()
        build_term_index(Path(folder), docnos, lambda batch: by_docno.loc[batch], index_settings)
        index = TermIndex(Path(folder), index_settings)
        groups = by_docno.groupby("normalised_conclusion", sort=True).indices
        label = f"retrieval with {type(model).__name__}"
        for group in track(list(groups.values()), label, "conclusions"):
            query = build_query(index.analyse_query(by_docno["conclusion"].iloc[group[0]]))
            hits = search(index, query, model, depth + len(group)).documents
            yield docno_order[group], docno_order[hits[~np.isin(hits, group)][:depth]]


def _check_corpus_size(starts: np.ndarray, ends: np.ndarray, per_argument: int) -> None:
    """Raise InputError if the most frequent conclusion needs too many negatives."""
    n_largest = int((ends - starts).max())
    n_needed = per_argument * n_largest
    n_available = int(ends[-1]) - n_largest
    if n_needed > n_available:
        is_validation = per_argument == NEGATIVES_PER_ARGUMENT[VALIDATION]
        split = f"validation set, {VALIDATION_RULE}" if is_validation else "training set; add some"
        raise InputError(
            f"the most frequent conclusion needs {n_needed} negatives, but only {n_available} "
            f"arguments with other conclusions are in the {split}"
        )


def _sample_rows(
    rng: np.random.Generator, start: int, end: int, total: int, per_argument: int
) -> np.ndarray:
    """Sample SAMPLE_FACTOR · `per_argument` · (end - start) rows outside [start, end), or all."""
    n_candidates = total - (end - start)
    size = min(n_candidates, SAMPLE_FACTOR * per_argument * (end - start))
    rows = rng.choice(n_candidates, size=size, replace=False)
    rows[rows >= start] += end - start
    return rows
