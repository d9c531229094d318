"""Sort, validate and serialise rankings, and format their runs. Rankings are frames `qid docno rank
score` with the ranked documents of all topics.

qid    str; topics in input order
docno  str
rank   int64, from 1 per topic; defines the order of documents, including those with equal scores
score  float64, non-increasing per topic

The lines of a run are `qid Q0 docno rank score tag`; scores strictly decrease, so that all
evaluators use the same order.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from aragorn.errors import UsageError, abbreviate

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ["qid", "docno", "rank", "score"]
TAG_PATTERN = re.compile(r"[A-Za-z0-9_-]+")  # run tags
# documents per topic in a run
DEFAULT_DEPTH = 100
MAX_DEPTH = 1000
MAX_TAG_LENGTH = 200  # the tag is also the name of the run file
MAX_SCORE = np.finfo(np.float32).max


def rank_by_score(scores: pd.DataFrame, topics: pd.DataFrame) -> pd.DataFrame:
    """Rank `qid docno score` by descending score per topic, breaking ties by ascending docno."""
    return _add_ranks(sort_by_topic(scores, topics, ["score", "docno"], ascending=[False, True]))


def rank_by_score_stable(scores: pd.DataFrame, topics: pd.DataFrame) -> pd.DataFrame:
    """Rank `qid docno score` by descending score per topic, keeping the order of ties."""
    return _add_ranks(sort_by_topic(scores, topics, ["score"], ascending=[False]))


def truncate_rankings(rankings: pd.DataFrame, depth: int) -> pd.DataFrame:
    return rankings[rankings["rank"] <= depth].reset_index(drop=True)


def sort_by_topic(
    frame: pd.DataFrame, topics: pd.DataFrame, columns: list[str], ascending: list[bool]
) -> pd.DataFrame:
    """Sort rows stably by the position of their topic, then by `columns`."""
    position = frame["qid"].map({qid: index for index, qid in enumerate(topics["qid"])})
    ordered = frame.assign(position=position).sort_values(
        ["position", *columns], ascending=[True, *ascending], kind="stable"
    )
    return ordered.drop(columns="position").reset_index(drop=True)


def validate_rankings(
    rankings: pd.DataFrame, topics: pd.DataFrame, unknown_docnos: Collection[str]
) -> None:
    """Validate the rankings of a stage; `unknown_docnos` are those not in the input.

    Raises ValueError if columns, topic order or ranks are invalid, a topic or document is unknown,
    a document is repeated, or scores are not finite or increase.
    """
    if rankings.columns.tolist() != COLUMNS:
        raise ValueError(f"columns {rankings.columns.tolist()}; expected {COLUMNS}")
    topic_index = rankings["qid"].map({qid: index for index, qid in enumerate(topics["qid"])})
    is_same_topic = rankings["qid"].eq(rankings["qid"].shift())
    expected_rank = rankings.groupby("qid", sort=False).cumcount() + 1
    for is_invalid, reason in (
        (topic_index.isna(), "not in the input"),
        (~is_same_topic & topic_index.le(topic_index.cummax().shift()), "out of topic order"),
        (rankings["docno"].isin(unknown_docnos), "unknown document"),
        (rankings.duplicated(["qid", "docno"]), "duplicate document"),
        (rankings["rank"].ne(expected_rank), "ranks must be 1, 2, 3, …"),
        (~np.isfinite(rankings["score"]), "score not finite"),
        (is_same_topic & rankings["score"].gt(rankings["score"].shift()), "score increases"),
    ):
        if is_invalid.any():
            row = rankings.loc[is_invalid.idxmax()]
            pair = f"{row['docno']}, rank {row['rank']}, score {row['score']}"
            raise ValueError(f"topic {row['qid']}: {reason} ({pair})")


def encode_rankings(rankings: pd.DataFrame) -> bytes:
    ranks = rankings["rank"].to_numpy(np.int64)
    scores = rankings["score"].to_numpy(np.float64)
    return msgspec.msgpack.encode(
        (rankings["qid"].tolist(), rankings["docno"].tolist(), ranks.tobytes(), scores.tobytes())
    )


def decode_rankings(data: bytes) -> pd.DataFrame:
    """Deserialise rankings; raise MsgspecError or ValueError if they are damaged."""
    qids, docnos, ranks, scores = msgspec.msgpack.decode(
        data, type=tuple[list[str], list[str], bytes, bytes]
    )
    return _build_frame(
        qids, docnos, np.frombuffer(ranks, np.int64), np.frombuffer(scores, np.float64)
    )


def build_rankings(rows: Iterable[tuple[str, str, float]]) -> pd.DataFrame:
    """Build rankings from `qid docno score` of documents in ranking order, in topic order."""
    import pandas as pd

    return _add_ranks(pd.DataFrame(rows, columns=["qid", "docno", "score"]))


def _add_ranks(ordered: pd.DataFrame) -> pd.DataFrame:
    ranks = (ordered.groupby("qid", sort=False).cumcount() + 1).to_numpy(np.int64)
    return _build_frame(
        ordered["qid"].tolist(),
        ordered["docno"].tolist(),
        ranks,
        ordered["score"].to_numpy(np.float64),
    )


def _build_frame(
    qids: list[str], docnos: list[str], ranks: np.ndarray, scores: np.ndarray
) -> pd.DataFrame:
    import pandas as pd

    frame = pd.DataFrame({"qid": qids, "docno": docnos, "rank": ranks, "score": scores})
    return frame.astype({"qid": object, "docno": object})


def check_tag(tag: str) -> None:
    """Raise UsageError if a run tag is invalid in TREC's format or for the TIREx evaluator."""
    if not TAG_PATTERN.fullmatch(tag) or len(tag) > MAX_TAG_LENGTH:
        rule = f"use at most {MAX_TAG_LENGTH} letters, digits, - or _"
        raise UsageError(
            f"invalid tag '{abbreviate(tag)}': {rule}; choose another --team or --label"
        )


