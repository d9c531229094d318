"""Runs + qrels → measures per topic: Touché's own, and trectools' with unjudged documents dropped and counted as 0."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd
from trectools import TrecEval, TrecQrel, TrecRun

from submission.errors import InputError, short
from training.measuring import touche

# trec_eval=True in nDCG means linear gain, elsewhere it means ordering by score; our lines come in rank order, the order
# that Touché's script takes, so everything but nDCG gets False.
MEASURES: dict[str, Callable[[TrecEval], pd.DataFrame]] = {
    "nDCG@5": lambda e: e.get_ndcg(depth=5, per_query=True, trec_eval=True),
    "nDCG@10": lambda e: e.get_ndcg(depth=10, per_query=True, trec_eval=True),
    "nDCG@25": lambda e: e.get_ndcg(depth=25, per_query=True, trec_eval=True),
    "MAP": lambda e: e.get_map(depth=1000, per_query=True, trec_eval=False),
    "MRR": lambda e: e.get_reciprocal_rank(depth=1000, per_query=True, trec_eval=False),
    "P@5": lambda e: e.get_precision(depth=5, per_query=True, trec_eval=False),
    "Rprec": lambda e: e.get_rprec(depth=1000, per_query=True, trec_eval=False),
}
ALL, CONDENSED = "all", "condensed"  # unjudged documents count as 0; or are dropped before a list is cut
HEADLINES = (touche.NAME, f"nDCG@5 {CONDENSED}", f"nDCG@5 {ALL}")  # what is told of every run, in this order
BPREF = "Bpref"  # looks at judged documents only: the same both ways
JUDGED_DEPTHS = (5, 10)

VERSIONS = {  # what ids look like
    "args.me 2020-04-01": re.compile(r"S[0-9a-f]+-A[0-9a-f]+"),
    "args.me version 1": re.compile(r"[0-9a-f]+-[0-9-]+T[0-9:]+Z-[0-9]+-[0-9]+"),
}


def evaluate(run: pd.DataFrame, qrels: pd.DataFrame) -> pd.DataFrame:
    """Measure a run, topic by topic.

    Args:
        run: `qid docno rank score`, as `read_run` gives it.
        qrels: `qid docno rel`, as `read_qrels` gives them.

    Returns:
        One row for each topic of the qrels that has a relevant document, 0 where the run lists none; columns
        `nDCG@5 (Touché)`, NaN where no judged document is among the first five, `<measure> condensed` with unjudged documents
        dropped, `<measure> all` with unjudged documents counted as 0, `Bpref`, and `judged@5`, `judged@10`, the shares of
        judged documents among the first ones.
    """
    topics = judged_topics(qrels)
    run, qrels = run[run["qid"].isin(topics)], qrels[qrels["qid"].isin(topics)].reset_index(drop=True)
    judged = run.merge(qrels[["qid", "docno"]], on=["qid", "docno"])
    columns = {touche.NAME: touche.touche_ndcg(run, qrels, topics)}
    for way, documents in ((CONDENSED, judged), (ALL, run)):
        for name, measure in MEASURES.items():
            columns[f"{name} {way}"] = _values(measure, documents, qrels, topics)
    columns[BPREF] = _bpref(judged, qrels, topics)
    for depth in JUDGED_DEPTHS:
        top = run.groupby("qid").head(depth)
        found = top.merge(judged[["qid", "docno"]], on=["qid", "docno"]).groupby("qid").size()
        columns[f"judged@{depth}"] = (found / top.groupby("qid").size()).reindex(topics).fillna(0.0)
    return pd.DataFrame(columns)


def judged_topics(qrels: pd.DataFrame) -> pd.Index:
    """The topics that are measured, ascending: those with a relevant document."""
    topics: pd.Index = pd.Index(sorted(qrels.loc[qrels["rel"] > 0, "qid"].unique()), name="qid")
    return topics


def refuse_other_collection(run: pd.DataFrame, qrels: pd.DataFrame, file: object) -> None:
    """Raises InputError where the qrels judge none of a run's documents: scores of 0 would say nothing about the run."""
    if run["docno"].isin(set(qrels["docno"])).any():
        return
    of_run, of_qrels = (_version(frame["docno"].iloc[0]) for frame in (run, qrels))
    raise InputError(
        f"{file}: none of its documents is judged; they are of {of_run} ({short(run['docno'].iloc[0])}), the judged ones of "
        f"{of_qrels} ({short(qrels['docno'].iloc[0])}); take the qrels of the corpus that was ranked"
    )


def evaluate_runs(runs: Mapping[str, pd.DataFrame], qrels: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Measure runs by their names. Raises InputError: one of another collection."""
    for name, run in runs.items():
        refuse_other_collection(run, qrels, name)
    return {name: evaluate(run, qrels) for name, run in runs.items()}


def _values(measure: Callable[[TrecEval], pd.DataFrame], run: pd.DataFrame, qrels: pd.DataFrame, topics: pd.Index) -> pd.Series:
    if run.empty:
        return pd.Series(0.0, index=topics)
    with warnings.catch_warnings():  # trectools' own, on pandas 2
        warnings.simplefilter("ignore", FutureWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        values: pd.Series = measure(_engine(run, qrels)).iloc[:, 0]
    return values.reindex(topics).fillna(0.0)


def _bpref(judged: pd.DataFrame, qrels: pd.DataFrame, topics: pd.Index) -> pd.Series:
    values = _values(lambda e: e.get_bpref(depth=1000, per_query=True, trec_eval=False), judged, qrels, topics)
    # trectools divides by 0 where nothing is judged irrelevant; there bpref is the share of the relevant that is found.
    relevant = qrels[qrels["rel"] > 0]
    only = ~topics.isin(qrels.loc[qrels["rel"] == 0, "qid"])
    found = judged.merge(relevant[["qid", "docno"]], on=["qid", "docno"]).groupby("qid").size()
    share = (found / relevant.groupby("qid").size()).reindex(topics).fillna(0.0)
    return pd.Series(np.where(only, share, values), index=topics)


def _version(docno: str) -> str:
    return next((name for name, pattern in VERSIONS.items() if pattern.fullmatch(docno)), "a collection of its own")


def _engine(run: pd.DataFrame, qrels: pd.DataFrame) -> TrecEval:
    # Built in memory: trectools' own reader of qrels drops negative labels, and its removeUnjudged is ignored by MRR.
    trec_run, trec_qrels = TrecRun(), TrecQrel()
    names = {"qid": "query", "docno": "docid", "tag": "system"}  # its own
    trec_run.run_data = run.rename(columns=names).reset_index(drop=True).assign(q0="Q0")
    trec_qrels.qrels_data = qrels.rename(columns=names).assign(q0="0")
    return TrecEval(trec_run, trec_qrels)
