"""Why a document has its score for a topic: the parts that sum to it, and the words they come from; as text."""

from __future__ import annotations

import re

from submission.enrichment.marked import Piece
from submission.errors import UsageError, short, shown
from submission.systems.catalogue import System
from submission.systems.execution import Execution
from submission.systems.explained import Row

FIGURES_SHOWN = 15  # figures of a kind; the others are summed
COLOURS = {"claim": "\x1b[1;34m", "premise": "\x1b[32m"}  # parts of an argument on a terminal: blue, green
PLAIN = "\x1b[0m"
BLANKS = re.compile(r"\s+")


def explain(system: System, docno: str, execution: Execution, coloured: bool = False) -> str:
    """Why a document has its score for the topic of an execution, in lines.

    Args:
        system: whose score.
        docno: a document of the input, listed or not.
        execution: of a single topic.
        coloured: for a terminal: parts of an argument have colours instead of names.

    Raises:
        UsageError: no such topic or document, or the system's scores were not made here.
        CheckpointError: the system's checkpoint cannot be used.
    """
    [(qid, query)] = execution.topics.to_numpy()
    if execution.documents.unknown({docno}):
        raise UsageError(f"unknown document '{short(docno)}'; expected the id of an argument of the input")
    [conclusion] = execution.documents.texts({docno})["conclusion"]
    try:
        found = system.stage.explain(execution, qid, docno)
    except UsageError as error:
        raise UsageError(f"{system.name}: {error}") from None
    searched = execution.given is None and docno not in set(execution.documents.collection)
    blocks = [
        [f"topic {qid}: {query}", f"document {docno}: {conclusion}"],
        ["its premise is too short for the collection: no run has it"] if searched else [],
        [f"{what}: {text}" for what, text in found.seen.items()],
        [f"score {found.score:.6f}: {found.how}"],
        _largest(found.parts),
    ]
    if found.marked:
        blocks += [["claims and premises in its text:", _marked(found.marked, coloured)]]
    for how, rows in found.views.items():
        blocks += [[how], _largest(rows)]
    if found.omissions:
        title = "without a piece of the premise the score changes by (no parts of a sum)"
        blocks += [[title], _largest(found.omissions)[:FIGURES_SHOWN]]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _marked(pieces: list[Piece], coloured: bool) -> str:
    """A text with its claims and premises: [claim: Zoos are cruel]."""
    found = []
    for piece in pieces:
        text = shown(BLANKS.sub(" ", piece.text))
        if piece.part:
            text = f"{COLOURS[piece.part]}{text}{PLAIN}" if coloured else f"[{piece.part}: {text}]"
        found.append(text)
    return "".join(found).strip()


def _largest(rows: list[Row]) -> list[str]:
    """The largest figures, and behind them the sum of the others."""
    ordered = sorted(rows, key=lambda row: -abs(row.value))
    shown, others = ordered[:FIGURES_SHOWN], ordered[FIGURES_SHOWN:]
    width = max((len(row.name) for row in shown), default=0)
    lines = [f"{row.value:+12.6f}  {row.name:{width}}  {row.note}".rstrip() for row in shown]
    if others:
        lines.append(f"{sum(row.value for row in others):+12.6f}  {len(others)} others")
    return lines