def format_run(run: pd.DataFrame, tag: str) -> str:
    """Format rankings as the lines of a run file.

    Scores are float32 in positional notation. A tied score is replaced by the next smaller one, so
    that evaluators agree, whether they order documents by rank, by score or by line. Raises
    ValueError if scores increase or are not finite, ranks are not 1..n, or a document is repeated.
    """
    lines = []
    for qid, group in run.groupby("qid", sort=False):
        scores = group["score"].to_numpy(dtype=float)
        if not np.isfinite(scores).all() or (np.diff(scores) > 0).any():
            raise ValueError(f"topic {qid}: scores must be finite and non-increasing")
        if (
            list(group["rank"]) != list(range(1, len(group) + 1))
            or group["docno"].duplicated().any()
        ):
            raise ValueError(f"topic {qid}: ranks must be 1..n and documents must be unique")
        for docno, rank, score in zip(
            group["docno"], group["rank"], make_strictly_decreasing(scores), strict=True
        ):
            lines.append(
                f"{qid} Q0 {docno} {rank} {np.format_float_positional(score, trim='0')} {tag}\n"
            )
    return "".join(lines)


def make_strictly_decreasing(scores: np.ndarray) -> list[np.float32]:
    """Convert non-increasing float64 scores (N,) to the closest strictly decreasing float32."""
    rounded_scores = np.clip(scores, -MAX_SCORE, MAX_SCORE).astype(np.float32)
    decreasing_scores = []
    lower_bounds = [-MAX_SCORE]
    previous_score = np.float32(np.inf)
    with np.errstate(over="ignore"):  # nextafter may reach -inf; the lower bounds correct it
        for score in rounded_scores:
            previous_score = min(score, np.nextafter(previous_score, np.float32(-np.inf)))
            decreasing_scores.append(previous_score)
    for _ in rounded_scores[1:]:  # leave room for the following scores
        lower_bounds.append(np.nextafter(lower_bounds[-1], np.float32(np.inf)))
    return list(map(max, decreasing_scores, reversed(lower_bounds)))
