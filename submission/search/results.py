"""Define search results and their JSON form."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from submission.data.argument_metadata import ArgumentMetadata
from submission.errors import SubmissionError
from submission.search.highlights import Highlight
from submission.search.snippets import Snippet
from submission.systems.explanation import ExplanationRow, ScoreExplanation


@dataclass(frozen=True)
class Hit:
    """A retrieved argument."""

    rank: int
    score: float
    docno: str
    metadata: ArgumentMetadata
    conclusion: str
    premise: str
    snippet: Snippet  # of the premise
    highlights: list[Highlight]  # of the premise
    explanation: ScoreExplanation | None  # None: not requested


@dataclass(frozen=True)
class SystemResults:
    """The results of one system, or its error."""

    system: str
    hits: list[Hit] = field(default_factory=list)
    total: int = 0  # length of the whole ranking
    error: SubmissionError | None = None


@dataclass(frozen=True)
class SearchResults:
    """The results of all systems for one query."""

    query: str
    systems: list[SystemResults]
    seconds: float


def largest_contributions(explained: ScoreExplanation, limit: int) -> list[ExplanationRow]:
    """Return the largest contributions to a score and the sum of the others; zeros are omitted."""
    contributions = sorted((row for row in explained.contributions if row.value), key=lambda row: -abs(row.value))
    largest, omitted = contributions[:limit], contributions[limit:]
    return [*largest, ExplanationRow(sum(row.value for row in omitted), f"{len(omitted)} more")] if omitted else largest


def to_json(answer: SearchResults) -> str:
    """Serialise results as one line of ASCII JSON."""
    systems = [
        {
            "system": listed.system,
            "error": None if listed.error is None else str(listed.error),
            "listed": listed.total,
            "results": list(map(_hit_to_dict, listed.hits)),
        }
        for listed in answer.systems
    ]
    return json.dumps({"question": answer.query, "seconds": round(answer.seconds, 4), "systems": systems}) + "\n"


def _hit_to_dict(found: Hit) -> dict[str, Any]:
    start, end = found.snippet.span
    marks = [(mark.start - start, mark.end - start) for mark in found.snippet.visible_matches]
    fields: dict[str, Any] = {
        "rank": found.rank,
        "docno": found.docno,
        "score": found.score,
        "stance": found.metadata.stance or None,
        "portal": found.metadata.portal or None,
        "conclusion": found.conclusion,
        "premise": found.premise,
        "passage": {"text": found.premise[start:end], "start": start, "marks": marks},
    }
    if found.explanation is not None:
        contributions = [{"name": row.label, "value": row.value, "note": row.note} for row in found.explanation.contributions]
        fields["explanation"] = {"how": found.explanation.summary, "parts": contributions}
    return fields
