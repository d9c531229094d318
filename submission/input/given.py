"""Lists that an earlier stage made: to be re-ranked, or a run."""

from __future__ import annotations

import logging
from collections.abc import Collection

import pandas as pd

from submission.errors import InputError, short
from submission.input.joining import joined_by, share
from submission.input.ordered import with_falling_scores
from submission.lists import in_given_order

log = logging.getLogger(__name__)


def given_lists(listed: pd.DataFrame, topics: pd.DataFrame, unknown: Collection[str], source: object) -> pd.DataFrame:
    """Check a list in its order `qid docno rank score` at the border, and give it as lists of all topics.

    All of its documents, those too short for the collection too: what an earlier stage has chosen is not ours to drop.

    Args:
        listed: the list.
        topics: `qid`; one that the list does not have gets no documents, and a warning.
        unknown: those of its docnos that the input does not have.
        source: the file it comes from, for messages.

    Raises:
        InputError: a topic or document that the input does not have, a pair that occurs twice.
    """
    known = set(topics["qid"])
    for faulty, column, what in (
        (~listed["qid"].isin(known), "qid", "topic"),
        (listed["docno"].isin(unknown), "docno", "document"),
    ):
        others = listed[column][faulty]
        if len(others):
            number, total = others.nunique(), listed[column].nunique()
            rule = joined_by(sorted(set(others)), known) if column == "qid" and number == total else ""
            raise InputError(
                f"{source}: {share(number, total, what)} in the input, the first is {short(others.iloc[0])}; "
                f"expected a list made from this input: is it of another version?{rule}"
            )
    repeated = listed[listed.duplicated(["qid", "docno"])]
    if len(repeated):
        qid, docno = repeated["qid"].iloc[0], repeated["docno"].iloc[0]
        raise InputError(f"{source}: document {short(docno)} occurs twice in topic {short(qid)}; remove one of them")
    without = topics["qid"][~topics["qid"].isin(set(listed["qid"]))]
    if len(without):
        named = ", ".join(map(short, without[:5])) + (", …" if len(without) > 5 else "")
        log.warning("%s: no documents for %d of %d topics (%s): empty lists", source, len(without), len(topics), named)
    return in_given_order(with_falling_scores(listed, source), topics)
