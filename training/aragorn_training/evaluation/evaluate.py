"""Evaluate runs per topic: Touché's nDCG@5, bpref, and trectools' measures on condensed lists and
on all documents, with workarounds for defects of trectools."""

import warnings
from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd
from trectools import TrecEval, TrecQrel, TrecRun

Measure = Callable[[TrecEval], pd.DataFrame]  # returns one column, indexed by topic

TOUCHE_NDCG = "nDCG@5 (Touché)"
TOUCHE_DEPTH = 5

# trec_eval=True selects linear gains in nDCG; in all other measures it sorts by score. These use
# False because runs are in rank
# order already (as in Touché's script).
MEASURES: dict[str, Measure] = {
    "nDCG@5": lambda evaluation: evaluation.get_ndcg(depth=5, per_query=True, trec_eval=True),
    "nDCG@10": lambda evaluation: evaluation.get_ndcg(depth=10, per_query=True, trec_eval=True),
    "nDCG@25": lambda evaluation: evaluation.get_ndcg(depth=25, per_query=True, trec_eval=True),
    "MAP": lambda evaluation: evaluation.get_map(depth=1000, per_query=True, trec_eval=False),
    "MRR": lambda evaluation: evaluation.get_reciprocal_rank(
        depth=1000, per_query=True, trec_eval=False
    ),
    "P@5": lambda evaluation: evaluation.get_precision(depth=5, per_query=True, trec_eval=False),
    "Rprec": lambda evaluation: evaluation.get_rprec(depth=1000, per_query=True, trec_eval=False),
}
BPREF_MEASURE: dict[str, Measure] = {
    "bpref": lambda evaluation: evaluation.get_bpref(depth=1000, per_query=True, trec_eval=False)
}
# unjudged documents count as non-relevant; are removed before the cut-off
ALL = "all"
CONDENSED = "condensed"
# reported for every run, in this order
HEADLINE_MEASURES = (TOUCHE_NDCG, f"nDCG@5 {CONDENSED}", f"nDCG@5 {ALL}")
BPREF = "Bpref"  # uses judged documents only
JUDGED_DEPTHS = (5, 10)


def evaluate_run(run: pd.DataFrame, qrels: pd.DataFrame) -> pd.DataFrame:
    """Evaluate a run `qid docno rank score`, in rank order, per topic of qrels `qid docno rel`.

    Returns:
        One row per qrels topic with a relevant document, by qid. Columns: `nDCG@5 (Touché)`,
        `<measure> condensed` (unjudged documents removed), `<measure> all` (unjudged documents
        non-relevant), `Bpref`, and `judged@5`, `judged@10` (fractions of judged documents). If the
        run lacks the topic, values are 0, except nDCG@5 (Touché), which is NaN, as it also is if no
        document in the top five is judged.
    """
    topics = get_evaluated_topics(qrels)
    run = run[run["qid"].isin(topics)]
    qrels = qrels[qrels["qid"].isin(topics)].reset_index(drop=True)
    judged_run = run.merge(qrels[["qid", "docno"]], on=["qid", "docno"])
    columns = {TOUCHE_NDCG: compute_touche_ndcg(run, qrels, topics)}
    for treatment, documents in ((CONDENSED, judged_run), (ALL, run)):
        measures = compute_measures(MEASURES, documents, qrels, topics)
        columns |= {f"{name} {treatment}": column for name, column in measures.items()}
    columns[BPREF] = compute_bpref(judged_run, qrels, topics)
    for depth in JUDGED_DEPTHS:
        top_rows = run.groupby("qid").head(depth)
        judged_counts = (
            top_rows.merge(judged_run[["qid", "docno"]], on=["qid", "docno"]).groupby("qid").size()
        )
        columns[f"judged@{depth}"] = (
            (judged_counts / top_rows.groupby("qid").size()).reindex(topics).fillna(0.0)
        )
    return pd.DataFrame(columns)


def get_evaluated_topics(qrels: pd.DataFrame) -> pd.Index:
    """Return the qids of the qrels topics that have a relevant document, sorted."""
    topics: pd.Index = pd.Index(sorted(qrels.loc[qrels["rel"] > 0, "qid"].unique()), name="qid")
    return topics


