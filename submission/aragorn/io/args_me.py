"""Read data sets in Touché's format: topics in XML, and the args.me corpus in JSON or JSON
Lines."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from pathlib import Path

import numpy as np
import pandas as pd

from aragorn.errors import InputError, abbreviate, describe_subdirectories, pluralise
from aragorn.io.args_me_records import Argument, iter_arguments, read_corpus_file
from aragorn.io.collection import MIN_PREMISE_WORDS
from aragorn.io.input_files import batched, describe_missing, find_files, raise_on_error
from aragorn.io.topics import find_topic_files, read_topics
from aragorn.io.unsupported_formats import describe_unsupported_corpus
from aragorn.timing import pause_gc

log = logging.getLogger(__name__)

PORTALS = ("debateorg", "debatepedia", "debatewise", "idebate", "parliamentary")
PORTAL_FILES = tuple(
    f"{portal}{extension}" for portal in PORTALS for extension in (".json", ".jsonl")
)
ARGS_ME_FILES = ("args-me*.json", "args-me*.jsonl")


class ArgsMeReader:
    """Reader of an input in Touché's format; `has_topics` is false if only the corpus is read."""

    format_name = "Touché format"
    rerank_file: Path | None = None
    min_premise_words = MIN_PREMISE_WORDS

    def __init__(self, *paths: Path, has_topics: bool = True) -> None:
        self.topic_files = find_topic_files(*paths) if has_topics else []
        self.corpus_files = find_corpus_files(*paths)

    def read_topics(self) -> tuple[pd.DataFrame, list[str]]:
        return read_topics(self.topic_files)

    def read_documents(self) -> tuple[pd.DataFrame, list[str]]:
        return read_arguments(self.corpus_files)

    def iter_batches(self) -> Iterator[pd.DataFrame]:
        for file in self.corpus_files:
            argument_count = 0
            for batch in batched(raise_on_error(iter_arguments(file))):
                argument_count += len(batch)
                yield _to_frame(batch)
            log.info("%s: %d arguments", file.name, argument_count)

    def read_candidates(self) -> None:
        """Return None: this format has no candidates to re-rank."""


def find_corpus_files(*paths: Path) -> list[Path]:
    """Return the corpus files of an input, sorted by name; raise InputError if there are none.

    Corpus files are JSON or JSON Lines, possibly gzipped, and named args-me* or after a portal.
    """
    files = find_files(paths, *PORTAL_FILES, *ARGS_ME_FILES)
    if not files:
        portal_files = ", ".join(f"{portal}.json" for portal in PORTALS)
        raise InputError(
            describe_unsupported_corpus(*paths)
            or f"{describe_missing(paths, 'corpus')}; expected args-me*.json, or {portal_files} "
            "(also .jsonl with one argument per line; optionally .gz); pass a corpus elsewhere with another -i"
            f"{describe_subdirectories(paths)}"
        )
    return files


@pause_gc()
def read_arguments(files: list[Path]) -> tuple[pd.DataFrame, list[str]]:
    """Read the arguments `docno conclusion premise` of corpus files in file order; return them and
    all issues.

    The premises of an argument are joined by spaces. Duplicate arguments (same id and text) are
    dropped; an id with different texts is an issue.
    """
    arguments: list[Argument] = []
    counts_per_file, issues = [], []
    for file in files:
        file_arguments, file_issues = read_corpus_file(file)
        log.info("%s: %d arguments", file.name, len(file_arguments))
        arguments += file_arguments
        counts_per_file.append(len(file_arguments))
        issues += file_issues
    documents = _to_frame(arguments)
    duplicates = documents[documents["docno"].duplicated(keep=False)]
    if len(duplicates):
        issues += _find_conflicts(duplicates, np.repeat(list(map(str, files)), counts_per_file))
        total, documents = len(documents), documents.drop_duplicates("docno", ignore_index=True)
        if not issues:
            log.warning(
                "dropped %s (same id and text)",
                pluralise(total - len(documents), "duplicate argument"),
            )
    return documents, issues


def _to_frame(arguments: Sequence[Argument]) -> pd.DataFrame:
    premises = [" ".join([premise.text for premise in argument.premises]) for argument in arguments]
    docnos, conclusions = map(attrgetter("id"), arguments), map(attrgetter("conclusion"), arguments)
    columns: dict[str, Iterable[str]] = {
        "docno": docnos,
        "conclusion": conclusions,
        "premise": premises,
    }
    arrays = {
        name: np.fromiter(texts, dtype=object, count=len(arguments))
        for name, texts in columns.items()
    }
    return pd.DataFrame(arrays, copy=False)


def _find_conflicts(duplicates: pd.DataFrame, file_names: np.ndarray) -> Iterator[str]:
    """Yield an issue for each id with different texts; `file_names[i]` is the file of the row with
    index i."""
    for docno, group in duplicates.groupby("docno", sort=True):
        if len(group.drop_duplicates()) > 1:
            files = ", ".join(sorted(set(file_names[group.index])))
            reason = (
                f"argument {abbreviate(str(docno))} occurs {len(group)} times with different texts"
            )
            yield f"{files}: {reason}; use the files of a single corpus version"
