"""The forms in which topics and documents are handed over."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import pandas as pd

from submission.corpus import corpus_files, read_documents
from submission.errors import InputError
from submission.tirex import Tirex
from submission.topics import read_topics, topic_files


class Form(Protocol):
    """A form: where its files are, and what they say."""

    name: str
    topic_files: list[Path]
    corpus_files: list[Path]
    reranking: Path | None  # the file of a list to be re-ranked

    def topics(self) -> pd.DataFrame:
        """`qid query`. Raises InputError."""

    def documents(self) -> pd.DataFrame:
        """`docno conclusion premise`. Raises InputError."""

    def listed(self) -> pd.DataFrame | None:
        """`qid docno score` of that list. Raises InputError."""


class ArgsMe:
    """Touché's form: topics in XML and the args.me corpus."""

    name = "Touché's form"
    reranking: Path | None = None

    def __init__(self, directory: Path) -> None:
        """Find the files. Raises InputError: there are none."""
        self.topic_files, self.corpus_files = topic_files(directory), corpus_files(directory)

    def topics(self) -> pd.DataFrame:
        """`qid query`. Raises InputError."""
        return read_topics(self.topic_files)

    def documents(self) -> pd.DataFrame:
        """`docno conclusion premise`. Raises InputError."""
        return read_documents(self.corpus_files)

    def listed(self) -> None:
        """There is no such list."""


def find_form(directory: Path) -> Form:
    """The form of an input directory. Raises InputError: none that is known."""
    try:
        there = directory.is_dir()
    except OSError as error:  # a name that is too long, a parent that may not be read
        raise InputError(f"{directory}: cannot be read ({error.strerror})") from None
    if not there:
        raise InputError(f"{directory}: no such input directory; expected one with topics*.xml and the args.me JSON files")
    return Tirex(directory) if Tirex.is_in(directory) else ArgsMe(directory)
