"""Rankings: one frame `qid docno rank score` with the ranked documents of all topics.

qid    str; topics in the input's order
docno  str
rank   int, from 1 per topic; the order of the documents, also among equal scores
score  float64; non-increasing with rank
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec
import numpy as np
import pandas as pd

COLUMNS = ["qid", "docno", "rank", "score"]
DEPTH = 100  # default number of documents per topic of a run
DEEPEST = 1000  # maximum number of documents per topic of a run


def ranked(scores: pd.DataFrame, topics: pd.DataFrame) -> pd.DataFrame:
    """Rank `qid docno score` by descending score, ties by ascending docno."""
    return _numbered(by_topic(scores, topics, ["score", "docno"], ascending=[False, True]))


def in_given_order(scores: pd.DataFrame, topics: pd.DataFrame) -> pd.DataFrame:
    """Rank `qid docno score` by descending score, ties in input order."""
    return _numbered(by_topic(scores, topics, ["score"], ascending=[False]))


def cut(lists: pd.DataFrame, depth: int) -> pd.DataFrame:
    """Keep the first `depth` documents of each topic."""
    return lists[lists["rank"] <= depth].reset_index(drop=True)


def by_topic(frame: pd.DataFrame, topics: pd.DataFrame, columns: list[str], ascending: list[bool]) -> pd.DataFrame:
    """Sort rows by the order of the topics, then by columns; stable."""
    position = frame["qid"].map({qid: index for index, qid in enumerate(topics["qid"])})
    ordered = frame.assign(position=position).sort_values(["position", *columns], ascending=[True, *ascending], kind="stable")
    return ordered.drop(columns="position").reset_index(drop=True)


def refuse_faulty(lists: pd.DataFrame, topics: pd.DataFrame, unknown: Collection[str]) -> None:
    """Validate the rankings returned by a stage.

    Args:
        lists: Rankings of a stage.
        topics: Topics of the input.
        unknown: Docnos of the rankings that the input lacks.

    Raises:
        ValueError: If columns, topic order or ranks (1..n) are wrong, a topic or document is unknown, a document is repeated,
            or scores are not finite or increase.
    """
    if lists.columns.tolist() != COLUMNS:
        raise ValueError(f"columns {lists.columns.tolist()}; expected {COLUMNS}")
    topic_index = lists["qid"].map({qid: index for index, qid in enumerate(topics["qid"])})
    same_topic = lists["qid"].eq(lists["qid"].shift())
    expected_rank = lists.groupby("qid", sort=False).cumcount() + 1
    for is_invalid, reason in (
        (topic_index.isna(), "not in the input"),
        (~same_topic & topic_index.le(topic_index.cummax().shift()), "out of topic order"),
        (lists["docno"].isin(unknown), "unknown document"),
        (lists.duplicated(["qid", "docno"]), "duplicate document"),
        (lists["rank"].ne(expected_rank), "ranks must be 1, 2, 3, …"),
        (~np.isfinite(lists["score"]), "score not finite"),
        (same_topic & lists["score"].gt(lists["score"].shift()), "score increases"),
    ):
        if is_invalid.any():
            row = lists.loc[is_invalid.idxmax()]
            raise ValueError(f"topic {row['qid']}: {reason} ({row['docno']}, rank {row['rank']}, score {row['score']})")


def dumps(lists: pd.DataFrame) -> bytes:
    """Serialise rankings."""
    return msgspec.msgpack.encode(
        (
            lists["qid"].tolist(), lists["docno"].tolist(),
            lists["rank"].to_numpy(np.int64).tobytes(), lists["score"].to_numpy(np.float64).tobytes(),
        )
    )  # fmt: skip


def loads(data: bytes) -> pd.DataFrame:
    """Deserialise rankings.

    Raises:
        msgspec.MsgspecError, ValueError: If the bytes are damaged.
    """
    qids, docnos, ranks, scores = msgspec.msgpack.decode(data, type=tuple[list[str], list[str], bytes, bytes])
    return _frame(qids, docnos, np.frombuffer(ranks, np.int64), np.frombuffer(scores, np.float64))


Row = tuple[str, str, int, float]  # qid docno rank score


def rows_of(qid: str, docnos: Iterable[str], scores: np.ndarray) -> list[Row]:
    """Return rows for the documents of a topic in order, with ranks from 1; scores (N,)."""
    return [(qid, docno, rank, score) for rank, (docno, score) in enumerate(zip(docnos, scores.tolist(), strict=True), 1)]


def of_rows(rows: list[Row]) -> pd.DataFrame:
    """Build rankings from rows."""
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
