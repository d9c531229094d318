"""The stations that all systems share: topics, corpus, candidates, tokens."""

from __future__ import annotations

import hashlib
from functools import cached_property
from pathlib import Path

import pandas as pd

from submission.corpus import input_hashes, long_enough, read_corpus
from submission.retrieval.bm25 import candidates
from submission.tokens import Tokens
from submission.topics import read_topics


class Data:
    """The stations topics, corpus, candidates and tokens, each made when it is first asked for and once."""

    def __init__(self, topics: list[Path], corpus: list[Path]) -> None:
        self._topic_files, self._corpus_files = topics, corpus

    @cached_property
    def topics(self) -> pd.DataFrame:
        """`qid query`."""
        return read_topics(self._topic_files)

    @cached_property
    def corpus(self) -> pd.DataFrame:
        """`docno conclusion premise`, long enough premises only."""
        return long_enough(read_corpus(self._corpus_files))

    @cached_property
    def candidates(self) -> pd.DataFrame:
        """`qid docno rank score`."""
        return candidates(self.topics, self.corpus)

    @cached_property
    def tokens(self) -> Tokens:
        """The texts of topics and corpus as ids."""
        return Tokens(self.topics, self.corpus)

    @cached_property
    def corpus_fingerprint(self) -> str:
        """The hash of the corpus files' names and bytes."""
        return _hash(input_hashes(self._corpus_files))

    @cached_property
    def fingerprint(self) -> str:
        """The hash of all input files' names and bytes."""
        return _hash({**input_hashes(self._topic_files), "corpus": self.corpus_fingerprint})


def _hash(hashes: dict[str, str]) -> str:
    return hashlib.sha256("".join(f"{name} {value}\n" for name, value in hashes.items()).encode()).hexdigest()
