"""Format the explanation of a document's score: contributions that sum to it, and the terms they come from."""

from __future__ import annotations

import re

from submission.errors import UsageError, short
from submission.search.sanitise import visible
from submission.systems.catalogue import System
from submission.systems.execution import Execution
from submission.systems.explanation import Piece, Row

FIGURES_SHOWN = 15  # rows per table; the rest is summed
COLOURS = {"claim": "\x1b[1;34m", "premise": "\x1b[32m"}  # argument components on a terminal
PLAIN = "\x1b[0m"
BLANKS = re.compile(r"\s+")


def explain(system: System, docno: str, execution: Execution, coloured: bool = False) -> str:
    """Explain a document's score for the execution's only topic.

    Args:
        system: System to explain.
        docno: Document of the input, ranked or not.
        execution: Execution with one topic.
        coloured: Colour argument components instead of naming them.

    Raises:
        UsageError: If the topic or document is unknown, or the scores come from a supplied ranking.
        CheckpointError: If the system's checkpoint cannot be loaded.
    """
    [(qid, query)] = execution.topics.to_numpy()
    if execution.documents.unknown({docno}):
        raise UsageError(f"unknown document '{short(docno)}'; expected a docno of the input")
    [conclusion] = execution.documents.texts({docno})["conclusion"]
    try:
        explanation = system.stage.explain(execution, qid, docno)
    except UsageError as error:
        raise UsageError(f"{system.name}: {error}") from None
    is_excluded = execution.given is None and docno not in set(execution.documents.collection)
    blocks = [
        [f"topic {qid}: {query}", f"document {docno}: {conclusion}"],
        ["not in the collection (premise too short): no run contains it"] if is_excluded else [],
        [f"{label}: {text}" for label, text in explanation.seen.items()],
        [f"score {explanation.score:.6f}: {explanation.how}"],
        _largest(explanation.parts),
    ]
    if explanation.marked:
        blocks += [["claims and premises:", _marked(explanation.marked, coloured)]]
    for title, rows in explanation.views.items():
        blocks += [[title], _largest(rows)]
    if explanation.omissions:
        title = "score change when one token of the premise is removed (not additive)"
        blocks += [[title], _largest(explanation.omissions)[:FIGURES_SHOWN]]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _marked(pieces: list[Piece], coloured: bool) -> str:
    """Format a text with its components: [claim: Zoos are cruel]."""
    texts = []
    for span in pieces:
        text = visible(BLANKS.sub(" ", span.text))
        if span.part:
            text = f"{COLOURS[span.part]}{text}{PLAIN}" if coloured else f"[{span.part}: {text}]"
        texts.append(text)
    return "".join(texts).strip()


def _largest(rows: list[Row]) -> list[str]:
    """Format the rows with the largest absolute values, then the sum of the rest."""
    ordered = sorted(rows, key=lambda row: -abs(row.value))
    top, rest = ordered[:FIGURES_SHOWN], ordered[FIGURES_SHOWN:]
    width = max((len(row.name) for row in top), default=0)
    lines = [f"{row.value:+12.6f}  {row.name:{width}}  {row.note}".rstrip() for row in top]
    if rest:
        lines.append(f"{sum(row.value for row in rest):+12.6f}  {len(rest)} more")
    return lines
