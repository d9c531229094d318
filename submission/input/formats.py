"""The formats that are read, one line each: files, contents, refusals and reasons."""

from __future__ import annotations

from dataclasses import dataclass

from submission.input.order import RULE


@dataclass(frozen=True)
class Format:
    """A format that one reader reads."""

    name: str
    files: str
    read: str
    refused: str  # each with its reason


FORMATS = (
    Format(
        "topics",
        "`topics*.xml`",
        "`<topic>` elements with `<number>` or `<num>`, and `<title>`; what else they hold is passed over",
        "a number that occurs twice, is empty, begins with `#` or has blanks (a run could not hold it); an empty title; a "
        "document type declaration (it can pull in entities)",
    ),
    Format(
        "args.me",
        "`debateorg debatepedia debatewise idebate parliamentary`, or `args-me*`, each `.json` or `.jsonl`",
        "one object of `arguments` with `id`, `conclusion`, `premises[].text`; in `.jsonl` one argument a line, so or with the "
        "premise as `argument`; the same argument twice; of the arguments those of 15 words or more are searched",
        "an id with two texts (two versions are mixed); NaN and Infinity (JSON has none); the CSV of 2022 and BEIR's form, "
        "each with what to do instead",
    ),
    Format(
        "TIREx data set",
        "`queries.jsonl` with `documents.jsonl` or `corpus.jsonl`",
        "objects with `qid` or `query_id`, `query`; `docno`, `doc_id` or `docid`, `text` or `default_text`; whole numbers are "
        "ids; documents of any length. A text is premises and conclusion in one, stands for both, and is ranked",
        "an id with two texts; two names of a field that disagree; ids that are fractions; BEIR's `_id`, with what to rename",
    ),
    Format(
        "TIREx list",
        "`rerank.jsonl`",
        "the same with `rank`, `score`, both or neither: without either the lines' order stands",
        "a rank or score in some lines only (their order would be a guess); a document twice in a topic; ranks and scores that "
        "contradict each other",
    ),
    Format(
        "run",
        "any name; in a directory `run.txt`",
        "six fields `qid Q0 docno rank score tag`, separated by blanks or tabs; ranks from 0, from 1, or all the same; scores "
        "in any notation; lines in any order; `#` begins a comment; LF, CR LF and CR",
        "another number of fields (which one is in excess is said); ranks that are no whole numbers; scores that are not "
        "finite; a document twice in a topic; ranks and scores that contradict each other (evaluators would differ)",
    ),
    Format(
        "qrels",
        "any name",
        "four fields `topic 0 docno grade`, written like a run's; grades whole (`2`, `2.0`) or fractions, a grade above 0 is "
        "relevant; -1 is no judgment, other grades below 0 count as 0",
        "grades that are no numbers; a document judged twice for a topic; no relevant document; judgments that share no topic "
        "or no document with what is measured (a figure would say nothing)",
    ),
)


def markdown() -> str:
    """Write the table in Markdown, and the rule of order below it."""
    lines = ["| format | files | read | refused |", "|---|---|---|---|"]
    lines += [f"| {one.name} | {one.files} | {one.read} | {one.refused} |" for one in FORMATS]
    return "\n".join([*lines, "", f"Runs and lists are ordered {RULE}.", ""])
