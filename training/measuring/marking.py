"""A document that a system lists, with the claims and premises in it."""

from __future__ import annotations

from dataclasses import dataclass

from submission.enrichment.marked import Piece
from submission.systems.enrichment import Enrichment
from submission.systems.execution import Execution
from submission.systems.lexical import Lexical


@dataclass(frozen=True)
class Marked:
    """Its text, as the system searches it."""

    system: str
    docno: str
    pieces: list[Piece]


def marked(system: str, stage: Lexical, enrichment: Enrichment, execution: Execution, docno: str) -> Marked:
    """A document by what the enrichment finds in it. Raises CheckpointError."""
    fields = stage.opened(execution.checkpoints).index.fields
    return Marked(system, docno, enrichment.marked(execution, fields, execution.documents.texts({docno})))
