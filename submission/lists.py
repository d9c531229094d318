"""The result of every stage: a ranking of documents per topic, as one frame.

qid    str; topics in the input's order
docno  str
rank   int, from 1 within a topic: a stage's own order, among equal scores too
score  float64; does not rise with the rank
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec
import numpy as np
import pandas as pd

COLUMNS = ["qid", "docno", "rank", "score"]
DEPTH = 100  # documents a topic that a run has by default
DEEPEST = 1000  # documents a topic that a run can have


def ranked(scores: pd.DataFrame, topics: pd.DataFrame) -> pd.DataFrame:
    """Lists from scores `qid docno score`: score descending, ties by docno ascending."""
    return _numbered(by_topic(scores, topics, ["score", "docno"], ascending=[False, True]))


def in_given_order(scores: pd.DataFrame, topics: pd.DataFrame) -> pd.DataFrame:
    """Lists from scores `qid docno score`: score descending, ties as they come."""
    return _numbered(by_topic(scores, topics, ["score"], ascending=[False]))


def cut(lists: pd.DataFrame, depth: int) -> pd.DataFrame:
    """The first documents of each topic."""
    return lists[lists["rank"] <= depth].reset_index(drop=True)


def by_topic(frame: pd.DataFrame, topics: pd.DataFrame, columns: list[str], ascending: list[bool]) -> pd.DataFrame:
    """The rows of a frame with `qid`, topics in the topics' order, within a topic by some columns, else as they come."""
    position = frame["qid"].map({qid: number for number, qid in enumerate(topics["qid"])})
    ordered = frame.assign(position=position).sort_values(["position", *columns], ascending=[True, *ascending], kind="stable")
    return ordered.drop(columns="position").reset_index(drop=True)


def refuse_faulty(lists: pd.DataFrame, topics: pd.DataFrame, unknown: Collection[str]) -> None:
    """Check lists at the border of a stage.

    Args:
        lists: what a stage gave.
        topics: of the input.
        unknown: those of the lists' docnos that the input does not have.

    Raises:
        ValueError: other columns, an unknown topic or document, topics in another order, ranks other than 1..n, a document
            twice in a topic, a score that is not finite or rises.
    """
    if lists.columns.tolist() != COLUMNS:
        raise ValueError(f"columns {lists.columns.tolist()}; expected {COLUMNS}")
    topic = lists["qid"].map({qid: number for number, qid in enumerate(topics["qid"])})
    same = lists["qid"].eq(lists["qid"].shift())
    number = lists.groupby("qid", sort=False).cumcount() + 1
    for faulty, what in (
        (topic.isna(), "is not a topic of the input"),
        (~same & topic.le(topic.cummax().shift()), "stands behind a later topic"),
        (lists["docno"].isin(unknown), "has a document that the input does not have"),
        (lists.duplicated(["qid", "docno"]), "has a document twice"),
        (lists["rank"].ne(number), "has ranks other than 1, 2, 3, …"),
        (~np.isfinite(lists["score"]), "has a score that is not finite"),
        (same & lists["score"].gt(lists["score"].shift()), "has a score that rises"),
    ):
        if faulty.any():
            row = lists.loc[faulty.idxmax()]
            raise ValueError(f"topic {row['qid']} {what} ({row['docno']}, rank {row['rank']}, score {row['score']})")


def dumps(lists: pd.DataFrame) -> bytes:
    """The lists as bytes, for `loads`."""
    return msgspec.msgpack.encode(
        (
            lists["qid"].tolist(), lists["docno"].tolist(),
            lists["rank"].to_numpy(np.int64).tobytes(), lists["score"].to_numpy(np.float64).tobytes(),
        )
    )  # fmt: skip


def loads(data: bytes) -> pd.DataFrame:
    """The lists that `dumps` wrote. Raises msgspec.MsgspecError, ValueError."""
    qids, docnos, ranks, scores = msgspec.msgpack.decode(data, type=tuple[list[str], list[str], bytes, bytes])
    return _frame(qids, docnos, np.frombuffer(ranks, np.int64), np.frombuffer(scores, np.float64))


Row = tuple[str, str, int, float]  # qid docno rank score


def rows_of(qid: str, docnos: Iterable[str], scores: np.ndarray) -> list[Row]:
    """Number the documents of a topic, the best first, with their scores (N,)."""
    return [(qid, docno, rank, score) for rank, (docno, score) in enumerate(zip(docnos, scores.tolist(), strict=True), 1)]


def of_rows(rows: list[Row]) -> pd.DataFrame:
    """Lists from rows in their order."""
    qids, docnos, ranks, scores = zip(*rows, strict=True) if rows else ((), (), (), ())
    return _frame(list(qids), list(docnos), np.array(ranks, np.int64), np.array(scores, np.float64))


def _numbered(ordered: pd.DataFrame) -> pd.DataFrame:
    ranks = ordered.groupby("qid", sort=False).cumcount() + 1
    return _frame(
        ordered["qid"].tolist(), ordered["docno"].tolist(), ranks.to_numpy(np.int64), ordered["score"].to_numpy(np.float64)
    )


def _frame(qids: list[str], docnos: list[str], ranks: np.ndarray, scores: np.ndarray) -> pd.DataFrame:
    frame = pd.DataFrame({"qid": qids, "docno": docnos, "rank": ranks, "score": scores})
    return frame.astype({"qid": object, "docno": object})
