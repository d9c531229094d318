"""Forms of a corpus that are known and not read: what they are, and what to do with them."""

from __future__ import annotations

from pathlib import Path

import msgspec

from submission.input.files import lines, named

TABLES = ("*.csv", "*.csv.gz", "*.tsv", "*.tsv.gz")
TABLE = (
    "a table; args.me as CSV, as Touché handed it over in 2022, is not read; take the JSON files of args.me 2020-04-01, "
    "or write args-me.jsonl with an object {id, conclusion, premises} a line"
)
BEIR = "BEIR's form (`_id`, `title`, `text`), which is not read"
BEIR_DOCUMENTS = f"{BEIR}; rename `_id` to docno and write title and text, joined by a blank, as text"
BEIR_QUERIES = f"{BEIR}; rename `_id` to qid and text to query"
LINES = "corpus.jsonl(.gz) belongs to TIREx's form, whose topics are in queries.jsonl(.gz); add them in that form"


class _Id(msgspec.Struct):
    value: object = msgspec.field(name="_id")


def is_beir(line: bytes) -> bool:
    """Tell whether a line has BEIR's id field."""
    try:
        msgspec.json.decode(line, type=_Id)
    except (ValueError, RecursionError):
        return False
    return True


def begins_as_beir(file: Path) -> bool:
    """Tell whether a file's first line is in BEIR's format. Raises InputError: it cannot be read."""
    _, first = next(lines(file), (0, b""))
    return is_beir(first)


def other_corpus(directory: Path) -> str:
    """Describe a corpus in a format that is not read, in a directory without another; "" where there is none.

    Raises:
        InputError: it cannot be listed or read.
    """
    for file in named(directory, "corpus.jsonl", "corpus.jsonl.gz"):
        return f"{file}: {BEIR_DOCUMENTS if begins_as_beir(file) else LINES}"
    for file in named(directory, *TABLES):
        return f"{file}: {TABLE}"
    return ""
