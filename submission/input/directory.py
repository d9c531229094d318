"""An input directory: topics, documents, and the list to be ranked if one was handed over; each read when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path

import pandas as pd

from submission.disk.files import file_name
from submission.disk.fingerprint import fingerprint, input_hashes
from submission.errors import InputError, UsageError, nearest, short
from submission.input.collection import long_enough
from submission.input.form import find_form
from submission.input.given import given_lists, run_file
from submission.input.runs import read_run
from submission.stopwatch import Stopwatch


def refuse(faults: list[str]) -> None:
    """Raises InputError: the first of some faults."""
    if faults:
        raise InputError(faults[0])


def _scored(listed: pd.DataFrame | None) -> pd.DataFrame | None:
    """A list without scores with some that fall in its order: n, n-1, …, 1 in a topic."""
    if listed is None:
        return None
    return listed.assign(score=listed["score"].fillna(listed.groupby("qid").cumcount(ascending=False) + 1.0))


class Input:
    """What is ranked."""

    def __init__(self, directory: Path, input_run: Path | None = None, qid: str | None = None) -> None:
        """Find the files.

        Args:
            directory: with topics and documents, in any form.
            input_run: a run whose documents are ranked, or the directory that holds it.
            qid: of the only topic that is asked for; None: all are.

        Raises:
            InputError: files are missing.
        """
        self.directory, self.stopwatch = directory, Stopwatch()
        self.form, self._qid = find_form(directory), qid
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
    def collection(self) -> pd.DataFrame:
        """`docno conclusion premise`: what is retrieved from, premises that the form takes for long enough; it may be empty.

        Raises:
            InputError: the documents cannot be read.
        """
        documents = self.documents
        with self.stopwatch.stage("collection"):
            return long_enough(documents, self.form.shortest_premise)

    @cached_property
    def listed(self) -> pd.DataFrame | None:
        """`qid docno score` of the list that was handed over; None: there is none. Raises InputError."""
        listed = read_run(self._run) if self._run else _scored(self.form.listed())
        return listed if listed is None or self._qid is None else listed[listed["qid"] == self._qid]

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
        """The hash of all input files' names and bytes, and of the topic that is asked for."""
        return fingerprint(self.hashes if self._qid is None else {**self.hashes, "topic": self._qid})
