"""Format TREC run files.

Lines have the format `qid Q0 docno rank score tag`; scores strictly decrease, so that all
evaluators use the same order.
"""

import numpy as np
import pandas as pd

from aragorn.errors import UsageError, abbreviate
from aragorn.rankings import TAG_PATTERN

MAX_TAG_LENGTH = 200  # the tag is also the name of the run file
MAX_SCORE = np.finfo(np.float32).max


def check_tag(tag: str) -> None:
    """Raise UsageError if a run tag is invalid in the TREC format or rejected by the TIREx
    evaluator."""
    if not TAG_PATTERN.fullmatch(tag) or len(tag) > MAX_TAG_LENGTH:
        rule = f"use at most {MAX_TAG_LENGTH} letters, digits, - or _"
        raise UsageError(
            f"invalid tag '{abbreviate(tag)}': {rule}; choose another --team or --label"
        )


def format_run(run: pd.DataFrame, tag: str) -> str:
    """Format rankings `qid docno rank score` as the lines of a run file.

    Scores are written as float32 in positional notation. A tied score is replaced by the next
    smaller float32, so that evaluators agree, whether they order documents by rank, by score or by
    line.

    Raises:
        ValueError: If scores increase or are not finite, ranks are not 1..n, or a document is
            repeated.
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
    """Convert non-increasing float64 scores (N,) to strictly decreasing float32, each as close to
    the original as possible."""
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
