"""Define search results and their JSON form."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from submission.data.argument_metadata import Origin
from submission.errors import SubmissionError
from submission.search.highlights import Shade
from submission.search.snippets import Passage
from submission.systems.explanation import Explained, Row


@dataclass(frozen=True)
class Found:
    """A retrieved argument."""

    rank: int
    score: float
    docno: str
    origin: Origin
    conclusion: str
    premise: str
    passage: Passage  # of the premise
    shades: list[Shade]  # of the premise
    explained: Explained | None  # None: not requested


@dataclass(frozen=True)
class Listed:
    """The results of one system, or its error."""

    system: str
    found: list[Found] = field(default_factory=list)
    size: int = 0  # length of the whole ranking
    error: SubmissionError | None = None


@dataclass(frozen=True)
class Answer:
    """The results of all systems for one query."""

    question: str
    systems: list[Listed]
    seconds: float


def largest_contributions(explained: Explained, limit: int) -> list[Row]:
    """Return the largest contributions to a score and the sum of the others; zeros are omitted."""
    contributions = sorted((row for row in explained.parts if row.value), key=lambda row: -abs(row.value))
    largest, omitted = contributions[:limit], contributions[limit:]
    return [*largest, Row(sum(row.value for row in omitted), f"{len(omitted)} more")] if omitted else largest


def dumped(answer: Answer) -> str:
    """Serialise results as one line of ASCII JSON."""
    systems = [
        {
            "system": listed.system,
            "error": None if listed.error is None else str(listed.error),
            "listed": listed.size,
            "results": list(map(_found, listed.found)),
        }
        for listed in answer.systems
    ]
    return json.dumps({"question": answer.question, "seconds": round(answer.seconds, 4), "systems": systems}) + "\n"


def _found(found: Found) -> dict[str, Any]:
    start, end = found.passage.place
    marks = [(mark.start - start, mark.end - start) for mark in found.passage.within]
    fields: dict[str, Any] = {
        "rank": found.rank,
        "docno": found.docno,
        "score": found.score,
        "stance": found.origin.stance or None,
        "portal": found.origin.portal or None,
        "conclusion": found.conclusion,
        "premise": found.premise,
        "passage": {"text": found.premise[start:end], "start": start, "marks": marks},
    }
    if found.explained is not None:
        contributions = [{"name": row.name, "value": row.value, "note": row.note} for row in found.explained.parts]
        fields["explanation"] = {"how": found.explained.how, "parts": contributions}
    return fields
