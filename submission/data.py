"""The stations that all systems share: topics, corpus, candidates, tokens; from either form of an input."""

from __future__ import annotations

import hashlib
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import Protocol

import pandas as pd

from submission.corpus import corpus_files, input_hashes, long_enough, read_corpus
from submission.errors import InputError
from submission.retrieval.bm25 import candidates
from submission.retrieval.given import given_candidates, run_file
from submission.runs import read_run
from submission.stopwatch import Stopwatch
from submission.tirex import Tirex
from submission.tokens import Tokens
from submission.topics import read_topics, topic_files


class Form(Protocol):
    """A way in which topics and corpus are handed over."""

    name: str
    retrieval: str  # where candidates come from, for people
    topic_files: list[Path]
    corpus_files: list[Path]
    reranking: Path | None  # the file of a list to be re-ranked

    def topics(self) -> pd.DataFrame:
        """`qid query`."""

    def corpus(self) -> pd.DataFrame:
        """`docno conclusion premise`."""

    def given(self) -> pd.DataFrame | None:
        """`qid docno score` of that list."""


class ArgsMe:
    """Touché's form: topics in XML and the args.me corpus."""

    name = "Touché's form"
    retrieval = "BM25 over the conclusions, with all their premises"
    reranking: Path | None = None

    def __init__(self, directory: Path) -> None:
        """Find the files. Raises InputError: there are none."""
        self.topic_files, self.corpus_files = topic_files(directory), corpus_files(directory)

    def topics(self) -> pd.DataFrame:
        """`qid query`. Raises InputError."""
        return read_topics(self.topic_files)

    def corpus(self) -> pd.DataFrame:
        """`docno conclusion premise`. Raises InputError."""
        return read_corpus(self.corpus_files)

    def given(self) -> None:
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


class Data:
    """The stations topics, corpus, candidates and tokens, each made when it is first asked for and once."""

    def __init__(self, directory: Path, input_run: Path | None = None) -> None:
        """From an input directory and, if there is one, the run whose documents are the candidates.

        Raises:
            InputError: files are missing.
        """
        self.directory, self.stopwatch = directory, Stopwatch()
        self.form = find_form(directory)
        self._run = None if input_run is None else run_file(input_run)
        source = f"those of {self._run}" if self._run else self.form.retrieval
        self.note = f"{self.form.name}; candidates: {source}"

    @property
    def retrieved(self) -> bool:
        """Whether the candidates are BM25's; else they were given."""
        return self._run is None and self.form.reranking is None

    def only(self, qid: str) -> Data:
        """The same with one topic."""
        other = copy(self)
        other.topics = self.topics[self.topics["qid"] == qid].reset_index(drop=True)
        other.candidates = self.candidates[self.candidates["qid"] == qid].reset_index(drop=True)
        return other

    @cached_property
    def topics(self) -> pd.DataFrame:
        """`qid query`."""
        with self.stopwatch.stage("topics"):
            return self.form.topics()

    @cached_property
    def documents(self) -> pd.DataFrame:
        """`docno conclusion premise`, of all lengths."""
        with self.stopwatch.stage("corpus"):
            return self.form.corpus()

    @cached_property
    def corpus(self) -> pd.DataFrame:
        """`docno conclusion premise`, long enough premises only: what is retrieved from."""
        with self.stopwatch.stage("collection"):
            return long_enough(self.documents)

    @cached_property
    def candidates(self) -> pd.DataFrame:
        """`qid docno rank score`."""
        with self.stopwatch.stage("candidates"):
            given = read_run(self._run) if self._run else self.form.given()
            if given is None:
                return candidates(self.topics, self.corpus)
            return given_candidates(given, self.topics, self.documents, self._run or self.form.reranking)

    @cached_property
    def tokens(self) -> Tokens:
        """The texts of topics and documents as ids."""
        return Tokens(self.topics, self.documents, self.stopwatch)

    @cached_property
    def hashes(self) -> dict[str, str]:
        """The SHA-256 of all input files by their names."""
        with self.stopwatch.stage("hashes"):
            own = input_hashes(list(dict.fromkeys([*self.form.topic_files, *self.form.corpus_files])))
            return own if self._run is None else own | {"input run": input_hashes([self._run])[self._run.name]}

    @cached_property
    def corpus_fingerprint(self) -> str:
        """The hash of the corpus files' names and bytes."""
        return _hash({file.name: self.hashes[file.name] for file in self.form.corpus_files})

    @cached_property
    def fingerprint(self) -> str:
        """The hash of all input files' names and bytes."""
        return _hash(self.hashes)


def _hash(hashes: dict[str, str]) -> str:
    return hashlib.sha256("".join(f"{name} {value}\n" for name, value in hashes.items()).encode()).hexdigest()
