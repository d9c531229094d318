"""Measures by topic as trectools computes them, and what has to be mended for that; tests hold them to ir_measures."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping

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
BPREF: dict[str, Measure] = {"bpref": lambda e: e.get_bpref(depth=1000, per_query=True, trec_eval=False)}


def values(measures: Mapping[str, Measure], run: pd.DataFrame, qrels: pd.DataFrame, topics: pd.Index) -> dict[str, pd.Series]:
    """Compute measures of each topic, 0 where the run lists nothing.

    Args:
        measures: MEASURES, or others by their names.
        run: `qid docno rank score`, of these topics alone.
        qrels: `qid docno rel`, of these topics alone.
        topics: qids.
    """
    if run.empty:
        return {name: pd.Series(0.0, index=topics) for name in measures}
    engine = _engine(run, qrels, topics)
    with warnings.catch_warnings():  # trectools' own, on pandas 2
        warnings.simplefilter("ignore", FutureWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        found = {name: measure(engine).iloc[:, 0] for name, measure in measures.items()}
    numbers = range(len(topics))
    return {name: column.reindex(numbers).fillna(0.0).set_axis(topics) for name, column in found.items()}


def bpref(judged: pd.DataFrame, qrels: pd.DataFrame, topics: pd.Index) -> pd.Series:
    """Compute bpref of each topic from the judged documents `qid docno rank score` of a run.

    trectools divides by 0 where nothing is judged irrelevant; there bpref is the share of the relevant that is found.
    """
    of_trectools = values(BPREF, judged, qrels, topics)["bpref"]
    relevant = qrels[qrels["rel"] > 0]
    only = ~topics.isin(qrels.loc[qrels["rel"] == 0, "qid"])
    found = judged.merge(relevant[["qid", "docno"]], on=["qid", "docno"]).groupby("qid").size()
    share = (found / relevant.groupby("qid").size()).reindex(topics).fillna(0.0)
    return pd.Series(np.where(only, share, of_trectools), index=topics)


def _engine(run: pd.DataFrame, qrels: pd.DataFrame, topics: pd.Index) -> TrecEval:
    # Built in memory: trectools' own reader of qrels drops negative labels, and its removeUnjudged is ignored by MRR.
    # Ids are numbers, which it joins faster than texts.
    trec_run, trec_qrels = TrecRun(), TrecQrel()
    numbers = pd.factorize(pd.concat([run["docno"], qrels["docno"]]))[0]
    of_run, of_qrels = np.split(numbers, [len(run)])
    trec_run.run_data = pd.DataFrame(
        {"query": topics.get_indexer(pd.Index(run["qid"])), "q0": "Q0", "docid": of_run, "rank": run["rank"].to_numpy(),
         "score": run["score"].to_numpy(), "system": "run"}
    )  # fmt: skip
    trec_qrels.qrels_data = pd.DataFrame(
        {"query": topics.get_indexer(pd.Index(qrels["qid"])), "q0": "0", "docid": of_qrels, "rel": qrels["rel"].to_numpy()}
    )
    return TrecEval(trec_run, trec_qrels)
