"""Choose the reader of an input, which consists of directories, zip archives and files."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import pandas as pd

from submission.data.args_me import ARGS_ME_FILES, PORTAL_FILES, ArgsMeReader
from submission.data.input_files import find_files, list_names, with_gzipped
from submission.data.tirex import DOCUMENTS_FILES, QUERIES_FILES, RERANK_FILES, TirexReader
from submission.data.topics import TOPIC_FILES
from submission.data.unsupported_formats import describe_unsupported_corpus
from submission.errors import InputError
from submission.storage.archives import is_archive

SINGLE_FILES = (*TOPIC_FILES, *PORTAL_FILES, *with_gzipped(*QUERIES_FILES, *RERANK_FILES))
CORPUS_FILES = (*ARGS_ME_FILES, *with_gzipped(*DOCUMENTS_FILES))  # each a whole corpus
EXPECTED_FILES = "topics*.xml, args-me*.json, a portal's .json (also .jsonl), or a file of a TIREx data set (optionally .gz)"


class DatasetReader(Protocol):
    """Reader of the topics, documents and candidates of an input in one format."""

    format_name: str
    topic_files: list[Path]
    corpus_files: list[Path]
    rerank_file: Path | None  # candidates to re-rank
    min_premise_words: int  # minimum premise length of the collection; 0: no minimum

    def read_topics(self) -> tuple[pd.DataFrame, list[str]]:
        """Read topics `qid query`; return them and all issues."""

    def read_documents(self) -> tuple[pd.DataFrame, list[str]]:
        """Read documents `docno conclusion premise`; return them and all issues."""

    def iter_batches(self) -> Iterator[pd.DataFrame]:
        """Yield the documents in batches, in any order and possibly with duplicates; raise InputError on the first issue."""

    def read_candidates(self) -> pd.DataFrame | None:
        """Read candidates `qid docno rank score line` in file order, with NaN for missing values; None if there is no file."""


def open_reader(*paths: Path, has_topics: bool = True) -> DatasetReader:
    """Return the reader of an input; `has_topics` is false if only its corpus is read.

    Raises:
        InputError: If a file or archive has no known kind, topics or a corpus are doubled, or topics or a corpus are missing.
    """
    for path in paths:
        _check_kind(path)
    _check_doubled(paths)
    return TirexReader(*paths) if TirexReader.matches(*paths) else ArgsMeReader(*paths, has_topics=has_topics)


def _check_kind(path: Path) -> None:
    """Raise InputError if a path is a file that is neither topics nor a corpus, or an archive without such a file."""
    if path.is_dir() or find_files([path], *SINGLE_FILES, *CORPUS_FILES):
        return
    if reason := describe_unsupported_corpus(path):
        raise InputError(reason)
    if is_archive(path):
        raise InputError(f"{path}: neither topics nor corpus found among {list_names([path])}; expected {EXPECTED_FILES}")
    raise InputError(f"{path}: neither topics nor corpus by its name; expected a zip archive, {EXPECTED_FILES}")


def _check_doubled(paths: Sequence[Path]) -> None:
    """Raise InputError if different directories of an input have topics or portals of the same name, or a corpus each.

    The reader decides which files of a single directory belong together.
    """
    groups: dict[str, list[Path]] = {}
    for file in find_files(paths, *SINGLE_FILES):
        groups.setdefault(file.name.split(".")[0], []).append(file)
    groups["corpus"] = [*find_files(paths, *CORPUS_FILES), *find_files(paths, *PORTAL_FILES)[:1]]
    for name, files in groups.items():
        for file in files[1:]:
            if file == files[0]:
                raise InputError(f"{file}: occurs twice among the inputs; pass it once")
            if file.parent != files[0].parent:
                raise InputError(f"{file}: second {name} of the input (first: {files[0]}); pass only one of them")
