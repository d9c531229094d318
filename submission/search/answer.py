"""Answers as values: each system's first arguments, with the passage that answers best."""

from __future__ import annotations

from dataclasses import dataclass, field

from submission.errors import SubmissionError
from submission.search.origins import Origin
from submission.search.passage import Passage
from submission.search.shades import Shade
from submission.systems.explained import Explained


@dataclass(frozen=True)
class Found:
    """An argument that a system lists."""

    rank: int
    score: float
    docno: str
    origin: Origin
    conclusion: str
    premise: str
    passage: Passage  # of the premise
    shades: list[Shade]  # of the premise
    explained: Explained | None  # None: that was not asked for


@dataclass(frozen=True)
class Listed:
    """The answer of one system, or its error."""

    system: str
    found: list[Found] = field(default_factory=list)
    size: int = 0  # how many arguments it lists in all
    error: SubmissionError | None = None


@dataclass(frozen=True)
class Answer:
    """The answers of all systems that were asked."""

    question: str
    systems: list[Listed]
    seconds: float
