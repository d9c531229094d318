"""TREC run files `qid Q0 docno rank score tag` → frame."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from submission.errors import InputError, short
from submission.input.files import text
from submission.lists import by_topic


def read_run(file: Path) -> pd.DataFrame:
    """Read a run, plain or .gz, as `qid docno rank score tag`: topics in the file's order, ranks ascending.

    Raises:
        InputError: a malformed line, a document twice in a topic, no line.
    """
    rows = []
    for place, line in numbered_lines(file):
        match line.split():
            case [qid, _, docno, rank, score, tag] if is_rank(rank) and is_number(score):
                rows.append((qid, docno, int(rank), float(score), tag))
            case _:
                raise InputError(f"{place}: expected `topic Q0 docno rank score tag`, found '{short(line)}'")
    run = pd.DataFrame(rows, columns=["qid", "docno", "rank", "score", "tag"])
    refuse_repeated(file, run)
    if run.empty:
        raise InputError(f"{file}: an empty run")
    return by_topic(run, run[["qid"]].drop_duplicates(), ["rank"], ascending=[True])


def numbered_lines(file: Path) -> list[tuple[str, str]]:
    """The lines of a text file, plain or .gz, that are not blank, each with its place for messages. Raises InputError."""
    found = enumerate(text(file).splitlines(), 1)
    return [(f"{file}, line {number}", line) for number, line in found if line.strip()]


def refuse_repeated(file: Path, frame: pd.DataFrame) -> None:
    """Raises InputError where a frame `qid docno` of a file has a pair twice."""
    repeated = frame[frame.duplicated(["qid", "docno"])]
    if len(repeated):
        qid, docno = repeated["qid"].iloc[0], repeated["docno"].iloc[0]
        raise InputError(f"{file}: document {short(docno)} occurs twice in topic {short(qid)}; remove one line")


def is_rank(word: str) -> bool:
    """Whether a text is a rank."""
    return word.isascii() and word.isdecimal() and len(word) < 10


def is_number(word: str) -> bool:
    """Whether a text is a finite number."""
    try:
        return abs(float(word)) < float("inf")
    except ValueError:
        return False
