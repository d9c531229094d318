"""Measures by topic as trectools computes them, and what has to be mended for that; tests hold them to ir_measures."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pandas as pd
from trectools import TrecEval, TrecQrel, TrecRun

Measure = Callable[[TrecEval], pd.DataFrame]

# trec_eval=True in nDCG means linear gain, elsewhere it means ordering by score; our lines come in rank order, the order
# that Touché's script takes, so everything but nDCG gets False.
MEASURES: dict[str, Measure] = {
    "nDCG@5": lambda e: e.get_ndcg(depth=5, per_query=True, trec_eval=True),
    "nDCG@10": lambda e: e.get_ndcg(depth=10, per_query=True, trec_eval=True),
    "nDCG@25": lambda e: e.get_ndcg(depth=25, per_query=True, trec_eval=True),
    "MAP": lambda e: e.get_map(depth=1000, per_query=True, trec_eval=False),
    "MRR": lambda e: e.get_reciprocal_rank(depth=1000, per_query=True, trec_eval=False),
    "P@5": lambda e: e.get_precision(depth=5, per_query=True, trec_eval=False),
    "Rprec": lambda e: e.get_rprec(depth=1000, per_query=True, trec_eval=False),
}


def values(measure: Measure, run: pd.DataFrame, qrels: pd.DataFrame, topics: pd.Index) -> pd.Series:
    """Compute a measure of each topic, 0 where the run lists nothing.

    Args:
        measure: one of MEASURES.
        run: `qid docno rank score`.
        qrels: `qid docno rel`.
        topics: qids.
    """
    if run.empty:
        return pd.Series(0.0, index=topics)
    with warnings.catch_warnings():  # trectools' own, on pandas 2
        warnings.simplefilter("ignore", FutureWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        found: pd.Series = measure(_engine(run, qrels)).iloc[:, 0]
    return found.reindex(topics).fillna(0.0)


def bpref(judged: pd.DataFrame, qrels: pd.DataFrame, topics: pd.Index) -> pd.Series:
    """Compute bpref of each topic from the judged documents `qid docno rank score` of a run.

    trectools divides by 0 where nothing is judged irrelevant; there bpref is the share of the relevant that is found.
    """
    of_trectools = values(lambda e: e.get_bpref(depth=1000, per_query=True, trec_eval=False), judged, qrels, topics)
    relevant = qrels[qrels["rel"] > 0]
    only = ~topics.isin(qrels.loc[qrels["rel"] == 0, "qid"])
    found = judged.merge(relevant[["qid", "docno"]], on=["qid", "docno"]).groupby("qid").size()
    share = (found / relevant.groupby("qid").size()).reindex(topics).fillna(0.0)
    return pd.Series(np.where(only, share, of_trectools), index=topics)


def _engine(run: pd.DataFrame, qrels: pd.DataFrame) -> TrecEval:
    # Built in memory: trectools' own reader of qrels drops negative labels, and its removeUnjudged is ignored by MRR.
    trec_run, trec_qrels = TrecRun(), TrecQrel()
    names = {"qid": "query", "docno": "docid", "tag": "system"}  # its own
    trec_run.run_data = run.rename(columns=names).reset_index(drop=True).assign(q0="Q0")
    trec_qrels.qrels_data = qrels.rename(columns=names).assign(q0="0")
    return TrecEval(trec_run, trec_qrels)
