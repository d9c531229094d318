"""Choose the reader of an input, which consists of directories, zip archives and files."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import pandas as pd

from aragorn.errors import InputError
from aragorn.io.args_me import ARGS_ME_FILES, PORTAL_FILES, ArgsMeReader
from aragorn.io.input_files import describe_missing, find_files
from aragorn.io.tirex import DOCUMENTS_FILES, QUERIES_FILES, RERANK_FILES, TirexReader
from aragorn.io.topics import TOPIC_FILES
from aragorn.io.unsupported_formats import describe_unsupported_corpus

SINGLE_FILES = (TOPIC_FILES, *PORTAL_FILES, *QUERIES_FILES, *RERANK_FILES)
CORPUS_FILES = (*ARGS_ME_FILES, *DOCUMENTS_FILES)  # each a whole corpus
EXPECTED = "expected topics*.xml, args-me*.json, a portal's .json (also .jsonl), or a file of a TIREx data set (optionally .gz)"


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
        """Yield the documents in batches, in any order and possibly with duplicates; raise
        InputError on the first issue."""

    def read_candidates(self) -> pd.DataFrame | None:
        """Read candidates `qid docno rank score line` in file order, with NaN for missing values;
        None if there is no file."""


def open_reader(*paths: Path, has_topics: bool = True) -> DatasetReader:
    """Return the reader of an input, or of its corpus only; raise InputError if a file is missing,
    doubled or unknown."""
    for path in paths:
        if not path.is_dir() and not find_files([path], *SINGLE_FILES, *CORPUS_FILES):
            raise InputError(
                describe_unsupported_corpus(path)
                or f"{describe_missing([path], 'topics or corpus')}; {EXPECTED}"
            )
    _refuse_doubled(paths)
    return (
        TirexReader(*paths)
        if TirexReader.matches(*paths)
        else ArgsMeReader(*paths, has_topics=has_topics)
    )


def _refuse_doubled(paths: Sequence[Path]) -> None:
    """Raise InputError if two folders have topics or portals of the same name or a corpus each, or
    if a file occurs twice."""
    groups = {"corpus": [*find_files(paths, *CORPUS_FILES), *find_files(paths, *PORTAL_FILES)[:1]]}
    for file in find_files(paths, *SINGLE_FILES):
        groups.setdefault(file.name.split(".")[0], []).append(file)
    for name, files in groups.items():
        for file in files[1:]:
            if file == files[0] or file.parent != files[0].parent:
                raise InputError(
                    f"{file}: second {name} of the input (first: {files[0]}); pass only one of them"
                )
