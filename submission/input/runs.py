"""TREC run files `qid Q0 docno rank score tag` → frame."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import pandas as pd

from submission.errors import InputError
from submission.lists import by_topic


def read_run(file: Path) -> pd.DataFrame:
    """Read a run, plain or .gz, as `qid docno rank score tag`: topics in the file's order, ranks ascending.

    Raises:
        InputError: a malformed line, a document twice in a topic, no line.
    """
    rows = []
    for place, line in numbered_lines(file):
        match line.split():
            case [qid, _, docno, rank, score, tag] if rank.isdecimal() and is_number(score):
                rows.append((qid, docno, int(rank), float(score), tag))
            case _:
                raise InputError(f"{place}: expected `topic Q0 docno rank score tag`, found {line!r}")
    run = pd.DataFrame(rows, columns=["qid", "docno", "rank", "score", "tag"])
    refuse_repeated(file, run)
    if run.empty:
        raise InputError(f"{file}: an empty run")
    return by_topic(run, run[["qid"]].drop_duplicates(), ["rank"], ascending=[True])


def numbered_lines(file: Path) -> list[tuple[str, str]]:
    """The lines of a text file, plain or .gz, that are not blank, each with its place for messages. Raises InputError."""
    try:
        data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        lines = data.decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"{file}, byte {error.start}: not UTF-8") from None
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{file}: cannot be read ({getattr(error, 'strerror', None) or error}); expected a file") from None
    return [(f"{file}, line {number}", line) for number, line in enumerate(lines, 1) if line.strip()]


def refuse_repeated(file: Path, frame: pd.DataFrame) -> None:
    """Raises InputError where a frame `qid docno` of a file has a pair twice."""
    repeated = frame[frame.duplicated(["qid", "docno"])]
    if len(repeated):
        qid, docno = repeated["qid"].iloc[0], repeated["docno"].iloc[0]
        raise InputError(f"{file}: document {docno} occurs twice in topic {qid}; remove one line")


def is_number(text: str) -> bool:
    """Whether a text is a finite number."""
    try:
        return abs(float(text)) < float("inf")
    except ValueError:
        return False
