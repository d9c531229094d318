"""An input directory: topics, documents, and the list to be ranked if one was handed over; each read when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path

import pandas as pd

from submission.disk.files import file_name
from submission.disk.fingerprint import fingerprint, input_hashes
from submission.errors import InputError, UsageError, nearest, short
from submission.input.form import find_form
from submission.input.given import given_lists
from submission.input.order import Order
from submission.input.ordered import in_order
from submission.input.runs import read_run, run_file
from submission.stopwatch import Stopwatch


def refuse(faults: list[str]) -> None:
    """Raises InputError: the first of some faults."""
    if faults:
        raise InputError(faults[0])


class Input:
    """An input directory: topics, documents, and the list that an earlier stage handed over."""

    def __init__(self, directory: Path, input_run: Path | None = None, qid: str | None = None, order: Order = "auto") -> None:
        """Find the files.

        Args:
            directory: with topics and documents, in any form.
            input_run: a run whose documents are ranked, or the directory that holds it.
            qid: of the only topic that is asked for; None: all are.
            order: by what a list that is handed over is ordered, see `in_order`.

        Raises:
            InputError: files are missing.
        """
        self.directory, self.stopwatch = directory, Stopwatch()
        self.form, self._qid, self._order = find_form(directory), qid, order
        self._run = None if input_run is None else run_file(input_run)
        self.list_file = self._run or self.form.reranking  # whose documents every system ranks, and no others
        ranked = f"exactly those of {self.list_file}" if self.list_file else "those that each system retrieves"
        self.note = f"{self.form.name}; documents ranked: {ranked}"

    @cached_property
    def topics(self) -> pd.DataFrame:
        """`qid query`. Raises InputError, UsageError: there is no such topic."""
        with self.stopwatch.stage("topics"):
            topics, faults = self.form.topics()
        refuse(faults)
        if self._qid is None:
            return topics
        if self._qid not in set(topics["qid"]):
            raise UsageError(f"unknown topic '{short(self._qid)}'; {nearest(self._qid, topics['qid'])}")
        return topics[topics["qid"] == self._qid].reset_index(drop=True)

    @cached_property
    def documents(self) -> pd.DataFrame:
        """`docno conclusion premise`, of all lengths. Raises InputError."""
        with self.stopwatch.stage("documents"):
            documents, faults = self.form.documents()
        refuse(faults)
        return documents

    @cached_property
    def listed(self) -> pd.DataFrame | None:
        """`qid docno rank score` of the list that was handed over, in order; None: there is none. Raises InputError."""
        if self._run:
            listed = read_run(self._run, self._order)
        elif (lines := self.form.listed()) is not None:
            listed = in_order(lines, self._order, self.list_file)
        else:
            return None
        return listed if self._qid is None else listed[listed["qid"] == self._qid]

    @property
    def longest_list(self) -> int | None:
        """Return the number of documents of the longest topic in the run handed over; None without one. Raises InputError."""
        return None if self.listed is None else int(self.listed["rank"].max() if len(self.listed) else 0)

    def given(self, unknown: Callable[[Iterable[str]], set[str]]) -> pd.DataFrame | None:
        """The list that was handed over, as lists; None: there is none.

        Args:
            unknown: gives those of some docnos that no document has.

        Raises:
            InputError: it cannot be read, or has what the input does not have.
        """
        if self.listed is None:
            return None
        return given_lists(self.listed, self.topics, unknown(self.listed["docno"]), self.list_file)

    @cached_property
    def hashes(self) -> dict[str, str]:
        """The SHA-256 of all input files by their names. Raises InputError."""
        with self.stopwatch.stage("hashes"):
            own = input_hashes(list(dict.fromkeys([*self.form.topic_files, *self.form.corpus_files])))
            return own if self._run is None else own | {"input run": input_hashes([self._run])[file_name(self._run)]}

    @property
    def corpus_fingerprint(self) -> str:
        """The hash of the corpus files' names and bytes."""
        return fingerprint({name: self.hashes[name] for name in map(file_name, self.form.corpus_files)})

    @property
    def fingerprint(self) -> str:
        """The hash of all input files' names and bytes, of the topic that is asked for, and of how a list is ordered."""
        asked = {"topic": self._qid} if self._qid is not None else {}
        ordered = {"order": self._order} if self.list_file and self._order != "auto" else {}
        return fingerprint(self.hashes | asked | ordered)