def compute_touche_ndcg(run: pd.DataFrame, qrels: pd.DataFrame, topics: pd.Index) -> pd.Series:
    """Compute Touché's nDCG@5 per topic, as the organisers' script does.

    The ranking is cut at 5; unjudged documents are then removed and the others move up. Gains are
    linear grades, discounted by log2(rank + 1). The ideal ranking is over all judged documents. NaN
    if no document in the top five is judged. The run must be in rank order, grades must be at least
    0, and each topic must have a relevant document.
    """
    top_rows = run[run["qid"].isin(topics)].groupby("qid", sort=False).head(TOUCHE_DEPTH)
    judged_top = top_rows.merge(qrels, on=["qid", "docno"], how="inner")  # keeps the run's order
    ideal = (
        qrels.sort_values("rel", ascending=False, kind="stable").groupby("qid").head(TOUCHE_DEPTH)
    )
    return (_dcg(judged_top) / _dcg(ideal)).reindex(topics)


def _dcg(documents: pd.DataFrame) -> pd.Series:
    """Compute DCG with linear gains per topic of documents `qid rel`, which must be in rank
    order."""
    ranks = documents.groupby("qid", sort=False).cumcount().to_numpy() + 1
    return (documents["rel"] / np.log2(ranks + 1)).groupby(documents["qid"]).sum()


def compute_measures(
    measures: Mapping[str, Measure], run: pd.DataFrame, qrels: pd.DataFrame, topics: pd.Index
) -> dict[str, pd.Series]:
    """Compute each measure per topic, 0 if the run lacks the topic; `run` and `qrels` must contain
    only `topics`."""
    if run.empty:
        return {name: pd.Series(0.0, index=topics) for name in measures}
    trec_eval = _build_trec_eval(run, qrels, topics)
    with warnings.catch_warnings():  # from trectools with pandas 2
        warnings.simplefilter("ignore", FutureWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        columns = {name: measure(trec_eval).iloc[:, 0] for name, measure in measures.items()}
    indices = range(len(topics))
    return {
        name: column.reindex(indices).fillna(0.0).set_axis(topics)
        for name, column in columns.items()
    }


def compute_bpref(judged_run: pd.DataFrame, qrels: pd.DataFrame, topics: pd.Index) -> pd.Series:
    """Compute bpref per topic from a run's judged documents `qid docno rank score`.

    If a topic has no document judged non-relevant, trectools divides by zero; bpref is then the
    recall of relevant documents.
    """
    trectools_bpref = compute_measures(BPREF_MEASURE, judged_run, qrels, topics)["bpref"]
    relevant_judgments = qrels[qrels["rel"] > 0]
    lacks_non_relevant = ~topics.isin(qrels.loc[qrels["rel"] == 0, "qid"])
    retrieved_counts = (
        judged_run.merge(relevant_judgments[["qid", "docno"]], on=["qid", "docno"])
        .groupby("qid")
        .size()
    )
    recall = (
        (retrieved_counts / relevant_judgments.groupby("qid").size()).reindex(topics).fillna(0.0)
    )
    return pd.Series(np.where(lacks_non_relevant, recall, trectools_bpref), index=topics)


def _build_trec_eval(run: pd.DataFrame, qrels: pd.DataFrame, topics: pd.Index) -> TrecEval:
    # Built in memory because trectools' qrels reader drops negative grades. Integer ids join
    # faster.
    trec_run = TrecRun()
    trec_qrels = TrecQrel()
    ids = pd.factorize(pd.concat([run["docno"], qrels["docno"]]))[0]
    run_ids, qrels_ids = np.split(ids, [len(run)])
    trec_run.run_data = pd.DataFrame(
        {"query": topics.get_indexer(pd.Index(run["qid"])), "q0": "Q0", "docid": run_ids, "rank": run["rank"].to_numpy(),
         "score": run["score"].to_numpy(), "system": "run"}
    )  # fmt: skip
    trec_qrels.qrels_data = pd.DataFrame(
        {
            "query": topics.get_indexer(pd.Index(qrels["qid"])),
            "q0": "0",
            "docid": qrels_ids,
            "rel": qrels["rel"].to_numpy(),
        }
    )
    return TrecEval(trec_run, trec_qrels)
