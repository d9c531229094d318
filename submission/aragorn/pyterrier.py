"""Transformers of PyTerrier (Macdonald and Tonellotto 2020); the extra `pyterrier` installs it.

>>> from aragorn.pyterrier import Reranker, Retriever
>>> pipeline = Retriever("bm25", Path("input")) % 50 >> Reranker("knrm", Path("input"))
>>> pipeline.search("Should zoos be abolished?")
"""

from os import PathLike

import pandas as pd
import pyterrier as pt

from aragorn.rankings import MAX_DEPTH, make_strictly_decreasing
from aragorn.search.api import LoadedSystem, load_system
from aragorn.search.inputs import Arguments


class Retriever(pt.Transformer):
    """Retrieves arguments: `qid query` to `qid query docno rank score`."""

    def __init__(
        self,
        system: str | LoadedSystem,
        arguments: Arguments,
        cache_dir: str | PathLike[str] | None = None,
        depth: int = MAX_DEPTH,
    ) -> None:
        """Index arguments, see `LoadedSystem.index`; `depth` is the maximum number per query."""
        self.system = load_system(system) if isinstance(system, str) else system
        self.depth = depth
        self._index = self.system.index(arguments, cache_dir)

    def transform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Add the retrieved arguments; columns of a previous retrieval are replaced."""
        pt.validate.query_frame(frame, extra_columns=["query"])
        queries = frame.drop(columns=["docno", "docid", "rank", "score"], errors="ignore")
        queries = queries.drop_duplicates("qid")
        hits = self._index.search(queries[["qid", "query"]], self.depth)
        return _to_results(queries.merge(hits, on="qid"))

    def __repr__(self) -> str:
        return f"Retriever({self.system.system.name!r})"


class Reranker(pt.Transformer):
    """Scores the arguments of a retrieval with a network, replacing `score` and `rank`."""

    def __init__(
        self,
        system: str | LoadedSystem,
        arguments: Arguments | None = None,
        cache_dir: str | PathLike[str] | None = None,
    ) -> None:
        """Index arguments; None: read the retrieval's texts, `text` or `conclusion premise`."""
        self.system = load_system(system) if isinstance(system, str) else system
        self._index = None if arguments is None else self.system.index(arguments, cache_dir)

    def transform(self, frame: pd.DataFrame) -> pd.DataFrame:
        pt.validate.result_frame(frame, extra_columns=["query"])
        queries = frame[["qid", "query"]].drop_duplicates("qid")
        if self._index is not None:
            scores = self._index.rerank(queries, frame)
        else:
            texts = ["conclusion", "premise"] if "premise" in frame else ["text"]
            pt.validate.columns(frame, includes=texts)
            documents = frame[["docno", *texts]].drop_duplicates("docno")
            with self.system.index(documents) as index:
                scores = index.rerank(queries, frame)
        other_columns = frame.drop(columns=["rank", "score"], errors="ignore")
        return _to_results(other_columns.merge(scores, on=["qid", "docno"]))

    def __repr__(self) -> str:
        return f"Reranker({self.system.system.name!r})"


def _to_results(hits: pd.DataFrame) -> pd.DataFrame:
    """Number ranks from 0, sort by them, and break ties of scores as in run files."""
    hits = hits.assign(rank=hits["rank"] - 1)
    order = hits.groupby("qid", sort=False).ngroup()
    hits = hits.assign(order=order).sort_values(["order", "rank"]).drop(columns="order")
    scores = hits.groupby("qid", sort=False)["score"].transform(
        lambda group: pd.Series(make_strictly_decreasing(group.to_numpy()), group.index)
    )
    return hits.assign(score=scores)
