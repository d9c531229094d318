"""Token ids of topics and documents, computed once for all systems with equivalent tokenisers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import numpy as np
import pandas as pd

from submission.models.padding import TokenIds
from submission.text.tokenisers import Tokeniser
from submission.timing import Stopwatch


class TokenSource(Protocol):
    """Interface of sources of token ids of topics and documents."""

    def get_query_ids(self, tokeniser: Tokeniser) -> Mapping[str, TokenIds]:
        """Return the token ids of all topics by qid."""

    def get_premise_ids(self, tokeniser: Tokeniser, docnos: Iterable[str]) -> Mapping[str, TokenIds]:
        """Return the token ids of premises by docno, in docno order."""


class TokenCache(TokenSource):
    """A cache of token ids computed from texts; equivalent tokenisers share tokens."""

    def __init__(self, topics: pd.DataFrame, load_premises: Callable[[set[str]], pd.DataFrame], stopwatch: Stopwatch) -> None:
        """Create from topics `qid query` and a function that loads premises `docno premise` by docno.

        The stopwatch measures the stage "tokenisation".
        """
        self._queries = dict(zip(topics["qid"], topics["query"], strict=True))
        self._load_premises, self._stopwatch = load_premises, stopwatch
        self._tokens_by_tokeniser: dict[str, dict[str, list[Any]]] = {}

    def get_query_ids(self, tokeniser: Tokeniser) -> dict[str, list[int]]:
        return {qid: tokeniser.encode_query(query) for qid, query in self._queries.items()}

    def get_premise_ids(self, tokeniser: Tokeniser, docnos: Iterable[str]) -> dict[str, np.ndarray]:
        """Return the token ids (L,) int32 of premises by docno, in docno order."""
        with self._stopwatch.stage("tokenisation"):
            requested = set(docnos)
            tokens = self._tokens_by_tokeniser.setdefault(tokeniser.premise_key, {})
            missing = requested - tokens.keys()
            if missing:
                premises = self._load_premises(missing)
                tokens |= zip(premises["docno"], map(tokeniser.tokenise_premise, premises["premise"]), strict=True)
            return {docno: np.array(tokeniser.to_ids(tokens[docno]), dtype=np.int32) for docno in sorted(requested)}
