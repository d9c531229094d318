"""The forms in which topics and documents are handed over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pandas as pd

from submission.input.args_me import ArgsMe
from submission.input.tirex import Tirex


class Form(Protocol):
    """A form: where its files are, and what they say."""

    name: str
    topic_files: list[Path]
    corpus_files: list[Path]
    reranking: Path | None  # the file of a list to be re-ranked
    shortest_premise: int  # words that a document of the collection has at least; 0: all documents are retrieved

    def topics(self) -> tuple[pd.DataFrame, list[str]]:
        """`qid query`, and all that is wrong with them."""

    def documents(self) -> tuple[pd.DataFrame, list[str]]:
        """`docno conclusion premise`, and all that is wrong with them."""

    def parts(self) -> Iterator[pd.DataFrame]:
        """The documents some at a time; of a repeated one each, in any order.

        Raises:
            InputError: something is wrong; `documents` says what.
        """

    def listed(self) -> pd.DataFrame | None:
        """`qid docno rank score line` of that list in the order of its lines; NaN: it has none. Raises InputError."""


def find_form(directory: Path) -> Form:
    """The form of an input directory. Raises InputError: none that is known."""
    return Tirex(directory) if Tirex.is_in(directory) else ArgsMe(directory)
