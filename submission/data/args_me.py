"""Read Touché's format: topics in XML, the args.me corpus in JSON or JSON Lines."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from operator import attrgetter
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd

from submission.data import args_me_records
from submission.data.args_me_errors import RawCorpus, describe_syntax_error, recover_arguments
from submission.data.args_me_records import JSON_SCHEMA, Argument, arguments_as, has_lines, id_suffix, iter_jsonl
from submission.data.collection import SHORTEST_PREMISE
from submission.data.input_files import ID_RULE, collect, content, named, parts_of, strict, strip_bom, unfit, yielding_errors
from submission.data.json_errors import not_utf8
from submission.data.topics import read_topics, topic_files
from submission.data.unsupported_formats import other_corpus
from submission.errors import InputError, short

log = logging.getLogger(__name__)

PORTALS = ("debateorg", "debatepedia", "debatewise", "idebate", "parliamentary")
ENDINGS = (".json", ".json.gz", *args_me_records.ENDINGS)


class ArgsMe:
    """Reader of a directory in Touché's format."""

    name = "Touché format"
    reranking: Path | None = None
    shortest_premise = SHORTEST_PREMISE

    def __init__(self, directory: Path) -> None:
        """Find topic and corpus files."""
        self.topic_files, self.corpus_files = topic_files(directory), corpus_files(directory)

    def topics(self) -> tuple[pd.DataFrame, list[str]]:
        return read_topics(self.topic_files)

    def documents(self) -> tuple[pd.DataFrame, list[str]]:
        return read_documents(self.corpus_files)

    def parts(self) -> Iterator[pd.DataFrame]:
        for file in self.corpus_files:
            argument_count = 0
            for batch in parts_of(strict(iter_arguments(file))):
                argument_count += len(batch)
                yield _frame(batch)
            log.info("%s: %d arguments", file.name, argument_count)

    def listed(self) -> None:
        """Return None: this format has no candidates."""


def corpus_files(directory: Path) -> list[Path]:
    """Return the sorted corpus files of a directory: portal files or args-me*, .json or .jsonl, optionally gzipped."""
    files = named(directory, *(f"{name}{ending}" for name in (*PORTALS, "args-me*") for ending in ENDINGS))
    if not files:
        expected = ", ".join(f"{portal}.json" for portal in PORTALS)
        raise InputError(
            other_corpus(directory)
            or f"{directory}: no corpus found; expected args-me*.json, or {expected} "
            "(also .jsonl with one argument per line; optionally .gz)"
        )
    return files


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Pause garbage collection: passes over the many new objects are slow and free nothing."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@_no_garbage_collection()
def read_documents(files: list[Path]) -> tuple[pd.DataFrame, list[str]]:
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
    documents = _frame(arguments)
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
    if not has_lines(file):
        with suppress(ValueError, RecursionError, MemoryError):
            arguments = arguments_as(Argument, file)
            if _have_valid_ids(arguments):
                return arguments, []
    return collect(iter_arguments(file))


def iter_arguments(file: Path) -> Iterator[Argument | InputError]:
    """Yield the arguments of a corpus file, and an error for each invalid one."""
    return iter_jsonl(file) if has_lines(file) else _iter_json(file)


@yielding_errors
def _iter_json(file: Path) -> Iterator[Argument | InputError]:
    """Yield the arguments and errors of a JSON file; keeps only undecoded bytes in memory."""
    data = strip_bom(content(file))
    try:
        with _no_garbage_collection():
            numbered: Iterator[tuple[int, msgspec.Raw]] = enumerate(msgspec.json.decode(data, type=RawCorpus).arguments, 1)
    except (ValueError, RecursionError) as error:
        issues, numbered = recover_arguments(file, data, error)
        yield from map(InputError, issues)
    decode = msgspec.json.Decoder(Argument).decode
    for batch in parts_of(numbered):
        with suppress(ValueError, RecursionError):
            arguments = [decode(raw) for _, raw in batch]
            if _have_valid_ids(arguments):
                yield from arguments
                continue
        for number, raw in batch:
            try:
                yield _decode_or_describe(file, number, raw)
            except UnicodeDecodeError:
                if not (position := not_utf8(data)):
                    raise
                yield InputError(describe_syntax_error(file, data, position))
                return


def _decode_or_describe(file: Path, number: int, raw: msgspec.Raw) -> Argument | InputError:
    try:
        argument = msgspec.json.decode(raw, type=Argument)
    except UnicodeDecodeError:
        raise
    except (ValueError, RecursionError) as error:
        return InputError(f"{file}, argument {number}{id_suffix(raw)}: {short(str(error), 200)}; {JSON_SCHEMA}")
    if unfit(argument.id):
        return InputError(f"{file}, argument {number}: invalid id '{short(argument.id)}'; {ID_RULE}")
    return argument


def _have_valid_ids(arguments: Sequence[Argument]) -> bool:
    """Test all ids joined, which is fast."""
    ids = [argument.id for argument in arguments]
    return all(ids) and not unfit("".join(ids))


def _frame(arguments: Sequence[Argument]) -> pd.DataFrame:
    premises = (
        argument.premises[0].text if len(argument.premises) == 1 else " ".join(premise.text for premise in argument.premises)
        for argument in arguments
    )
    docnos, conclusions = map(attrgetter("id"), arguments), map(attrgetter("conclusion"), arguments)
    columns: dict[str, Iterator[str]] = {"docno": docnos, "conclusion": conclusions, "premise": premises}
    arrays = {name: np.fromiter(texts, dtype=object, count=len(arguments)) for name, texts in columns.items()}
    return pd.DataFrame(arrays, copy=False)


def _find_conflicts(duplicates: pd.DataFrame, file_names: np.ndarray) -> Iterator[str]:
    """Yield an issue for each id that has different texts; file_names (N,): file of each row of the corpus."""
    for docno, group in duplicates.groupby("docno", sort=True):
        if len(group.drop_duplicates()) > 1:
            yield (
                f"{', '.join(sorted(set(file_names[group.index])))}: argument {short(str(docno))} occurs {len(group)} times "
                "with different texts; ids must be unique: do not mix corpus versions"
            )
