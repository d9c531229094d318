"""Label premises by distant supervision (Entezari 2020, section 3.2.3).

The premises of a conclusion are its positives. Its negatives are premises of the least similar
conclusions or, as hard negatives, premises of other conclusions that are retrieved for it.
"""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

from aragorn.errors import InputError
from aragorn.index.weighting import Dirichlet, Model, build_query, search
from aragorn.progress import track
from aragorn.systems.lexical import IndexSettings, TermIndex, build_term_index
from aragorn_training.data.candidates import SAMPLE_FACTOR, select_least_similar
from aragorn_training.data.split import (
    NEGATIVES_PER_ARGUMENT,
    VALIDATION,
    VALIDATION_RULE,
    RandomStream,
    create_generator,
)

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
    for start, end in track([*zip(starts, ends, strict=True)], "negatives", "conclusions"):
        sample = _sample_rows(rng, int(start), int(end), len(conclusions), per_argument)
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
