from __future__ import annotations

from collections.abc import Iterable

import pandas as pd
import pytest

from submission.inference.pair_scoring import TokenCache
from submission.text.tokenisers import MaxLengths, WordTokeniser
from submission.text.vocabulary import Vocabulary
from submission.timing import Stopwatch

TOPICS = pd.DataFrame({"qid": ["7"], "query": ["Are zoos cruel?"]})
PREMISES = {"a": "Zoos, they say, are cruel.", "b": "golf"}


def texts(docnos: Iterable[str]) -> pd.DataFrame:
    return pd.DataFrame({"docno": list(docnos), "premise": [PREMISES[docno] for docno in docnos]})


def test_equal_tokenisers_share_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    monkeypatch.setattr(
        "submission.text.normalisation.tokenise_premise", lambda text, text_rule: read.append(text) or text.lower().split()
    )
    tokens = TokenCache(TOPICS, texts, Stopwatch())

    def ids(tokeniser: WordTokeniser, docnos: list[str]) -> dict[str, list[int]]:
        return {docno: token_ids.tolist() for docno, token_ids in tokens.get_premise_ids(tokeniser, docnos).items()}

    first, second = WordTokeniser(Vocabulary(["golf"]), MaxLengths()), WordTokeniser(Vocabulary(["x", "cruel."]), MaxLengths())
    assert ids(first, ["b"]) == {"b": [2]}
    assert ids(second, ["a", "b", "a"]) == {"a": [1, 1, 1, 1, 3], "b": [1]}
    assert read == ["golf", "Zoos, they say, are cruel."]
    shorter = WordTokeniser(Vocabulary(["golf"]), MaxLengths(premise=2))
    assert ids(shorter, ["a"]) == {"a": [1, 1]}
    assert len(read) == 3


def test_queries() -> None:
    assert TokenCache(TOPICS, texts, Stopwatch()).get_query_ids(WordTokeniser(Vocabulary(["cruel", "zoos"]), MaxLengths())) == {
        "7": [3, 2]
    }
