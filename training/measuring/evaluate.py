"""Runs + qrels → measures per topic: Touché's own, and trectools' with unjudged documents dropped and counted as 0."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pandas as pd

from submission.errors import InputError, short
from training.measuring import touche, trec

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
        columns |= {f"{name} {way}": column for name, column in trec.values(trec.MEASURES, documents, qrels, topics).items()}
    columns[BPREF] = trec.bpref(judged, qrels, topics)
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


def _version(docno: str) -> str:
    return next((name for name, pattern in VERSIONS.items() if pattern.fullmatch(docno)), "a collection of its own")
