"""Evaluate runs per topic: Touché's nDCG@5, and trectools' measures on condensed lists and on all documents."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pandas as pd

from submission.errors import InputError, short
from training.evaluation import measures as measure_functions

ALL, CONDENSED = "all", "condensed"  # unjudged documents are non-relevant; or are removed before the cut-off (condensed lists)
HEADLINES = (measure_functions.NAME, f"nDCG@5 {CONDENSED}", f"nDCG@5 {ALL}")  # reported for every run, in this order
BPREF = "Bpref"  # uses judged documents only
JUDGED_DEPTHS = (5, 10)

VERSIONS = {  # docno formats of known corpora
    "args.me 2020-04-01": re.compile(r"S[0-9a-f]+-A[0-9a-f]+"),
    "args.me version 1": re.compile(r"[0-9a-f]+-[0-9-]+T[0-9:]+Z-[0-9]+-[0-9]+"),
}


def evaluate(run: pd.DataFrame, qrels: pd.DataFrame) -> pd.DataFrame:
    """Evaluate a run per topic.

    Args:
        run: `qid docno rank score`, from `read_run`.
        qrels: `qid docno rel`, from `read_qrels`.

    Returns:
        One row per qrels topic with a relevant document (0 if the run has no documents). Columns: `nDCG@5 (Touché)` (NaN if
        none of the top five is judged), `<measure> condensed` (unjudged documents removed), `<measure> all` (unjudged documents
        non-relevant), `Bpref`, and `judged@5`, `judged@10` (fraction of judged documents).
    """
    topics = judged_topics(qrels)
    run, qrels = run[run["qid"].isin(topics)], qrels[qrels["qid"].isin(topics)].reset_index(drop=True)
    judged = run.merge(qrels[["qid", "docno"]], on=["qid", "docno"])
    columns = {measure_functions.NAME: measure_functions.touche_ndcg(run, qrels, topics)}
    for treatment, documents in ((CONDENSED, judged), (ALL, run)):
        measures = measure_functions.values(measure_functions.MEASURES, documents, qrels, topics)
        columns |= {f"{name} {treatment}": column for name, column in measures.items()}
    columns[BPREF] = measure_functions.bpref(judged, qrels, topics)
    for depth in JUDGED_DEPTHS:
        top = run.groupby("qid").head(depth)
        n_judged = top.merge(judged[["qid", "docno"]], on=["qid", "docno"]).groupby("qid").size()
        columns[f"judged@{depth}"] = (n_judged / top.groupby("qid").size()).reindex(topics).fillna(0.0)
    return pd.DataFrame(columns)


def judged_topics(qrels: pd.DataFrame) -> pd.Index:
    """Return the sorted topics with a relevant document."""
    topics: pd.Index = pd.Index(sorted(qrels.loc[qrels["rel"] > 0, "qid"].unique()), name="qid")
    return topics


def refuse_other_collection(run: pd.DataFrame, qrels: pd.DataFrame, file: object) -> None:
    """Check that the qrels judge at least one of the run's documents, or raise InputError."""
    if run["docno"].isin(set(qrels["docno"])).any():
        return
    run_docno, qrels_docno = run["docno"].iloc[0], qrels["docno"].iloc[0]
    raise InputError(
        f"{file}: no document is judged: the run is on {_version(run_docno)} (e.g. {short(run_docno)}), "
        f"the qrels are on {_version(qrels_docno)} (e.g. {short(qrels_docno)}); use qrels of the same corpus"
    )


def evaluate_runs(runs: Mapping[str, pd.DataFrame], qrels: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Evaluate named runs; raise InputError if one is on another collection."""
    for name, run in runs.items():
        refuse_other_collection(run, qrels, name)
    return {name: evaluate(run, qrels) for name, run in runs.items()}


def _version(docno: str) -> str:
    return next((name for name, pattern in VERSIONS.items() if pattern.fullmatch(docno)), "an unknown collection")
