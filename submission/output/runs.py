"""Lists → TREC run files `qid Q0 docno rank score tag`, written so that every evaluator orders them alike."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from submission.errors import UsageError

TAG = re.compile(r"[A-Za-z0-9_-]+")


def check_tag(tag: str) -> None:
    """Raises UsageError: a tag that TREC's format or TIREx's evaluator does not take."""
    if not TAG.fullmatch(tag):
        raise UsageError(f"tag {tag!r}: expected letters, digits, - and _ only, no blanks; choose another --team")


def run_text(run: pd.DataFrame, tag: str) -> str:
    """The lines of a run file. Written scores are float32 in positional notation and strictly decreasing.

    Evaluators order by rank, by score, or by line. Where a score does not fall (a tie), the next smaller float32 below the
    one written before is written instead, so that all of them see our order.

    Raises:
        ValueError: scores rise or are not finite, ranks are not 1..n, a document occurs twice.
    """
    lines = []
    for qid, group in run.groupby("qid", sort=False):
        scores = group["score"].to_numpy(dtype=np.float32)
        if not np.isfinite(scores).all() or (np.diff(scores) > 0).any():
            raise ValueError(f"topic {qid}: scores must be finite and must not rise")
        if list(group["rank"]) != list(range(1, len(group) + 1)) or group["docno"].duplicated().any():
            raise ValueError(f"topic {qid}: ranks must be 1..n and documents unique")
        written = np.float32(np.inf)
        for docno, rank, own in zip(group["docno"], group["rank"], scores, strict=True):
            written = min(own, np.nextafter(written, np.float32(-np.inf)))
            lines.append(f"{qid} Q0 {docno} {rank} {np.format_float_positional(written, trim='0')} {tag}\n")
    return "".join(lines)
