"""Input directory: topics, documents and an optional supplied ranking, read on first use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Protocol

import pandas as pd

from submission.data.args_me import ArgsMe
from submission.data.ranking_order import Order
from submission.data.runs import read_run, run_file
from submission.data.supplied_rankings import given_lists, in_order
from submission.data.tirex import Tirex
from submission.errors import InputError, UsageError, nearest, short
from submission.storage.atomic_files import file_name
from submission.storage.hashing import fingerprint, input_hashes
from submission.timing import Stopwatch


class Form(Protocol):
    """Reader of one input format."""

    name: str
    topic_files: list[Path]
    corpus_files: list[Path]
    reranking: Path | None  # candidates to re-rank
    shortest_premise: int  # minimum premise length of the collection; 0: no minimum

    def topics(self) -> tuple[pd.DataFrame, list[str]]:
        """Read topics `qid query`; return them and all issues."""

    def documents(self) -> tuple[pd.DataFrame, list[str]]:
        """Read documents `docno conclusion premise`; return them and all issues."""

    def parts(self) -> Iterator[pd.DataFrame]:
        """Yield the documents in batches, repeated ones each time, in any order; raise the first issue."""

    def listed(self) -> pd.DataFrame | None:
        """Read candidates `qid docno rank score line` in file order; missing values are NaN. None if there is no file."""


def find_form(directory: Path) -> Form:
    """Return the reader for an input directory."""
    return Tirex(directory) if Tirex.is_in(directory) else ArgsMe(directory)


def refuse(faults: list[str]) -> None:
    """Raise InputError with the first issue, if any."""
    if faults:
        raise InputError(faults[0])


class Input:
    """Topics, documents and optional supplied ranking of an input directory."""

    def __init__(self, directory: Path, input_run: Path | None = None, qid: str | None = None, order: Order = "auto") -> None:
        """Find the files.

        Args:
            directory: Directory with topics and documents in a supported format.
            input_run: Run to re-rank, or a directory with run.txt.
            qid: Only topic to use; None: all topics.
            order: Order of a supplied ranking, see `in_order`.
        """
        self.directory, self.stopwatch = directory, Stopwatch()
        self.form, self._qid, self._order = find_form(directory), qid, order
        self._run = None if input_run is None else run_file(input_run)
        self.list_file = self._run or self.form.reranking  # documents to re-rank; None: systems retrieve
        mode = (
            f"re-ranking the documents of {self.list_file}" if self.list_file else "each system retrieves from the collection"
        )
        self.note = f"{self.form.name}; {mode}"

    @cached_property
    def topics(self) -> pd.DataFrame:
        """Topics `qid query`.

        Raises:
            UsageError: If the requested topic does not exist.
        """
        with self.stopwatch.stage("topics"):
            topics, issues = self.form.topics()
        refuse(issues)
        if self._qid is None:
            return topics
        if self._qid not in set(topics["qid"]):
            raise UsageError(f"unknown topic '{short(self._qid)}'; {nearest(self._qid, topics['qid'])}")
        return topics[topics["qid"] == self._qid].reset_index(drop=True)

    @cached_property
    def documents(self) -> pd.DataFrame:
        """All documents `docno conclusion premise`, of any length."""
        with self.stopwatch.stage("documents"):
            documents, issues = self.form.documents()
        refuse(issues)
        return documents

    @cached_property
    def listed(self) -> pd.DataFrame | None:
        """Supplied ranking `qid docno rank score`, sorted; None if there is none."""
        if self._run:
            ranking = read_run(self._run, self._order)
        elif (candidates := self.form.listed()) is not None:
            ranking = in_order(candidates, self._order, self.list_file)
        else:
            return None
        return ranking if self._qid is None else ranking[ranking["qid"] == self._qid]

    @property
    def longest_list(self) -> int | None:
        """Return the largest number of documents per topic in the supplied ranking; None if there is none."""
        return None if self.listed is None else int(self.listed["rank"].max() if len(self.listed) else 0)

    def given(self, unknown: Callable[[Iterable[str]], set[str]]) -> pd.DataFrame | None:
        """Return the validated supplied ranking for all topics; None if there is none.

        Args:
            unknown: Function that returns the docnos that the input lacks.
        """
        if self.listed is None:
            return None
        return given_lists(self.listed, self.topics, unknown(self.listed["docno"]), self.list_file)

    @cached_property
    def hashes(self) -> dict[str, str]:
        """SHA-256 of each input file by name."""
        with self.stopwatch.stage("hashes"):
            hashes = input_hashes(list(dict.fromkeys([*self.form.topic_files, *self.form.corpus_files])))
            run_hash = {} if self._run is None else {"input run": input_hashes([self._run])[file_name(self._run)]}
            return hashes | run_hash

    @property
    def corpus_fingerprint(self) -> str:
        """Hash of the names and contents of the corpus files."""
        return fingerprint({name: self.hashes[name] for name in map(file_name, self.form.corpus_files)})

    @property
    def fingerprint(self) -> str:
        """Hash of all input files, the selected topic and the ranking order."""
        topic_part = {"topic": self._qid} if self._qid is not None else {}
        order_part = {"order": self._order} if self.list_file and self._order != "auto" else {}
        return fingerprint(self.hashes | topic_part | order_part)
