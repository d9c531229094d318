"""Format the explanation of one document's score, or the comparison of two."""

import re
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from aragorn.errors import UsageError, abbreviate
from aragorn.explanation import Explanation, Row, select_largest
from aragorn.io.dataset import Dataset
from aragorn.pipeline.retrieval import Retrieval
from aragorn.pipeline.session import Collection, open_session
from aragorn.systems.catalogue import System, get_system
from aragorn.text.normalisation import sanitise
from aragorn.verbs import ExplainOptions

MAX_ROWS = 15  # rows per table; a last row sums the remaining ones, except for occlusions
COLOURS = {"claim": "\x1b[1;34m", "premise": "\x1b[32m"}  # terminal colours of argument components
RESET = "\x1b[0m"
WHITESPACE = re.compile(r"\s+")


def explain(options: ExplainOptions) -> None:
    """Print the explanation of the score of a document, or the comparison of two."""
    system = get_system(options.system)
    dataset = Dataset(
        *options.inputs, input_run=options.input_run, qid=options.qid, order=options.order
    )
    with open_session(options, options.cache_dir, Path()) as session:
        retrieval = Retrieval(dataset, Collection(dataset, session))
        print(format_scores(system, options.docnos, retrieval, sys.stdout.isatty()), end="")


def format_scores(
    system: System, docnos: Sequence[str], retrieval: Retrieval, use_colour: bool = False
) -> str:
    """Explain the score of a document, retrieved or not, or compare the scores of two documents.

    The retrieval has a single topic; argument components are marked by colours or names.

    Raises:
        UsageError: If the topic or a document is unknown, there are more than two documents, or the
            scores were supplied.
    """
    [(qid, query)] = retrieval.topics.to_numpy()
    if len(docnos) > 2:
        raise UsageError(f"{len(docnos)} documents; explain one document or compare two")
    for docno in docnos:
        if retrieval.collection.documents.find_unknown({docno}):
            raise UsageError(
                f"unknown document '{abbreviate(docno)}'; expected a docno of the input"
            )
    try:
        explanations = [system.stage.explain(retrieval, qid, docno) for docno in docnos]
    except UsageError as error:
        raise UsageError(f"{system.name}: {error}") from None
    header = [f"topic {qid}: {query}"]
    labels = ["first document", "second document"] if len(docnos) == 2 else ["document"]
    for label, docno in zip(labels, docnos, strict=True):
        [conclusion] = retrieval.collection.documents.read_texts({docno})["conclusion"]
        absence = _describe_absence(system, retrieval, qid, docno)
        header += [
            f"{label} {docno}: {conclusion}",
            *([f"{absence}: no run contains it"] if absence else []),
        ]
    first, *second = explanations
    blocks = (
        _format_comparison(first, *second) if second else _format_explanation(first, use_colour)
    )
    texts = ["\n".join(block) for block in [[*map(sanitise, header)], *blocks] if block]
    return "\n\n".join(texts) + "\n"


def _describe_absence(system: System, retrieval: Retrieval, qid: str, docno: str) -> str:
    """Describe why the system does not rank a document, if known without its ranking; else ""."""
    ranking = retrieval.input_run
    if ranking is not None:
        is_in_run = docno in set(ranking.loc[ranking["qid"] == qid, "docno"])
        return "" if is_in_run else f"not in {retrieval.input_file}"
    if docno not in set(retrieval.collection.documents.searchable_docnos):
        return "not in the collection (premise too short)"
    candidate_stages = system.stage.get_candidate_stages(retrieval.session.checkpoints)
    rankings = [retrieval.rank(stage) for stage in candidate_stages]
    is_candidate = not rankings or any(docno in set(ranking["docno"]) for ranking in rankings)
    return "" if is_candidate else f"not among the candidates of {system.name}"


def _format_explanation(explanation: Explanation, use_colour: bool) -> list[list[str]]:
    """Format the score, its contributions, and their breakdowns, as blocks of lines."""
    blocks = [
        [sanitise(f"{label}: {text}") for label, text in explanation.model_inputs.items()],
        [f"score {explanation.score:.6f}: {explanation.summary}"],
        _format_rows(explanation.contributions),
    ]
    if explanation.text:
        blocks += [["claims and premises:", _format_components(explanation, use_colour)]]
    for title, rows in explanation.breakdowns.items():
        blocks += [[sanitise(title)], _format_rows(rows)]
    if explanation.occlusions:
        title = "score change when one token of the premise is removed (not additive)"
        blocks += [[title], _format_rows(explanation.occlusions)[:MAX_ROWS]]
    return blocks


def _format_comparison(first: Explanation, second: Explanation) -> list[list[str]]:
    """Format the scores, contributions and breakdowns of two documents side by side."""
    inputs = [
        sanitise(f"{label}: {text}")
        for explanation in (first, second)
        for label, text in explanation.model_inputs.items()
    ]
    header = f"{'first':>12}  {'second':>12}  {'difference':>12}"
    contributions = _format_pairs(first.contributions, second.contributions)
    blocks = [
        list(dict.fromkeys(inputs)),  # both have the same query
        list(dict.fromkeys(f"score: {explanation.summary}" for explanation in (first, second))),
        [header, _format_pair("score", first.score, second.score), *contributions],
    ]
    for title, rows in first.breakdowns.items():
        pairs = _format_pairs(rows, second.breakdowns.get(title, []))
        blocks += [[sanitise(title)], pairs] if pairs != contributions else []
    return blocks


def _format_pairs(first: Sequence[Row], second: Sequence[Row]) -> list[str]:
    """Format the sums of both documents' rows by label, largest absolute differences first."""
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for position, rows in enumerate((first, second)):
        for row in rows:
            sums[row.label][position] += row.value
    pairs = sorted(sums.items(), key=lambda item: -abs(item[1][1] - item[1][0]))
    largest = pairs[:MAX_ROWS]
    remaining = [values for _, values in pairs[MAX_ROWS:]]
    if remaining:
        largest.append(
            (f"{len(remaining)} more", [sum(column) for column in zip(*remaining, strict=True)])
        )
    return [_format_pair(label, *values) for label, values in largest]


def _format_pair(label: str, first: float, second: float) -> str:
    return f"{first:+12.6f}  {second:+12.6f}  {second - first:+12.6f}  {sanitise(label)}"


def _format_components(explanation: Explanation, use_colour: bool) -> str:
    """Return a document's text with marked components, e.g. [claim: Zoos are cruel]."""

    def clean(start: int, end: int | None = None) -> str:
        return sanitise(WHITESPACE.sub(" ", explanation.text[start:end]))

    marked_text = ""
    last_end = 0
    for start, end, component in explanation.components:
        text = clean(start, end)
        mark = f"{COLOURS[component]}{text}{RESET}" if use_colour else f"[{component}: {text}]"
        marked_text += clean(last_end, start) + mark
        last_end = end
    return (marked_text + clean(last_end)).strip()


def _format_rows(rows: list[Row]) -> list[str]:
    """Format the MAX_ROWS largest rows by absolute value, and the sum of the others."""
    largest = select_largest(rows, MAX_ROWS)
    width = max((len(row.label) for row in largest[:MAX_ROWS]), default=0)
    return [
        sanitise(f"{row.value:+12.6f}  {row.label:{width}}  {row.note}".rstrip()) for row in largest
    ]
