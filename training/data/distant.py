"""Distant labels: a conclusion's own premises are related, those of the least similar conclusions are not (thesis 3.2.3).

Or, harder to tell apart, those that a search for it finds among the premises of others.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from rapidfuzz import fuzz, process

from submission.disk.kept import Kept
from submission.errors import InputError
from submission.progress import progress
from submission.retrieval.lexical import Dirichlet
from submission.retrieval.terms import Settings
from training.data.answers import answers
from training.data.seeds import Stream, generator

SAMPLED = 20  # arguments looked at for each unrelated premise that is needed
CHUNK = 500_000  # comparisons at a time
FOUND = 100  # arguments of a search that may be unrelated ones
SEARCHED = Settings(stemmer="none")  # whole arguments, as the system `dirichlet` searches them


def unrelated(arguments: pd.DataFrame, each: int, seed: int) -> np.ndarray:
    """For every argument the row numbers of its unrelated ones, least similar first.

    A conclusion with n premises needs `each`·n of them. 20 times as many arguments are sampled without replacement, never of
    the same normalised conclusion (all others where there are fewer); those whose normalised conclusions are least similar
    by Levenshtein ratio are kept and dealt out in turn.

    Args:
        arguments: one split, sorted by `normalised_conclusion`.
        each: how many an argument gets (training 1, validation 20).
        seed: of the samples.

    Returns:
        row numbers (N, each).

    Raises:
        InputError: the split holds too few arguments of other conclusions.
    """
    conclusions = arguments["normalised_conclusion"].to_numpy()
    starts = np.flatnonzero(np.r_[True, conclusions[1:] != conclusions[:-1]])
    ends = np.r_[starts[1:], len(conclusions)]
    widest = int((ends - starts).max())
    if each * widest > len(conclusions) - widest:
        raise InputError(
            f"{len(conclusions)} arguments on {len(starts)} conclusions are too few: {each * widest} arguments of other "
            "conclusions are needed for one; use a larger part of the corpus"
        )
    result = np.empty((len(conclusions), each), dtype=np.int64)
    rng = generator(seed, Stream.UNRELATED, each)
    chunks = list(_chunks(starts, ends, each))
    for group in progress(chunks, "unrelated premises", "conclusions", [len(group) for group in chunks]):
        samples = [_sample(rng, starts[i], ends[i], len(conclusions), each) for i in group]
        owners = np.repeat(starts[group], [len(sample) for sample in samples])
        similarity = process.cpdist(
            conclusions[owners], conclusions[np.concatenate(samples)], scorer=fuzz.ratio, workers=-1, dtype=np.float32
        )
        bounds = np.cumsum([len(sample) for sample in samples])[:-1]
        for i, sample, similar in zip(group, samples, np.split(similarity, bounds), strict=True):
            size = ends[i] - starts[i]
            kept = sample[np.argsort(similar, kind="stable")[: each * size]]
            result[starts[i] : ends[i]] = kept.reshape(each, size).T  # dealt out in turn
    return result


def hard_negatives(arguments: pd.DataFrame, least_similar: np.ndarray, seed: int, kept: Kept) -> np.ndarray:
    """Return for every argument the row number of an unrelated one that has words of its conclusion (a hard negative).

    A language model smoothed by Dirichlet's prior searches for each conclusion among all arguments; the first 100 of other
    normalised conclusions are dealt out in random order, from the beginning again where a conclusion has more premises. Some of
    them may well be related: nobody has judged them.

    Args:
        arguments: one split, with all of its columns.
        least_similar: row numbers (N,) for arguments whose conclusion finds nothing.
        seed: of the order.
        kept: of these very arguments; their index is kept there.

    Returns:
        row numbers (N,).
    """
    rng, result = generator(seed, Stream.ANSWERS), least_similar.copy()
    for own, others in answers(arguments, SEARCHED, Dirichlet(), FOUND, kept):
        if len(others):
            result[own] = np.resize(rng.permutation(others), len(own))
    return result


def _sample(rng: np.random.Generator, start: int, end: int, total: int, each: int) -> np.ndarray:
    """Rows outside start..end, without replacement."""
    others = total - (end - start)
    rows = rng.choice(others, size=min(others, SAMPLED * each * (end - start)), replace=False)
    rows[rows >= start] += end - start
    return rows


def _chunks(starts: np.ndarray, ends: np.ndarray, each: int) -> Iterator[np.ndarray]:
    """Numbers of conclusions in groups of about CHUNK comparisons."""
    chunk = np.cumsum((ends - starts) * each * SAMPLED) // CHUNK
    for number in np.unique(chunk):
        yield np.flatnonzero(chunk == number)
