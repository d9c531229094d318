"""Texts of topics and documents as ids, read once for all systems that read alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import numpy as np
import pandas as pd

from submission.scoring.batches import Ids
from submission.stopwatch import Stopwatch
from submission.text.tokenisers import Tokeniser


class Tokens(Protocol):
    """A source of the ids of topics and documents."""

    def queries(self, tokeniser: Tokeniser) -> Mapping[str, Ids]:
        """The ids of all topics by qid."""

    def premises(self, tokeniser: Tokeniser, docnos: Iterable[str]) -> Mapping[str, Ids]:
        """The ids of premises by docno, docno ascending."""


class ReadTokens(Tokens):
    """Ids read from texts; words or pieces are shared by tokenisers that read the same."""

    def __init__(self, topics: pd.DataFrame, texts: Callable[[set[str]], pd.DataFrame], stopwatch: Stopwatch) -> None:
        """Take topics `qid query` and a function docnos → `docno premise`; reading is timed as the stage "tokens"."""
        self._stopwatch = stopwatch
        self._topics = dict(zip(topics["qid"], topics["query"], strict=True))
        self._texts = texts
        self._read: dict[str, dict[str, list[Any]]] = {}

    def queries(self, tokeniser: Tokeniser) -> dict[str, list[int]]:
        return {qid: tokeniser.query(query) for qid, query in self._topics.items()}

    def premises(self, tokeniser: Tokeniser, docnos: Iterable[str]) -> dict[str, np.ndarray]:
        """Return the ids (L,) int32 of each premise."""
        with self._stopwatch.stage("tokens"):
            wanted = set(docnos)
            read = self._read.setdefault(tokeniser.reading, {})
            missing = wanted - read.keys()
            if missing:
                texts = self._texts(missing)
                read |= {docno: tokeniser.read(text) for docno, text in zip(texts["docno"], texts["premise"], strict=True)}
            return {docno: np.array(tokeniser.ids(read[docno]), dtype=np.int32) for docno in sorted(wanted)}
