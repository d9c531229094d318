"""Score whole debates by a search: the mean score of a debate's best arguments (cluster score)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from submission import lists
from submission.systems.execution import Execution, Stage
from submission.systems.explained import Explained, Row

BEST = 200  # documents of a search that speak for their debates, a topic
KEY = ["qid", "debate"]
IDS = re.compile(  # of args.me, by version; they begin with a hash of the debate's address
    r"(S[0-9a-f]{1,8})-A[0-9a-f]{1,8}"  # 2020-04-01
    r"|([0-9a-f]{8})-[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z-[0-9]+-[0-9]+"  # 1
)


@dataclass(frozen=True)
class ClusterScore(Stage):
    """A document's score is the mean of a search's scores over the document and those of its debate that are among the best.

    It is the score of the document's cluster (Kurland and Lee 2004), the clusters being the debates that people held. Added to
    the search's, arguments of one debate are relevant together; subtracted from it, one stands out among them. A document that
    is the only one of its debate has the search's score.
    """

    search_by: Stage

    checkpoint = None

    def made_of(self) -> tuple[Stage, ...]:
        return (self.search_by,)

    def search(self, execution: Execution) -> pd.DataFrame:
        """All documents of the search."""
        pairs = execution.lists(self.search_by)[["qid", "docno"]]
        return lists.ranked(pairs.assign(score=self.scores(execution, pairs)), execution.topics)

    def scores(self, execution: Execution, pairs: pd.DataFrame) -> np.ndarray:
        best = self._best(execution)
        known = _with_debate(pairs[["qid", "docno"]]).merge(best, on=["qid", "docno", "debate"], how="left")
        known = known.merge(best.groupby(KEY)["score"].agg(["sum", "size"]).reset_index(), on=KEY, how="left")
        total, number = known["sum"].fillna(0.0).to_numpy(), known["size"].fillna(0).to_numpy()
        others = known["score"].isna().to_numpy()
        if others.any():
            own = self.search_by.scores(execution, pairs.loc[others, ["qid", "docno"]].reset_index(drop=True))
            total[others] += own
            number[others] += 1
        return np.asarray(total / number)

    def explain(self, execution: Execution, qid: str, docno: str) -> Explained:
        """Explain the share of each document of the debate."""
        best, debate = self._best(execution), debate_of(docno)
        own = best[(best["qid"] == qid) & (best["debate"] == debate)]
        found = dict(zip(own["docno"], own["score"], strict=True))
        pair = pd.DataFrame({"qid": [qid], "docno": [docno]})
        if docno not in found:
            found[docno] = self.search_by.scores(execution, pair).item()
        rows = [Row(score / len(found), one, f"its score {score:.4f}, divided by {len(found)}") for one, score in found.items()]
        [total] = self.scores(execution, pair).tolist()
        return Explained(total, f"the mean over {len(found)} documents of debate {debate}", rows)

    def metadata(self, name: Callable[[Stage], str]) -> dict[str, Any]:
        return {"averages": name(self.search_by)}

    def _best(self, execution: Execution) -> pd.DataFrame:
        """`qid docno score debate` of the best documents of each topic."""
        found = lists.cut(execution.lists(self.search_by), BEST)
        return _with_debate(found[["qid", "docno", "score"]])


def debate_of(docno: str) -> str:
    """Return the debate of an argument, the prefix of its id; an id of another form is a debate of its own."""
    found = IDS.fullmatch(docno)
    return docno if found is None else found[1] or found[2]


def _with_debate(pairs: pd.DataFrame) -> pd.DataFrame:
    return pairs.assign(debate=[debate_of(docno) for docno in pairs["docno"]])
