"""Evaluate runs per topic: Touché's nDCG@5, bpref, and trectools' measures on condensed lists and
on all documents."""

import pandas as pd

from aragorn_training.evaluation.measures import (
    MEASURES,
    TOUCHE_NDCG,
    compute_bpref,
    compute_measures,
    compute_touche_ndcg,
)

# unjudged documents count as non-relevant; are removed before the cut-off
ALL, CONDENSED = "all", "condensed"
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
    run, qrels = (
        run[run["qid"].isin(topics)],
        qrels[qrels["qid"].isin(topics)].reset_index(drop=True),
    )
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
