"""Runs + qrels → measures, with trectools, both ways: unjudged documents as 0, and dropped as Touché scored."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from pathlib import Path

import pandas as pd
from trectools import TrecEval, TrecQrel, TrecRun

from submission import runs
from submission.corpus import corpus_files, read_corpus
from submission.errors import InputError

log = logging.getLogger(__name__)

# trec_eval=True in nDCG means linear gain, elsewhere it means ordering by score; our lines come in rank order, the order
# that Touché's script takes, so everything but nDCG gets False.
MEASURES: dict[str, Callable[[TrecEval], pd.DataFrame]] = {
    "nDCG@5": lambda e: e.get_ndcg(depth=5, per_query=True, trec_eval=True),
    "nDCG@10": lambda e: e.get_ndcg(depth=10, per_query=True, trec_eval=True),
    "MAP": lambda e: e.get_map(depth=1000, per_query=True, trec_eval=False),
    "MRR": lambda e: e.get_reciprocal_rank(depth=1000, per_query=True, trec_eval=False),
    "P@5": lambda e: e.get_precision(depth=5, per_query=True, trec_eval=False),
}


def evaluate(run: pd.DataFrame, qrels: pd.DataFrame) -> pd.DataFrame:
    """Measures of a run per topic.

    Args:
        run: `query q0 docid rank score system`, as read_run gives it.
        qrels: `query q0 docid rel`, as read_qrels gives them.

    Returns:
        One row for each topic of the qrels that has a relevant document, 0 where the run lists none; columns
        `<measure> all` with unjudged documents counted as 0, `<measure> judged` with unjudged documents dropped, and
        `judged@5`, the share of judged documents among the first five.
    """
    topics = pd.Index(sorted(qrels.loc[qrels["rel"] > 0, "query"].unique()), name="query")
    judged = run.merge(qrels[["query", "docid"]], on=["query", "docid"])
    columns = {}
    for way, documents in (("all", run), ("judged", judged)):
        engine = _engine(documents, qrels)
        for name, measure in MEASURES.items():
            with warnings.catch_warnings(action="ignore", category=FutureWarning):  # trectools' own, on pandas 2
                values = measure(engine).iloc[:, 0] if len(documents) else pd.Series(dtype=float)
            columns[f"{name} {way}"] = values.reindex(topics).fillna(0.0)
    top = run.groupby("query").head(5)
    share = top.merge(judged[["query", "docid"]], on=["query", "docid"]).groupby("query").size() / top.groupby("query").size()
    columns["judged@5"] = share.reindex(topics).fillna(0.0)
    return pd.DataFrame(columns)


def read_qrels(file: Path, collection: Path | None = None) -> pd.DataFrame:
    """Read qrels as `query q0 docid rel`; -2 (spam) becomes 0.

    Args:
        file: four columns, labels whole or like `4.0`.
        collection: an input directory; judgments of documents that are not in its corpus are left out.

    Raises:
        InputError: a malformed line, a document judged twice for a topic, nothing relevant left.
    """
    rows = []
    for place, line in runs.numbered_lines(file):
        match line.split():
            case [query, q0, docid, label] if runs.is_number(label) and float(label).is_integer():
                rows.append((query, q0, docid, max(0, int(float(label)))))
            case _:
                raise InputError(f"{place}: expected `topic 0 docno label`, found {line!r}")
    qrels = pd.DataFrame(rows, columns=["query", "q0", "docid", "rel"])
    runs.refuse_repeated(file, qrels.rename(columns={"query": "qid", "docid": "docno"}))
    if collection is not None:
        docnos = set(read_corpus(corpus_files(collection))["docno"])
        present = qrels["docid"].isin(docnos)
        log.info("%d of %d judgments are of documents in %s", present.sum(), len(qrels), collection)
        qrels = qrels[present].reset_index(drop=True)
    if not (qrels["rel"] > 0).any():
        raise InputError(f"{file}: no relevant document; are these the qrels of this corpus version?")
    return qrels


def read_run(file: Path) -> pd.DataFrame:
    """Read a run as `query q0 docid rank score system`, topics in the file's order, ranks ascending. Raises InputError."""
    names = {"qid": "query", "docno": "docid", "tag": "system"}
    return runs.read_run(file).rename(columns=names).assign(q0="Q0")


def table(files: list[Path], qrels: pd.DataFrame) -> pd.DataFrame:
    """The means over the qrels' topics, one row a run."""
    means = {str(file): evaluate(read_run(file), qrels).mean() for file in files}
    return pd.DataFrame(means).T.rename_axis("run")


def _engine(run: pd.DataFrame, qrels: pd.DataFrame) -> TrecEval:
    # Built in memory: trectools' own reader of qrels drops negative labels, and its removeUnjudged is ignored by MRR.
    trec_run, trec_qrels = TrecRun(), TrecQrel()
    trec_run.run_data, trec_qrels.qrels_data = run.reset_index(drop=True), qrels
    return TrecEval(trec_run, trec_qrels)
