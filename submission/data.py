"""The stations that all systems share: topics, corpus, candidates, tokens; from either form of an input."""

from __future__ import annotations

from collections.abc import Collection
from copy import copy
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Protocol

import pandas as pd

from submission.corpus import corpus_files, input_hashes, long_enough, read_corpus
from submission.errors import InputError
from submission.fingerprint import code_fingerprint, fingerprint
from submission.retrieval.bm25 import ConclusionIndex, candidates
from submission.retrieval.given import given_candidates, run_file
from submission.runs import read_run
from submission.stopwatch import Stopwatch
from submission.store import Store
from submission.tirex import Tirex
from submission.tokens import Tokens
from submission.topics import read_topics, topic_files
from submission.work import Work


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
        self._store: Store | None = None

    def keep_in(self, work: Work) -> None:
        """Keep in a lasting directory what other topics on the same corpus need, and use what is there.

        Raises:
            InputError: the corpus cannot be read. OutputError: the directory cannot be written.
        """
        if work.lasting:
            self._store = Store(work.place("corpus", f"{self.corpus_fingerprint} {code_fingerprint()}"))

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

    @property
    def _kept(self) -> Store | None:
        """The store, if there is one and everything is there."""
        return self._store if self._store and self._store.filled else None

    @cached_property
    def index(self) -> ConclusionIndex:
        """The conclusions of the collection."""
        with self.stopwatch.stage("index"):
            if self._kept:
                return self._kept.index()
            index = ConclusionIndex.of(self.corpus)
            if self._store:
                self._store.fill(index, self.documents)
        return index

    @cached_property
    def collection(self) -> list[str]:
        """The docnos of the collection, ascending."""
        return sorted(chain.from_iterable(self.index.docnos) if self._kept else self.corpus["docno"])

    def collected(self) -> list[str]:
        """The premises of the collection, in its order."""
        premises = self.premises(self.collection)
        return [premises[docno] for docno in self.collection]

    @cached_property
    def size(self) -> int:
        """The number of documents, of all lengths."""
        return self._kept.size() if self._kept else len(self.documents)

    def premises(self, docnos: Collection[str]) -> dict[str, str]:
        """The premises of some documents by docno."""
        if self._kept:
            return self._kept.premises(docnos)
        chosen = self.documents[self.documents["docno"].isin(docnos)]
        return dict(zip(chosen["docno"], chosen["premise"], strict=True))

    @cached_property
    def candidates(self) -> pd.DataFrame:
        """`qid docno rank score`."""
        with self.stopwatch.stage("candidates"):
            given = read_run(self._run) if self._run else self.form.given()
            if given is None:
                return candidates(self.topics, self.index)
            return given_candidates(given, self.topics, self.documents, self._run or self.form.reranking)

    @cached_property
    def tokens(self) -> Tokens:
        """The texts of topics and documents as ids."""
        return Tokens(self.topics, self.premises, self.stopwatch)

    @cached_property
    def hashes(self) -> dict[str, str]:
        """The SHA-256 of all input files by their names."""
        with self.stopwatch.stage("hashes"):
            own = input_hashes(list(dict.fromkeys([*self.form.topic_files, *self.form.corpus_files])))
            return own if self._run is None else own | {"input run": input_hashes([self._run])[self._run.name]}

    @cached_property
    def corpus_fingerprint(self) -> str:
        """The hash of the corpus files' names and bytes."""
        return fingerprint({file.name: self.hashes[file.name] for file in self.form.corpus_files})

    @cached_property
    def fingerprint(self) -> str:
        """The hash of all input files' names and bytes."""
        return fingerprint(self.hashes)
