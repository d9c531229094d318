"""Lists → TREC run files `qid Q0 docno rank score tag`, written so that every evaluator orders them alike."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from submission.errors import UsageError, short

TAG = re.compile(r"[A-Za-z0-9_-]+")
LONGEST_TAG = 200  # characters: with its ending a run's name is a file's
LARGEST = np.finfo(np.float32).max


def check_tag(tag: str) -> None:
    """Raises UsageError: a tag that TREC's format or TIREx's evaluator does not take."""
    if not TAG.fullmatch(tag) or len(tag) > LONGEST_TAG:
        expected = f"expected letters, digits, - and _ only, no blanks, at most {LONGEST_TAG} of them"
        raise UsageError(f"tag '{short(tag)}': {expected}; choose another --team")


def run_text(run: pd.DataFrame, tag: str) -> str:
    """The lines of a run file. Written scores are float32 in positional notation and strictly decreasing.

    Evaluators order by rank, by score, or by line. Where a score does not fall (a tie), the next smaller float32 below the
    one written before is written instead, so that all of them see our order.

    Raises:
        ValueError: scores rise or are not finite, ranks are not 1..n, a document occurs twice.
    """
    lines = []
    for qid, group in run.groupby("qid", sort=False):
        scores = group["score"].to_numpy(dtype=float)
        if not np.isfinite(scores).all() or (np.diff(scores) > 0).any():
            raise ValueError(f"topic {qid}: scores must be finite and must not rise")
        if list(group["rank"]) != list(range(1, len(group) + 1)) or group["docno"].duplicated().any():
            raise ValueError(f"topic {qid}: ranks must be 1..n and documents unique")
        for docno, rank, written in zip(group["docno"], group["rank"], _falling(scores), strict=True):
            lines.append(f"{qid} Q0 {docno} {rank} {np.format_float_positional(written, trim='0')} {tag}\n")
    return "".join(lines)


def _falling(scores: np.ndarray) -> list[np.float32]:
    """Scores (N,) float64 that do not rise as float32 that fall strictly, each as near to its own as that allows."""
    own = np.clip(scores, -LARGEST, LARGEST).astype(np.float32)
    falling, floor = [], [-LARGEST]
    before = np.float32(np.inf)
    with np.errstate(over="ignore"):  # below the lowest number comes -inf, which the floor lifts
        for score in own:
            before = min(score, np.nextafter(before, np.float32(-np.inf)))
            falling.append(before)
    for _ in own[1:]:  # those behind need room above the lowest number there is
        floor.append(np.nextafter(floor[-1], np.float32(np.inf)))
    return [max(pair) for pair in zip(falling, reversed(floor), strict=True)]
