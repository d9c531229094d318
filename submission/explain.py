"""Format the explanation of a document's score: contributions that sum to the score, and their breakdowns."""

import re

from submission.errors import UsageError, abbreviate
from submission.systems.catalogue import System
from submission.systems.execution import Execution
from submission.systems.explanation import ExplanationRow, TextSpan, select_largest
from submission.text.normalisation import sanitise

MAX_ROWS = 15  # rows per table; a last row sums the remaining ones, except for occlusions
COLOURS = {"claim": "\x1b[1;34m", "premise": "\x1b[32m"}  # terminal colours of argument components
RESET = "\x1b[0m"
WHITESPACE = re.compile(r"\s+")


def explain(system: System, docno: str, execution: Execution, use_colour: bool = False) -> str:
    """Return a text that explains the score of a document, retrieved or not, for the only topic of an execution.

    Args:
        system: System that computes the score.
        docno: Docno of the document.
        execution: Execution with a single topic.
        use_colour: Whether to mark argument components by colours instead of names.

    Raises:
        UsageError: If the topic or document is unknown, or the scores are those of a supplied ranking.
    """
    [(qid, query)] = execution.topics.to_numpy()
    if execution.documents.find_unknown({docno}):
        raise UsageError(f"unknown document '{abbreviate(docno)}'; expected a docno of the input")
    [conclusion] = execution.documents.read_texts({docno})["conclusion"]
    try:
        explanation = system.stage.explain(execution, qid, docno)
    except UsageError as error:
        raise UsageError(f"{system.name}: {error}") from None
    is_excluded = execution.supplied_ranking is None and docno not in set(execution.documents.searchable_docnos)
    blocks = [
        [f"topic {qid}: {query}", f"document {docno}: {conclusion}"],
        ["not in the collection (premise too short): no run contains it"] if is_excluded else [],
        [f"{label}: {text}" for label, text in explanation.model_inputs.items()],
        [f"score {explanation.score:.6f}: {explanation.summary}"],
        _format_rows(explanation.contributions),
    ]
    if explanation.component_spans:
        blocks += [["claims and premises:", _format_components(explanation.component_spans, use_colour)]]
    for title, rows in explanation.breakdowns.items():
        blocks += [[title], _format_rows(rows)]
    if explanation.occlusions:
        title = "score change when one token of the premise is removed (not additive)"
        blocks += [[title], _format_rows(explanation.occlusions)[:MAX_ROWS]]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _format_components(spans: list[TextSpan], use_colour: bool) -> str:
    """Join the spans of a text, marking claims and premises by colours or names, e.g. [claim: Zoos are cruel]."""
    texts = []
    for span in spans:
        text = sanitise(WHITESPACE.sub(" ", span.text))
        if span.component:
            text = f"{COLOURS[span.component]}{text}{RESET}" if use_colour else f"[{span.component}: {text}]"
        texts.append(text)
    return "".join(texts).strip()


def _format_rows(rows: list[ExplanationRow]) -> list[str]:
    """Format the MAX_ROWS rows with the largest absolute values, followed by a row with the sum of the remaining ones."""
    largest = select_largest(rows, MAX_ROWS)
    width = max((len(row.label) for row in largest[:MAX_ROWS]), default=0)
    return [f"{row.value:+12.6f}  {row.label:{width}}  {row.note}".rstrip() for row in largest]
