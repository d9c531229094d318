from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from submission.inference.pair_scoring import TokenCache
from submission.text.tokenisers import MaxLengths, WordTokeniser
from submission.text.vocabulary import Vocabulary
from submission.timing import Stopwatch

TOPICS = pd.DataFrame({"qid": ["7"], "query": ["Are zoos cruel?"]})
PREMISES = {"a": "Zoos, they say, cruel.", "b": "golf"}


def test_documents_are_loaded_once_for_all_tokenisers() -> None:
    loaded: list[str] = []

    def load(docnos: Iterable[str]) -> pd.DataFrame:
        docnos = list(docnos)
        loaded.extend(docnos)
        return pd.DataFrame({"docno": docnos, "premise": [PREMISES[docno] for docno in docnos]})

    tokens = TokenCache(TOPICS, load, Stopwatch())
    golf, cruel = (WordTokeniser(Vocabulary([word]), MaxLengths()) for word in ("golf", "cruel"))
    cut = WordTokeniser(Vocabulary(["zoos"]), MaxLengths(premise=1))
    for tokeniser, docnos, expected in (
        (golf, ["b"], {"b": [2]}), (cruel, ["a", "b", "a"], {"a": [1, 1, 1, 1, 1, 2, 1], "b": [1]}), (cut, ["a"], {"a": [2]}),
    ):  # fmt: skip
        ids = tokens.get_premise_ids(tokeniser, docnos)
        assert {docno: token_ids.tolist() for docno, token_ids in ids.items()} == expected
    assert loaded == ["b", "a", "a"]  # the last tokeniser shares no tokens
    assert tokens.get_query_ids(WordTokeniser(Vocabulary(["cruel", "zoos"]), MaxLengths())) == {"7": [3, 2]}
