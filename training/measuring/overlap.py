"""Count what a run and judgments have in common: without it a figure says nothing."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

from submission.errors import InputError, short
from submission.input.directory import Input
from submission.input.joining import joined_by
from training.measuring.evaluate import judged_topics
from training.measuring.touche import DEPTH

log = logging.getLogger(__name__)

NAMED = 3  # topics in a message


@dataclass(frozen=True)
class Overlap:
    """Topics and documents of a run that judgments know."""

    run: str
    qrels: str
    common: list[str]  # topics of both
    measured: int  # topics with a relevant document: those that means are over
    unjudged: list[str]  # topics of the run that nobody judged
    irrelevant: list[str]  # topics whose judged documents are all irrelevant: no measure is defined there
    first: int  # documents among the first five of the common topics
    judged: int  # of these

    @property
    def is_whole(self) -> bool:
        """Tell whether the run has all judged topics."""
        return len(self.common) == self.measured

    def line(self) -> str:
        """Say it in a line."""
        share = f"{100 * self.judged / self.first:.0f} %" if self.first else "none"
        words = f"{self.run} × {self.qrels}: {len(self.common)} of {self.measured} topics, {share} of the first five judged"
        if self.unjudged:
            words += f"; the run's topics without judgments ({len(self.unjudged)}): {_named(self.unjudged)}"
        if self.irrelevant:
            words += f"; topics without a relevant document, left out ({len(self.irrelevant)}): {_named(self.irrelevant)}"
        return words


def overlap_of(run: pd.DataFrame, qrels: pd.DataFrame, names: tuple[str, str], files: tuple[object, object]) -> Overlap:
    """Find what a run and judgments have in common.

    Args:
        run: `qid docno`, a topic's documents in order.
        qrels: `qid docno rel`.
        names: of the run and of the judgments.
        files: that they are of, for messages.

    Raises:
        InputError: no topic.
    """
    listed, measured, judged = list(dict.fromkeys(run["qid"])), set(judged_topics(qrels)), set(qrels["qid"])
    common = common_topics(listed, qrels, *files)
    first = run[run["qid"].isin(common)].groupby("qid").head(DEPTH)
    found = first.merge(qrels[["qid", "docno"]], on=["qid", "docno"])
    unjudged = [qid for qid in listed if qid not in judged]
    overlap = Overlap(*names, common, len(measured), unjudged, sorted(judged - measured), len(first), len(found))
    if not overlap.is_whole:
        log.warning(
            "%s has %d of the %d judged topics of %s: means over all of them count the others as 0",
            names[0], len(common), len(measured), names[1],
        )  # fmt: skip
    return overlap


def require_overlap(source: Input, qrels: pd.DataFrame, name: str) -> None:
    """Log how many topics of judgments an input has, on whose topics something is fitted or measured.

    Raises:
        InputError: none.
    """
    measured = judged_topics(qrels)
    common = common_topics(source.topics["qid"].tolist(), qrels, source.directory, name)
    missing = (
        f"; not in the input: {_named([qid for qid in measured if qid not in common])}" if len(common) < len(measured) else ""
    )
    level = logging.WARNING if missing else logging.INFO
    log.log(level, "%s × %s: %d of %d judged topics%s", source.directory, name, len(common), len(measured), missing)


def common_topics(listed: list[str], qrels: pd.DataFrame, one: object, other: object) -> list[str]:
    """Give the topics of a list that judgments can measure, in its order. Raises InputError: there are none."""
    measured, judged = set(judged_topics(qrels)), set(qrels["qid"])
    if not judged & set(listed):
        refuse_strangers(listed, sorted(judged), one, other)
    common = [qid for qid in listed if qid in measured]
    if not common:
        both = _named([qid for qid in listed if qid in judged])
        raise InputError(
            f"{one} and {other}: the topics that both have ({both}) have no relevant document; take other judgments"
        )
    return common


def refuse_strangers(ones: Iterable[str], others: Iterable[str], one: object, other: object) -> None:
    """Raises InputError: two files have no topic in common; it names one of each, and a rule that would join them."""
    ones, others = list(ones), list(others)
    raise InputError(
        f"{one} and {other}: no topic in common ({one} has {_named(ones)}, {other} has {_named(others)}); "
        f"are they of the same year?{joined_by(ones, others)}"
    )


def _named(qids: list[str]) -> str:
    return ", ".join(map(short, qids[:NAMED])) + (", …" if len(qids) > NAMED else "")
