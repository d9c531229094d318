"""Lists that an earlier stage made: to be re-ranked, or a run."""

from __future__ import annotations

import logging
from collections.abc import Collection
from pathlib import Path

import numpy as np
import pandas as pd

from submission.errors import InputError, short
from submission.input.files import named
from submission.lists import in_given_order

log = logging.getLogger(__name__)

RUNS = ("run.txt", "run.txt.gz")  # as TIRA hands them over


def run_file(path: Path) -> Path:
    """The run file that a path names or, in a directory, TIRA's run.txt or run.txt.gz. Raises InputError."""
    place = short(str(path), 300)
    try:
        files = named(path, *RUNS) if path.is_dir() else [path]
        if files and (path.is_dir() or path.exists()):
            return files[0]
    except (OSError, ValueError) as error:  # a name that no file can have, a folder that may not be listed
        raise InputError(f"{place}: no run found ({short(str(error))}); expected a run file, or a directory with one") from None
    raise InputError(f"{place}: no run found; expected a run file, or a directory with {' or '.join(RUNS)}")


def given_lists(listed: pd.DataFrame, topics: pd.DataFrame, unknown: Collection[str], source: object) -> pd.DataFrame:
    """A list `qid docno score` as lists: by score descending, ties in the list's order.

    All of its documents, those too short for the collection too: what an earlier stage has chosen is not ours to drop.

    Args:
        listed: the list.
        topics: `qid`; one that the list does not have gets no documents, and a warning.
        unknown: those of its docnos that the input does not have.
        source: the file it comes from, for messages.

    Raises:
        InputError: a topic or document that the input does not have, a pair that occurs twice, a score that is no number.
    """
    for faulty, column, what in (
        (~listed["qid"].isin(set(topics["qid"])), "qid", "topic"),
        (listed["docno"].isin(unknown), "docno", "document"),
    ):
        others = listed[column][faulty]
        if len(others):
            raise InputError(
                f"{source}: {what} {short(others.iloc[0])} and {others.nunique() - 1} more are not in the input; "
                "expected a list made from it: is it of another version?"
            )
    faulty = listed[listed.duplicated(["qid", "docno"]) | ~np.isfinite(listed["score"])]
    if len(faulty):
        qid, docno = faulty["qid"].iloc[0], faulty["docno"].iloc[0]
        raise InputError(f"{source}: document {short(docno)} of topic {short(qid)} occurs twice or has no finite score")
    for qid in topics["qid"][~topics["qid"].isin(set(listed["qid"]))]:
        log.warning("topic %s: %s has no documents for it; its list is empty", qid, source)
    return in_given_order(listed, topics)
