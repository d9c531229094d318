"""Recognise unsupported corpus formats and suggest how to convert them."""

from pathlib import Path

import msgspec

from aragorn.io.input_files import find_files, iter_lines

TABLE_PATTERNS = ("*.csv", "*.tsv")
TABLE_HINT = (
    "args.me as CSV (Touché 2022) is not supported; use the JSON files of args.me 2020-04-01, "
    "or write args-me.jsonl with one object {id, conclusion, premises} per line"
)
BEIR_UNSUPPORTED = "BEIR format (`_id`, `title`, `text`) is not supported"
BEIR_DOCUMENTS_HINT = f"{BEIR_UNSUPPORTED}; rename `_id` to `docno` and put title and text, joined by a space, into `text`"
BEIR_QUERIES_HINT = f"{BEIR_UNSUPPORTED}; rename `_id` to `qid` and `text` to `query`"
MISSING_QUERIES_HINT = "corpus.jsonl(.gz) in TIREx format requires queries.jsonl(.gz); add it"


class _BeirId(msgspec.Struct):
    value: object = msgspec.field(name="_id")


def is_beir(line: bytes) -> bool:
    """Return whether a line is a record with BEIR's field `_id`."""
    try:
        msgspec.json.decode(line, type=_BeirId)
    except (ValueError, RecursionError):
        return False
    return True


def is_beir_file(file: Path) -> bool:
    """Return whether a file's first non-blank line is in BEIR format."""
    _, first_line = next(iter_lines(file), (0, b""))
    return is_beir(first_line)


def describe_unsupported_corpus(*paths: Path) -> str:
    """Return a message on an unsupported corpus in an input, with a fix; "" if there is none."""
    for file in find_files(paths, "corpus.jsonl"):
        return f"{file}: {BEIR_DOCUMENTS_HINT if is_beir_file(file) else MISSING_QUERIES_HINT}"
    for file in find_files(paths, *TABLE_PATTERNS):
        return f"{file}: {TABLE_HINT}"
    return ""
