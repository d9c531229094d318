"""Compare the topics and documents of a run with the judgments."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

from submission.data.dataset import Input
from submission.data.id_matching import joined_by
from submission.errors import InputError, short
from training.evaluation.evaluate import judged_topics
from training.evaluation.measures import DEPTH

log = logging.getLogger(__name__)

NAMED = 3  # topics listed in a message


@dataclass(frozen=True)
class Overlap:
    """Overlap of a run with qrels."""

    run: str
    qrels: str
    common: list[str]  # topics in run and qrels
    measured: int  # topics with a relevant document; means are over these
    unjudged: list[str]  # run topics without judgments
    irrelevant: list[str]  # judged topics without a relevant document; excluded
    first: int  # documents in the top five of the common topics
    judged: int  # judged ones of these

    @property
    def is_whole(self) -> bool:
        """Whether the run covers all evaluated topics."""
        return len(self.common) == self.measured

    def line(self) -> str:
        """Format the overlap in one line."""
        judged_share = f"{100 * self.judged / self.first:.0f} %" if self.first else "none"
        text = f"{self.run} × {self.qrels}: {len(self.common)} of {self.measured} topics, {judged_share} of the top five judged"
        if self.unjudged:
            text += f"; unjudged topics of the run ({len(self.unjudged)}): {_named(self.unjudged)}"
        if self.irrelevant:
            text += f"; topics without a relevant document, excluded ({len(self.irrelevant)}): {_named(self.irrelevant)}"
        return text


def overlap_of(run: pd.DataFrame, qrels: pd.DataFrame, names: tuple[str, str], files: tuple[object, object]) -> Overlap:
    """Compute the overlap of a run and qrels.

    Args:
        run: `qid docno`, in rank order within a topic.
        qrels: `qid docno rel`.
        names: Names of run and qrels.
        files: Files of run and qrels, for messages.

    Raises:
        InputError: If there is no common topic.
    """
    topics, evaluated, judged = list(dict.fromkeys(run["qid"])), set(judged_topics(qrels)), set(qrels["qid"])
    common = common_topics(topics, qrels, *files)
    top = run[run["qid"].isin(common)].groupby("qid").head(DEPTH)
    judged_top = top.merge(qrels[["qid", "docno"]], on=["qid", "docno"])
    unjudged = [qid for qid in topics if qid not in judged]
    overlap = Overlap(*names, common, len(evaluated), unjudged, sorted(judged - evaluated), len(top), len(judged_top))
    if not overlap.is_whole:
        log.warning(
            "%s covers %d of the %d judged topics of %s; missing topics count as 0 in the means",
            names[0], len(common), len(evaluated), names[1],
        )  # fmt: skip
    return overlap


def require_overlap(source: Input, qrels: pd.DataFrame, name: str) -> None:
    """Check that the input contains judged topics, or raise InputError, and log how many."""
    evaluated = judged_topics(qrels)
    common = common_topics(source.topics["qid"].tolist(), qrels, source.directory, name)
    absent = [qid for qid in evaluated if qid not in common]
    missing = f"; missing from the input: {_named(absent)}" if absent else ""
    level = logging.WARNING if missing else logging.INFO
    log.log(level, "%s × %s: %d of %d judged topics%s", source.directory, name, len(common), len(evaluated), missing)


def common_topics(listed: list[str], qrels: pd.DataFrame, one: object, other: object) -> list[str]:
    """Return the topics that have a relevant document in the qrels, in order; raise InputError if there are none."""
    evaluated, judged = set(judged_topics(qrels)), set(qrels["qid"])
    if not judged & set(listed):
        refuse_strangers(listed, sorted(judged), one, other)
    common = [qid for qid in listed if qid in evaluated]
    if not common:
        irrelevant = _named([qid for qid in listed if qid in judged])
        raise InputError(f"{one} and {other}: the common topics ({irrelevant}) have no relevant document; use other qrels")
    return common


def refuse_strangers(ones: Iterable[str], others: Iterable[str], one: object, other: object) -> None:
    """Raise InputError for two files without a common topic, with examples and a hint if rewriting the ids would match."""
    ones, others = list(ones), list(others)
    raise InputError(
        f"{one} and {other}: no common topic ({one}: {_named(ones)}; {other}: {_named(others)}); "
        f"are they from the same year?{joined_by(ones, others)}"
    )


def _named(qids: list[str]) -> str:
    return ", ".join(map(short, qids[:NAMED])) + (", …" if len(qids) > NAMED else "")
