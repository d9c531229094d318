"""Cluster score (Kurland and Lee 2004): the mean score of a debate's top-ranked arguments."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from aragorn.explanation import Explanation, Row
from aragorn.pipeline.retrieval import Retrieval, Stage
from aragorn.rankings import truncate_rankings

if TYPE_CHECKING:
    import pandas as pd

CLUSTER_DEPTH = 200  # top documents per topic that contribute to their debates' scores
DEBATE_COLUMNS = ["qid", "debate"]
# args.me ids, per corpus version; they start with a hash of the debate's URL
DEBATE_ID_PATTERN = re.compile(
    r"(S[0-9a-f]{1,8})-A[0-9a-f]{1,8}"  # version 2020-04-01
    # version 1
    r"|([0-9a-f]{8})-[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z-[0-9]+-[0-9]+"
)


@dataclass(frozen=True)
class ClusterScoreStage(Stage):
    """The mean retrieval score of a document and the top-ranked documents of its debate.

    This is the document's cluster score (Kurland and Lee 2004), with debates as clusters. It equals
    the retrieval score if no other document of the debate is in the top `CLUSTER_DEPTH`. In a
    fusion, a positive weight favours documents of relevant debates; a negative one favours
    documents that stand out within their debate.
    """

    retriever: Stage

    version = 1
    family = "lexical"
    checkpoint = None

    def get_dependencies(self) -> tuple[Stage, ...]:
        return (self.retriever,)

    def search(self, retrieval: Retrieval) -> pd.DataFrame:
        return self.rank_pairs(retrieval, retrieval.rank(self.retriever)[["qid", "docno"]])

    def score(self, retrieval: Retrieval, pairs: pd.DataFrame) -> np.ndarray:
        top_documents = self._get_top_documents(retrieval)
        scored_pairs = _add_debate_ids(pairs[["qid", "docno"]]).merge(
            top_documents, on=["qid", "docno", "debate"], how="left"
        )
        totals = top_documents.groupby(DEBATE_COLUMNS)["score"].agg(["sum", "size"]).reset_index()
        scored_pairs = scored_pairs.merge(totals, on=DEBATE_COLUMNS, how="left")
        total = scored_pairs["sum"].fillna(0.0).to_numpy()
        count = scored_pairs["size"].fillna(0).to_numpy()
        is_unranked = scored_pairs["score"].isna().to_numpy()
        if is_unranked.any():
            unranked_pairs = pairs.loc[is_unranked, ["qid", "docno"]].reset_index(drop=True)
            total[is_unranked] += self.retriever.score(retrieval, unranked_pairs)
            count[is_unranked] += 1
        return np.asarray(total / count)

    def explain(self, retrieval: Retrieval, qid: str, docno: str) -> Explanation:
        """Break the score down by document of the debate in the top, and the document itself."""
        top_documents = self._get_top_documents(retrieval)
        debate = parse_debate_id(docno)
        members = top_documents[(top_documents["qid"] == qid) & (top_documents["debate"] == debate)]
        score_by_docno = dict(zip(members["docno"], members["score"], strict=True))
        if docno not in score_by_docno:
            score_by_docno[docno] = self.retriever.score_document(retrieval, qid, docno)
        count = len(score_by_docno)
        items = score_by_docno.items()
        rows = [
            Row(score / count, member, f"retrieval score {score:.4f} / {count}")
            for member, score in items
        ]
        summary = f"mean retrieval score of {count} documents of debate {debate}"
        return Explanation(self.score_document(retrieval, qid, docno), rows, summary)

    def get_metadata(self, get_name: Callable[[Stage], str]) -> dict[str, Any]:
        return {"averages": get_name(self.retriever)}

    def _get_top_documents(self, retrieval: Retrieval) -> pd.DataFrame:
        ranking = truncate_rankings(retrieval.rank(self.retriever), CLUSTER_DEPTH)
        return _add_debate_ids(ranking[["qid", "docno", "score"]])


def parse_debate_id(docno: str) -> str:
    """Return the debate id of a docno (its prefix), or the docno if it is not of args.me."""
    match = DEBATE_ID_PATTERN.fullmatch(docno)
    return docno if match is None else match[1] or match[2]


def _add_debate_ids(pairs: pd.DataFrame) -> pd.DataFrame:
    return pairs.assign(debate=[parse_debate_id(docno) for docno in pairs["docno"]])
