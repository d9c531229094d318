"""Candidates that an earlier stage has retrieved: a list to be re-ranked, or a run."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pandas as pd

from submission.errors import InputError

log = logging.getLogger(__name__)

RUNS = ("run.txt", "run.txt.gz")  # as TIRA hands them over


def run_file(path: Path) -> Path:
    """The run file that a path names or, in a directory, TIRA's run.txt or run.txt.gz. Raises InputError."""
    files = [path] if path.is_file() else [path / name for name in RUNS if (path / name).is_file()]
    if not files:
        raise InputError(f"{path}: no run found; expected a run file, or a directory with {' or '.join(RUNS)}")
    return files[0]


def given_candidates(given: pd.DataFrame, topics: pd.DataFrame, documents: pd.DataFrame, source: object) -> pd.DataFrame:
    """A list `qid docno score` as candidates `qid docno rank score`: by score descending, ties in the list's order.

    All of them are ranked, those too short for the collection too: what an earlier stage has chosen is not ours to drop.

    Args:
        given: the list.
        topics: `qid`; one that the list does not have gets no candidates, and a warning.
        documents: `docno`.
        source: the file it comes from, for messages.

    Raises:
        InputError: a topic or document that the input does not have, a pair that occurs twice, a score that is no number.
    """
    for column, known, what in (("qid", topics["qid"], "topic"), ("docno", documents["docno"], "document")):
        unknown = given[column][~given[column].isin(set(known))]
        if len(unknown):
            raise InputError(
                f"{source}: {what} {unknown.iloc[0]} and {unknown.nunique() - 1} more are not in the input; "
                "expected a list made from it: is it of another version?"
            )
    faulty = given[given.duplicated(["qid", "docno"]) | ~np.isfinite(given["score"])]
    if len(faulty):
        qid, docno = faulty["qid"].iloc[0], faulty["docno"].iloc[0]
        raise InputError(f"{source}: document {docno} of topic {qid} occurs twice or has no finite score")
    for qid in topics["qid"][~topics["qid"].isin(set(given["qid"]))]:
        log.warning("topic %s: %s has no documents for it; its list is empty", qid, source)
    position = given["qid"].map({qid: number for number, qid in enumerate(topics["qid"])})
    ordered = given.assign(position=position).sort_values(["position", "score"], ascending=[True, False], kind="stable")
    ranked = ordered.assign(rank=ordered.groupby("position").cumcount() + 1)
    return ranked[["qid", "docno", "rank", "score"]].reset_index(drop=True).astype({"rank": int, "score": float})
