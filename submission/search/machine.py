"""An answer for machines: one JSON object a line."""

from __future__ import annotations

import json
from typing import Any

from submission.search.answer import Answer, Found


def dumped(answer: Answer) -> str:
    """An answer as a line of JSON, in ASCII: what a terminal takes."""
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
    one: dict[str, Any] = {
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
        rows = [{"name": row.name, "value": row.value, "note": row.note} for row in found.explained.parts]
        one["explanation"] = {"how": found.explained.how, "parts": rows}
    return one
