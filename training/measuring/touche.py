"""nDCG@5 as Touché's organisers compute it, which neither counts unjudged documents as 0 nor looks for others behind them."""

from __future__ import annotations

import numpy as np
import pandas as pd

NAME = "nDCG@5 (Touché)"
DEPTH = 5


def touche_ndcg(run: pd.DataFrame, qrels: pd.DataFrame, topics: pd.Index) -> pd.Series:
    """Compute Touché's nDCG@5 of each topic.

    A topic's list is cut at 5 first. Of these documents the unjudged are dropped, those behind them move up, and the gains
    (grades, linear) are discounted by log2(rank + 1). The ideal is over all judged documents of the topic.

    Args:
        run: `qid docno`, a topic's documents in order.
        qrels: `qid docno rel`, rel 0 or more.
        topics: qids with a relevant document.

    Returns:
        A value a topic; NaN for topics without a judged document among the first five: the mean leaves them out.
    """
    first = run[run["qid"].isin(topics)].groupby("qid", sort=False).head(DEPTH)
    judged = first.merge(qrels, on=["qid", "docno"], how="inner")  # keeps the run's order
    ideal = qrels.sort_values("rel", ascending=False, kind="stable").groupby("qid").head(DEPTH)
    return (_dcg(judged) / _dcg(ideal)).reindex(topics)


def _dcg(ordered: pd.DataFrame) -> pd.Series:
    """The discounted cumulated gain of each topic of `qid rel` in order."""
    places = ordered.groupby("qid", sort=False).cumcount().to_numpy()
    return (ordered["rel"] / np.log2(places + 2)).groupby(ordered["qid"]).sum()
