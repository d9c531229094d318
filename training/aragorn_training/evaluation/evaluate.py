"""Evaluate runs per topic by the measures of ir_measures (trec_eval) and by Touché's nDCG@5.

Measures have the names of ir_measures; `judged_only=True` removes unjudged documents before the
cut-off, otherwise they are not relevant. Grades above 0 are relevant; nDCG has linear gains.
"""

import warnings
from collections.abc import Sequence

import ir_measures
import numpy as np
import pandas as pd
from trectools import TrecEval, TrecQrel, TrecRun

from aragorn.errors import UsageError, abbreviate

VERSION = 1  # of the measures of the same runs
COMPUTES_WITH = ("ir-measures", "numpy", "pandas", "pytrec-eval-terrier", "trectools")

TOUCHE_NDCG = "nDCG@5-touche"  # unjudged documents are removed after the cut-off
TOUCHE_DEPTH = 5
JUDGED_ONLY_NDCG = "nDCG(judged_only=True)@5"
NDCG = "nDCG@5"
AP = "AP"
BPREF = "Bpref"
JUDGED = "Judged@5"  # share of judged documents in the top five
# reported for every run, in this order
HEADLINE_MEASURES = (TOUCHE_NDCG, JUDGED_ONLY_NDCG, NDCG)
COMPACT_MEASURES = (*HEADLINE_MEASURES, BPREF, JUDGED)
ALL_MEASURES = (
    TOUCHE_NDCG,
    *(f"nDCG(judged_only=True)@{depth}" for depth in (5, 10, 25)),
    *(f"{name}(judged_only=True)" for name in ("AP", "RR", "Rprec")),
    "P(judged_only=True)@5",
    *(f"nDCG@{depth}" for depth in (5, 10, 25)),
    *(AP, "RR", "Rprec", "P@5", BPREF, JUDGED, "Judged@10"),
)
MAX_GRADE = 10**6  # trec_eval allocates memory in proportion to the largest grade


def parse_measure(name: str) -> str:
    """Return the name that ir_measures gives a measure; raise UsageError if it is unknown."""
    if name == TOUCHE_NDCG:
        return name
    try:
        measure = ir_measures.parse_measure(name)
    except (NameError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise UsageError(
            f"unknown measure '{abbreviate(name)}' ({abbreviate(str(error))}); pass a name of "
            f"ir_measures, e.g. nDCG@10 or P(rel=2)@5, or {TOUCHE_NDCG}"
        ) from None
    _require_provider(measure)
    return str(measure)


def _require_provider(measure: ir_measures.Measure) -> None:
    """Raise UsageError if parameters of a measure are missing or invalid, or the package that
    computes it is."""
    for parameter in ("cutoff", "rel"):
        value = measure.params.get(parameter, 1)
        if isinstance(value, int) and not 1 <= value <= MAX_GRADE:
            expected = f"expected an integer from 1 to {MAX_GRADE:,}"
            raise UsageError(f"measure {measure}: invalid {parameter} {value}; {expected}")
    providers = ir_measures.DefaultPipeline.providers
    try:
        matching = [provider for provider in providers if provider.supports(measure)]
    except AssertionError:
        matching = []
    if not matching:
        parameters = ", ".join(measure.SUPPORTED_PARAMS)
        reason = f"not computed with these parameters; it has {parameters or 'none'}"
        raise UsageError(f"measure {measure}: {reason}, see https://ir-measur.es")
    if not any(provider.is_available() for provider in matching):
        fix = matching[0].install_instructions()
        raise UsageError(f"measure {measure}: needs another package; {fix}, or choose another")


def evaluate_run(
    run: pd.DataFrame, qrels: pd.DataFrame, measures: Sequence[str] = ALL_MEASURES
) -> pd.DataFrame:
    """Evaluate a run `qid docno`, in rank order, per topic of qrels `qid docno rel`.

    Returns:
        One row per qrels topic with a relevant document, by qid, and a column per measure. If the
        run lacks the topic, values are 0, except nDCG@5-touche, which is NaN, as it also is if no
        document in the top five is judged.
    """
    topics = get_evaluated_topics(qrels)
    run = run[run["qid"].isin(topics)]
    qrels = qrels.loc[qrels["qid"].isin(topics), ["qid", "docno", "rel"]]
    names = {ir_measures.parse_measure(name): name for name in measures if name != TOUCHE_NDCG}
    table = pd.DataFrame(0.0, topics, [*names.values()])
    judgments = qrels.set_axis(["query_id", "doc_id", "relevance"], axis="columns")
    is_exact = bool((qrels["rel"] % 1 == 0).all()) and qrels["rel"].max() <= MAX_GRADE
    if not is_exact:  # trec_eval reads integers; a positive grade stays relevant
        grades = np.ceil(qrels["rel"].clip(upper=1)) * np.floor(qrels["rel"]).clip(1, MAX_GRADE)
        judgments["relevance"] = grades.astype(int)
    # trec_eval sorts by score, and equal scores by docno
    ranks = run.groupby("qid").cumcount().to_numpy(float)
    documents = pd.DataFrame({"query_id": run["qid"], "doc_id": run["docno"], "score": -ranks})
    for value in ir_measures.iter_calc([*names], judgments, documents) if len(run) else ():
        table.at[value.query_id, names[value.measure]] = value.value
    for measure in () if is_exact else names:
        if measure.NAME == "nDCG" and measure.params.keys() <= {"cutoff", "judged_only"}:
            ranking = run.merge(qrels) if measure.params.get("judged_only") else run
            depth = measure.params.get("cutoff", len(run))
            column = _compute_ndcg(ranking, qrels, depth).reindex(topics)
            table[names[measure]] = column.fillna(0.0)
    if TOUCHE_NDCG in measures:
        table[TOUCHE_NDCG] = compute_touche_ndcg(run, qrels, topics)
    return table[[*measures]]


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
    top_rows = run.groupby("qid", sort=False).head(TOUCHE_DEPTH)
    judged_top = top_rows.merge(qrels[["qid", "docno"]])
    values = _compute_ndcg(judged_top, qrels, TOUCHE_DEPTH).reindex(topics)
    # trectools gives no value to a ranking without a relevant document
    return values.where(values.notna() | ~topics.isin(judged_top["qid"]), 0.0)


def _compute_ndcg(run: pd.DataFrame, qrels: pd.DataFrame, depth: int) -> pd.Series:
    """Compute nDCG with linear gains by topic; a topic has none without a relevant document."""
    trec_run = TrecRun()
    trec_run.run_data = run[["qid", "docno"]].set_axis(["query", "docid"], axis="columns")
    trec_run.run_data["score"] = 0.0
    trec_qrels = TrecQrel()
    trec_qrels.qrels_data = qrels.set_axis(["query", "docid", "rel"], axis="columns")
    with warnings.catch_warnings():  # from trectools with pandas 2
        warnings.simplefilter("ignore")
        values: pd.DataFrame = TrecEval(trec_run, trec_qrels).get_ndcg(depth, per_query=True)
    return values.iloc[:, 0]
