"""The forms in which topics and documents are handed over."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import pandas as pd

from submission.errors import InputError
from submission.input.args_me import ArgsMe
from submission.input.tirex import Tirex


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


def find_form(directory: Path) -> Form:
    """The form of an input directory. Raises InputError: none that is known."""
    try:
        there = directory.is_dir()
    except OSError as error:  # a name that is too long, a parent that may not be read
        raise InputError(f"{directory}: cannot be read ({error.strerror})") from None
    if not there:
        raise InputError(f"{directory}: no such input directory; expected one with topics*.xml and the args.me JSON files")
    return Tirex(directory) if Tirex.is_in(directory) else ArgsMe(directory)
