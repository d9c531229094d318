"""Provide the documents of a directory or data frame, without topics."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from pathlib import Path

import pandas as pd

from submission.data.args_me import ArgsMe, corpus_files
from submission.data.collection import SHORTEST_PREMISE
from submission.data.dataset import Form, Input
from submission.data.tirex import Tirex
from submission.storage.hashing import fingerprint, input_hashes
from submission.timing import Stopwatch

NO_TOPICS = pd.DataFrame({"qid": [], "query": []}, dtype=object)


class Corpus(Input):
    """Documents without topics and without a supplied ranking: every query searches all of them."""

    def __init__(self, form: Form, directory: Path) -> None:
        """Create a corpus; the directory is used for display only."""
        self.form, self.directory, self.note = form, directory, form.name
        self.stopwatch = Stopwatch()
        self.list_file = None
        self.topics = NO_TOPICS

    @cached_property
    def hashes(self) -> dict[str, str]:
        """Return the SHA-256 of each corpus file by name.

        Raises:
            InputError: a file cannot be read.
        """
        with self.stopwatch.stage("hashes"):
            return input_hashes(self.form.corpus_files)

    @property
    def fingerprint(self) -> str:
        """Return the fingerprint of the documents; there are no topics."""
        return self.corpus_fingerprint

    def given(self, unknown: Callable[[Iterable[str]], set[str]]) -> None:
        """Return None: there is no supplied ranking."""

    @property
    def args_me_files(self) -> list[Path]:
        """Return the files of an args.me corpus, [] for other formats."""
        return self.form.corpus_files if isinstance(self.form, _ArgsMe) else []

    @classmethod
    def of_directory(cls, directory: Path) -> Corpus:
        """Load the documents of an input directory, with or without topics.

        Raises:
            InputError: it has none.
        """
        return cls(Tirex(directory) if Tirex.is_in(directory) else _ArgsMe(directory), directory)

    @classmethod
    def of_frame(cls, documents: pd.DataFrame) -> Corpus:
        """Use the documents of a frame `docno conclusion premise`, validated on first access."""
        return _Framed(_Frame(documents), Path("arguments"))


class _ArgsMe(ArgsMe):
    """An args.me corpus; topics are ignored."""

    def __init__(self, directory: Path) -> None:
        """Locate the corpus files.

        Raises:
            InputError: there are none.
        """
        self.topic_files: list[Path] = []
        self.corpus_files = corpus_files(directory)

    def topics(self) -> tuple[pd.DataFrame, list[str]]:
        return NO_TOPICS, []


class _Frame:
    """A frame `docno conclusion premise` as an input format."""

    name = "data frame"
    reranking: Path | None = None
    shortest_premise = SHORTEST_PREMISE

    def __init__(self, documents: pd.DataFrame) -> None:
        self.topic_files: list[Path] = []
        self.corpus_files: list[Path] = []
        self._documents = documents

    def topics(self) -> tuple[pd.DataFrame, list[str]]:
        return NO_TOPICS, []

    def documents(self) -> tuple[pd.DataFrame, list[str]]:
        return self._documents, []

    def parts(self) -> Iterator[pd.DataFrame]:
        yield self._documents

    def listed(self) -> None:
        """Return None: there is no supplied ranking."""


class _Framed(Corpus):
    """Documents of a frame, identified by their content."""

    @cached_property
    def _hash(self) -> str:
        return hashlib.sha256("\0".join(_cells(self.documents)).encode(errors="surrogatepass")).hexdigest()

    @property
    def corpus_fingerprint(self) -> str:
        """Return the fingerprint of all texts."""
        return fingerprint({"documents": self._hash})


def _cells(documents: pd.DataFrame) -> Iterator[str]:
    for column in documents:
        yield from documents[column]
