"""Tests of BM25 over conclusions against rank_bm25 and hand-computed values."""

import numpy as np
import pandas as pd
from rank_bm25 import BM25Okapi

from aragorn.systems.conclusions import ConclusionIndex, retrieve
from aragorn.text.normalisation import normalise

CONCLUSIONS = {"d4": "Zoos are cruel", "d2": "zoos are CRUEL!", "d3": "Cruel zoos"}
CONCLUSIONS |= {"d1": "Golf is a sport", "d0": "Taxes are cruel to people who work"}
CONCLUSIONS["d5"] = "Cats make better pets than dogs"
CORPUS = pd.DataFrame({"docno": list(CONCLUSIONS), "conclusion": list(CONCLUSIONS.values())})


def test_retrieval_orders_ties_and_skips_unknown_words(caplog):
    topics = pd.DataFrame({"qid": ["1", "2", "3"], "query": ["Are zoos cruel?", "quux", "golf"]})
    ranking = retrieve(topics, ConclusionIndex.build(CORPUS))
    # "cruel zoos" and "zoos cruel" tie: the normalised conclusion decides, then the docno.
    assert list(ranking[["qid", "docno", "rank"]].itertuples(index=False, name=None)) == [
        ("1", "d3", 1), ("1", "d2", 2), ("1", "d4", 3), ("1", "d0", 4), ("3", "d1", 1),
    ]  # fmt: skip
    scores = ranking["score"].tolist()
    assert scores[0] == scores[1] == scores[2] > scores[3] > 0
    assert "topic 2 (quux): no conclusion contains a query term" in caplog.text
    expected = ["qid", "docno", "rank", "score"]
    assert retrieve(topics[1:2], ConclusionIndex.build(CORPUS)).columns.tolist() == expected


def test_scores_equal_rank_bm25():
    rng = np.random.default_rng(3)
    words = [f"w{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(120)]
    weights = 1 / np.arange(1, 121)
    shares = weights / weights.sum()
    texts = [" ".join(rng.choice(words, rng.integers(1, 7), p=shares)) for _ in range(600)]
    index = ConclusionIndex.build(
        pd.DataFrame({"docno": [f"d{i:04}" for i in range(600)], "conclusion": texts})
    )
    assert index.conclusions == sorted({normalise(text) for text in texts})
    reference = BM25Okapi([conclusion.split() for conclusion in index.conclusions])
    sizes = []
    for query in (*texts[:40], "waa waa wab", "unheard of", "unheard wdp"):
        expected = reference.get_scores(normalise(query).split())
        assert (index.score_all(query) == expected).all()  # to the last bit
        order = np.argsort(-expected, kind="stable")[:100]
        actual = index.find_top_conclusions(query)
        assert actual == [(i, expected[i]) for i in order if expected[i] > 0]
        sizes.append(len(index.find_top_conclusions(query)))
    assert (min(sizes), max(sizes)) == (0, 100)


def test_conclusions_that_differ_after_a_null_character_are_apart():
    collection = pd.DataFrame({"docno": ["a", "b"], "conclusion": ["zoo\0a", "zoo\0b"]})
    index = ConclusionIndex.build(collection)
    assert index.docnos == [["a"], ["b"]]
