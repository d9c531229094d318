"""The candidates' texts as ids, read once for all systems that read alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pandas as pd

from submission.encoding import Encoder
from submission.stopwatch import Stopwatch


class Tokens:
    """Topics and premises behind encoders: what an encoder reads of a text is kept for the next one that reads the same."""

    def __init__(self, topics: pd.DataFrame, texts: Callable[[set[str]], pd.DataFrame], stopwatch: Stopwatch) -> None:
        """From `qid query` and what gives `docno premise` of some docnos; reading is timed as the stage "tokens"."""
        self._stopwatch = stopwatch
        self._topics = dict(zip(topics["qid"], topics["query"], strict=True))
        self._texts = texts
        self._read: dict[str, dict[str, list[Any]]] = {}

    def queries(self, encoder: Encoder) -> dict[str, list[int]]:
        """The ids of all topics by qid."""
        return {qid: encoder.query(query) for qid, query in self._topics.items()}

    def premises(self, encoder: Encoder, docnos: Iterable[str]) -> dict[str, np.ndarray]:
        """The ids (L,) int32 of premises by docno, docno ascending."""
        with self._stopwatch.stage("tokens"):
            wanted = set(docnos)
            read = self._read.setdefault(encoder.reading, {})
            missing = wanted - read.keys()
            if missing:
                texts = self._texts(missing)
                read |= {docno: encoder.read(text) for docno, text in zip(texts["docno"], texts["premise"], strict=True)}
            return {docno: np.array(encoder.ids(read[docno]), dtype=np.int32) for docno in sorted(wanted)}
