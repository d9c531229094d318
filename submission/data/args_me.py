"""Read Touché's format: topics in XML, the args.me corpus in JSON or JSON Lines."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from operator import attrgetter
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd

from submission.data import args_me_records
from submission.data.args_me_errors import RawCorpus, decode_argument, recover_arguments
from submission.data.args_me_records import Argument, decode_arguments, is_jsonl, iter_jsonl
from submission.data.collection import MIN_PREMISE_WORDS
from submission.data.input_files import (
    batched,
    collect,
    find_files,
    is_invalid_id,
    read_bytes,
    strict,
    strip_bom,
    yielding_errors,
)
from submission.data.topics import find_topic_files, read_topics
from submission.data.unsupported_formats import describe_unsupported_corpus
from submission.errors import InputError, abbreviate
from submission.timing import gc_paused

log = logging.getLogger(__name__)

PORTALS = ("debateorg", "debatepedia", "debatewise", "idebate", "parliamentary")
EXTENSIONS = (".json", ".json.gz", *args_me_records.JSONL_EXTENSIONS)


class ArgsMeReader:
    """Reader of a directory in Touché's format."""

    format_name = "Touché format"
    rerank_file: Path | None = None
    min_premise_words = MIN_PREMISE_WORDS

    def __init__(self, directory: Path) -> None:
        """Find topic and corpus files."""
        self.topic_files, self.corpus_files = find_topic_files(directory), find_corpus_files(directory)

    def read_topics(self) -> tuple[pd.DataFrame, list[str]]:
        return read_topics(self.topic_files)

    def read_documents(self) -> tuple[pd.DataFrame, list[str]]:
        return read_arguments(self.corpus_files)

    def iter_batches(self) -> Iterator[pd.DataFrame]:
        for file in self.corpus_files:
            argument_count = 0
            for batch in batched(strict(iter_arguments(file))):
                argument_count += len(batch)
                yield _to_frame(batch)
            log.info("%s: %d arguments", file.name, argument_count)

    def read_candidates(self) -> None:
        """Return None: this format has no candidates."""


def find_corpus_files(directory: Path) -> list[Path]:
    """Return the sorted corpus files of a directory: portal files or args-me*, .json or .jsonl, optionally gzipped."""
    files = find_files(directory, *(f"{name}{ending}" for name in (*PORTALS, "args-me*") for ending in EXTENSIONS))
    if not files:
        expected = ", ".join(f"{portal}.json" for portal in PORTALS)
        raise InputError(
            describe_unsupported_corpus(directory)
            or f"{directory}: no corpus found; expected args-me*.json, or {expected} "
            "(also .jsonl with one argument per line; optionally .gz)"
        )
    return files


@gc_paused()
def read_arguments(files: list[Path]) -> tuple[pd.DataFrame, list[str]]:
    """Read arguments as `docno conclusion premise`, premises joined by a space, in file order.

    Drops and counts arguments repeated with equal text.

    Returns:
        The readable arguments, and all issues: unreadable, malformed, truncated or non-UTF-8 JSON, missing fields, invalid ids,
        ids with different texts.
    """
    arguments: list[Argument] = []
    counts_per_file, issues = [], []
    for file in files:
        file_arguments, file_issues = _read_arguments(file)
        log.info("%s: %d arguments", file.name, len(file_arguments))
        arguments += file_arguments
        counts_per_file.append(len(file_arguments))
        issues += file_issues
    documents = _to_frame(arguments)
    duplicates = documents[documents["docno"].duplicated(keep=False)]
    if len(duplicates):
        file_names = np.repeat(list(map(str, files)), counts_per_file)
        issues += _find_conflicts(duplicates, file_names)
        total, documents = len(documents), documents.drop_duplicates("docno", ignore_index=True)
        if not issues:
            log.warning("dropped %d arguments repeated with the same text", total - len(documents))
    return documents, issues


def _read_arguments(file: Path) -> tuple[list[Argument], list[str]]:
    """Decode a JSON file at once, which is faster; if it is invalid, or JSON Lines, argument by argument."""
    if not is_jsonl(file):
        with suppress(ValueError, RecursionError, MemoryError):
            arguments = decode_arguments(Argument, file)
            if _have_valid_ids(arguments):
                return arguments, []
    return collect(iter_arguments(file))


def iter_arguments(file: Path) -> Iterator[Argument | InputError]:
    """Yield the arguments of a corpus file, and an error for each invalid one."""
    return iter_jsonl(file) if is_jsonl(file) else _iter_json(file)


@yielding_errors
def _iter_json(file: Path) -> Iterator[Argument | InputError]:
    """Yield the arguments and errors of a JSON file; keeps only undecoded bytes in memory."""
    data = strip_bom(read_bytes(file))
    try:
        with gc_paused():
            raw_arguments = msgspec.json.decode(data, type=RawCorpus).arguments
    except (ValueError, RecursionError) as error:
        yield from recover_arguments(file, data, error)
        return
    decode = msgspec.json.Decoder(Argument).decode
    count = 0
    for batch in batched(raw_arguments):
        arguments: list[Argument] = []
        with gc_paused(), suppress(ValueError, RecursionError):
            arguments = [*map(decode, batch)]
        if _have_valid_ids(arguments):
            yield from arguments
        else:
            yield from (decode_argument(file, data, number, raw) for number, raw in enumerate(batch, count + 1))
        count += len(batch)


def _have_valid_ids(arguments: Sequence[Argument]) -> bool:
    """Return whether there are ids and all are valid; testing all joined is fast."""
    ids = [argument.id for argument in arguments]
    return all(ids) and not is_invalid_id("".join(ids))


def _to_frame(arguments: Sequence[Argument]) -> pd.DataFrame:
    premises = [
        argument.premises[0].text if len(argument.premises) == 1 else " ".join([premise.text for premise in argument.premises])
        for argument in arguments
    ]
    docnos, conclusions = map(attrgetter("id"), arguments), map(attrgetter("conclusion"), arguments)
    columns: dict[str, Iterable[str]] = {"docno": docnos, "conclusion": conclusions, "premise": premises}
    arrays = {name: np.fromiter(texts, dtype=object, count=len(arguments)) for name, texts in columns.items()}
    return pd.DataFrame(arrays, copy=False)


def _find_conflicts(duplicates: pd.DataFrame, file_names: np.ndarray) -> Iterator[str]:
    """Yield an issue for each id that has different texts; file_names (N,): file of each row of the corpus."""
    for docno, group in duplicates.groupby("docno", sort=True):
        if len(group.drop_duplicates()) > 1:
            yield (
                f"{', '.join(sorted(set(file_names[group.index])))}: argument {abbreviate(str(docno))} occurs {len(group)} "
                "times with different texts; ids must be unique: do not mix corpus versions"
            )
