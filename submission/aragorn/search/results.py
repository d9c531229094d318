"""Represent search results and serialise them as JSON."""

import json
from dataclasses import dataclass, field
from typing import Any

from aragorn.errors import SubmissionError
from aragorn.explanation import Explanation, Highlight, Row, select_largest
from aragorn.io.document_store import ArgumentMetadata
from aragorn.search.snippets import Snippet, Span


@dataclass(frozen=True)
class Hit:
    """Retrieved argument, with the texts and spans that a result list shows."""

    rank: int
    score: float
    docno: str
    metadata: ArgumentMetadata
    conclusion: str
    premise: str
    snippet: Snippet  # of the premise
    highlights: list[Highlight]  # of the premise
    explanation: Explanation | None  # None if not requested
    conclusion_matches: list[Span] = field(default_factory=list)


@dataclass(frozen=True)
class SystemResults:
    """Results of one system for a query, or the error with which the system failed."""

    system: str
    hits: list[Hit] = field(default_factory=list)
    n_ranked: int = 0  # number of ranked arguments
    error: SubmissionError | None = None


@dataclass(frozen=True)
class SearchResults:
    """Results of all systems for one query."""

    query: str
    system_results: list[SystemResults]
    seconds: float


def select_largest_contributions(explanation: Explanation, limit: int) -> list[Row]:
    """Return the `limit` largest non-zero contributions, then the sum of the others."""
    return select_largest((row for row in explanation.contributions if row.value), limit)


def to_json(results: SearchResults) -> str:
    """Serialise results as one line of ASCII JSON."""
    systems = [
        {
            "system": result.system,
            "error": None if result.error is None else str(result.error),
            "total": result.n_ranked,
            "hits": list(map(_convert_hit, result.hits)),
        }
        for result in results.system_results
    ]
    return (
        json.dumps(
            {"query": results.query, "seconds": round(results.seconds, 4), "systems": systems}
        )
        + "\n"
    )


def _convert_hit(hit: Hit) -> dict[str, Any]:
    start, end = hit.snippet.span
    matches = [(match.start - start, match.end - start) for match in hit.snippet.visible_matches]
    fields: dict[str, Any] = {
        "rank": hit.rank,
        "docno": hit.docno,
        "score": hit.score,
        "stance": hit.metadata.stance or None,
        "portal": hit.metadata.portal or None,
        "conclusion": hit.conclusion,
        "premise": hit.premise,
        "snippet": {"text": hit.premise[start:end], "start": start, "matches": matches},
    }
    if hit.explanation is not None:
        rows = [
            {"name": row.label, "value": row.value, "detail": row.note}
            for row in hit.explanation.contributions
        ]
        fields["explanation"] = {"formula": hit.explanation.summary, "contributions": rows}
    return fields
