"""Evaluate runs per topic: Touché's nDCG@5, and trectools' measures on condensed lists and on all documents."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pandas as pd

from submission.errors import InputError, abbreviate
from training.evaluation import measures as measure_functions

ALL, CONDENSED = "all", "condensed"  # unjudged documents are non-relevant; or are removed before the cut-off (condensed lists)
HEADLINE_MEASURES = (
    measure_functions.TOUCHE_NDCG,
    f"nDCG@5 {CONDENSED}",
    f"nDCG@5 {ALL}",
)  # reported for every run, in this order
BPREF = "Bpref"  # uses judged documents only
JUDGED_DEPTHS = (5, 10)

DOCNO_PATTERNS = {  # docno formats of known corpora
    "args.me 2020-04-01": re.compile(r"S[0-9a-f]+-A[0-9a-f]+"),
    "args.me version 1": re.compile(r"[0-9a-f]+-[0-9-]+T[0-9:]+Z-[0-9]+-[0-9]+"),
}


def evaluate_run(run: pd.DataFrame, qrels: pd.DataFrame) -> pd.DataFrame:
    """Evaluate a run per topic.

    Args:
        run: `qid docno rank score`, from `read_run`.
        qrels: `qid docno rel`, from `read_qrels`.

    Returns:
        One row per qrels topic with a relevant document (0 if the run has no documents). Columns: `nDCG@5 (Touché)` (NaN if
        none of the top five is judged), `<measure> condensed` (unjudged documents removed), `<measure> all` (unjudged documents
        non-relevant), `Bpref`, and `judged@5`, `judged@10` (fraction of judged documents).
    """
    topics = topics_with_relevant(qrels)
    run, qrels = run[run["qid"].isin(topics)], qrels[qrels["qid"].isin(topics)].reset_index(drop=True)
    judged = run.merge(qrels[["qid", "docno"]], on=["qid", "docno"])
    columns = {measure_functions.TOUCHE_NDCG: measure_functions.touche_ndcg(run, qrels, topics)}
    for treatment, documents in ((CONDENSED, judged), (ALL, run)):
        measures = measure_functions.compute_measures(measure_functions.MEASURES, documents, qrels, topics)
        columns |= {f"{name} {treatment}": column for name, column in measures.items()}
    columns[BPREF] = measure_functions.bpref(judged, qrels, topics)
    for depth in JUDGED_DEPTHS:
        top = run.groupby("qid").head(depth)
        n_judged = top.merge(judged[["qid", "docno"]], on=["qid", "docno"]).groupby("qid").size()
        columns[f"judged@{depth}"] = (n_judged / top.groupby("qid").size()).reindex(topics).fillna(0.0)
    return pd.DataFrame(columns)


def topics_with_relevant(qrels: pd.DataFrame) -> pd.Index:
    """Return the sorted topics with a relevant document."""
    topics: pd.Index = pd.Index(sorted(qrels.loc[qrels["rel"] > 0, "qid"].unique()), name="qid")
    return topics


def check_same_collection(run: pd.DataFrame, qrels: pd.DataFrame, file: object) -> None:
    """Check that the qrels judge at least one of the run's documents, or raise InputError."""
    if run["docno"].isin(set(qrels["docno"])).any():
        return
    run_docno, qrels_docno = run["docno"].iloc[0], qrels["docno"].iloc[0]
    raise InputError(
        f"{file}: no document is judged: the run is on {_collection_version(run_docno)} (e.g. {abbreviate(run_docno)}), "
        f"the qrels are on {_collection_version(qrels_docno)} (e.g. {abbreviate(qrels_docno)}); use qrels of the same corpus"
    )


def evaluate_runs(runs: Mapping[str, pd.DataFrame], qrels: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Evaluate named runs; raise InputError if one is on another collection."""
    for name, run in runs.items():
        check_same_collection(run, qrels, name)
    return {name: evaluate_run(run, qrels) for name, run in runs.items()}


def _collection_version(docno: str) -> str:
    return next((name for name, pattern in DOCNO_PATTERNS.items() if pattern.fullmatch(docno)), "an unknown collection")
