"""Recognise unsupported corpus formats and suggest a conversion."""

from __future__ import annotations

from pathlib import Path

import msgspec

from submission.data.input_files import lines, named

TABLES = ("*.csv", "*.csv.gz", "*.tsv", "*.tsv.gz")
TABLE = (
    "args.me as CSV (Touché 2022) is not supported; use the JSON files of args.me 2020-04-01, "
    "or write args-me.jsonl with one object {id, conclusion, premises} per line"
)
BEIR = "BEIR format (`_id`, `title`, `text`) is not supported"
BEIR_DOCUMENTS = f"{BEIR}; rename `_id` to `docno` and put title and text, joined by a space, into `text`"
BEIR_QUERIES = f"{BEIR}; rename `_id` to `qid` and `text` to `query`"
LINES = "corpus.jsonl(.gz) is TIREx format and needs queries.jsonl(.gz); add it"


class _BeirId(msgspec.Struct):
    value: object = msgspec.field(name="_id")


def is_beir(line: bytes) -> bool:
    """Return whether a line has BEIR's `_id`."""
    try:
        msgspec.json.decode(line, type=_BeirId)
    except (ValueError, RecursionError):
        return False
    return True


def begins_as_beir(file: Path) -> bool:
    """Return whether a file's first line is in BEIR format."""
    _, first_line = next(lines(file), (0, b""))
    return is_beir(first_line)


def other_corpus(directory: Path) -> str:
    """Describe an unsupported corpus in a directory without a supported one; "" if none."""
    for file in named(directory, "corpus.jsonl", "corpus.jsonl.gz"):
        return f"{file}: {BEIR_DOCUMENTS if begins_as_beir(file) else LINES}"
    for file in named(directory, *TABLES):
        return f"{file}: {TABLE}"
    return ""
