"""Runs and lists in the one order, see `order`."""

from __future__ import annotations

import logging

import numpy as np
import pandas as pd

from submission.errors import InputError, short
from submission.input.order import Order

log = logging.getLogger(__name__)


def in_order(listed: pd.DataFrame, order: Order, source: object) -> pd.DataFrame:
    """Put each topic's documents in order, by RULE.

    Args:
        listed: `qid docno rank score line`, rows as the file has them. A rank or score that a file need not have is NaN in all
            rows: without ranks the scores order, without scores the ranks, without both the lines; what then is equal stays as
            the file has it.
        order: `rank` or `score`: by these alone, whatever the others say.
        source: the file, for messages.

    Returns:
        `qid docno rank score` and other columns but `line`; topics as they first occur, ranks 1..n.

    Raises:
        InputError: ranks and scores contradict each other and order is `auto`.
    """
    has_ranks, has_scores = not listed["rank"].isna().any(), not listed["score"].isna().any()
    by_docno = listed["docno"].map({docno: place for place, docno in enumerate(sorted(listed["docno"].unique()))})
    keys = {"topic": pd.factorize(listed["qid"])[0]}
    if has_ranks and (order != "score" or not has_scores):
        keys["rank"] = listed["rank"].to_numpy(float)
    if has_scores:
        keys["score"] = -listed["score"].to_numpy(float)
    if has_ranks and has_scores:
        keys["docno"] = -by_docno.to_numpy(float)
    found = listed.iloc[np.lexsort([np.arange(len(listed)), *reversed(keys.values())])]
    if has_ranks and has_scores and order == "auto":
        _refuse_contradictions(found, source)
        _tell_equal_ranks(found, source)
    ranks = found.groupby("qid", sort=False).cumcount().to_numpy() + 1
    return found.assign(rank=ranks).drop(columns="line").reset_index(drop=True)


def with_falling_scores(listed: pd.DataFrame, source: object) -> pd.DataFrame:
    """Give ordered lists `qid docno rank score` without scores, or with some that rise, the scores n, n - 1, …, 1."""
    rises = listed["qid"].eq(listed["qid"].shift()) & listed["score"].gt(listed["score"].shift())
    if not (rises.any() or listed["score"].isna().any()):
        return listed
    log.warning("%s: ordered without its scores; n, n - 1, …, 1 stand for those of a topic's n documents", source)
    return listed.assign(score=listed.groupby("qid")["rank"].transform("size").to_numpy(float) - listed["rank"] + 1)


def _refuse_contradictions(found: pd.DataFrame, source: object) -> None:
    same = found["qid"].eq(found["qid"].shift())
    rises = same & found["score"].gt(found["score"].shift())
    if not rises.any():
        return
    place = int(np.flatnonzero(rises)[0])
    better, worse = found.iloc[place - 1], found.iloc[place]
    topics = f"{found['qid'][rises].nunique()} of {found['qid'].nunique()} topics"
    raise InputError(
        f"{source}, line {worse['line']}: ranks and scores contradict each other in {topics}; the first is "
        f"{short(worse['qid'])}, where {short(worse['docno'])} has rank {worse['rank']:.0f} and score {worse['score']:g}, but "
        f"{short(better['docno'])} (line {better['line']}) the better rank {better['rank']:.0f} and the lower score "
        f"{better['score']:g}; give --order rank or --order score, whichever is meant"
    )


def _tell_equal_ranks(found: pd.DataFrame, source: object) -> None:
    topics = found["qid"][found.duplicated(["qid", "rank"])].nunique()
    if topics:
        log.warning(
            "%s: %d of %d topics have documents of equal rank: ordered by score, ties by docno descending as trec_eval does",
            source, topics, found["qid"].nunique(),
        )  # fmt: skip
