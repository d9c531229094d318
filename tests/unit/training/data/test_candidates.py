"""Test candidates of validation on tables small enough to select by hand."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from aragorn.errors import InputError
from aragorn.text.tokenisers import MaxLengths, WordTokeniser
from aragorn.text.vocabulary import Vocabulary
from aragorn_training.data import candidates, pair_tables
from aragorn_training.data.pair_tables import load_validation_queries

CONCLUSIONS = np.array(["aaaa"] * 2 + ["aaab"] * 2 + ["aabb"] * 2 + ["zzzz"] * 3, dtype=object)


def test_least_similar_negatives_come_from_a_sample():
    conclusions = np.array(["query", *(f"other {row}" for row in range(99)), "zzz"], dtype=object)
    sample = np.random.default_rng([0, 10, 0]).choice(np.arange(1, 101), 20, replace=False)
    [[row]] = candidates.draw_negatives(
        conclusions, np.array(["query"], dtype=object), 1, "least_similar", seed=0
    )
    assert row in sample
    assert 100 not in sample  # else this test shows nothing: `zzz` is the least similar of all


def test_too_few_arguments_are_refused():
    message = "'zzzz' needs 7 negatives, but only 6 arguments have other conclusions"
    with pytest.raises(InputError, match=message):
        candidates.draw_negatives(
            CONCLUSIONS, np.array(["zzzz"], dtype=object), 7, "random", seed=0
        )


# The validation split has two queries, `a` and `b`; `d` is the training conclusion that is least
# similar to both.
SPLITS = {"validation": {"aaaa": "a", "aabb": "b"}, "train": {"aaab": "c", "zzzz": "d"}}


@pytest.fixture
def tiny_work_dir(tmp_path, monkeypatch):
    """Write tables of two validation and two training conclusions with five premises."""
    for split, letters in SPLITS.items():
        rows = []
        for text, letter in letters.items():
            second_letter = "a" if letter == "b" else "b"
            names = [(f"{letter}{n}", [f"{second_letter}{(n + 1) % 5}"]) for n in range(5)]
            rows += [
                (docno, f"{text}!", text, f"{docno} word", negatives) for docno, negatives in names
            ]
        columns = ["docno", "conclusion", "normalised_conclusion", "premise", "negatives"]
        pd.DataFrame(rows, columns=columns).to_parquet(tmp_path / f"{split}.words.parquet")
    monkeypatch.setattr(pair_tables, "CANDIDATES_PER_QUERY", 10)
    monkeypatch.setattr(
        pair_tables, "read_prepared_manifest", lambda _: SimpleNamespace(inputs={"seed": 0})
    )
    return tmp_path


def load_candidates(work_dir, pool, rule):
    """Load the queries with their candidates' docnos."""
    tokeniser = WordTokeniser(Vocabulary(()), MaxLengths())
    queries = load_validation_queries(
        work_dir, "words", tokeniser, candidates.CandidateSettings(pool, rule)
    )
    return queries, [[queries.docnos[row] for row in rows] for rows in queries.candidates]


DOCNOS = [f"{letter}{n}" for letter in "abcd" for n in range(5)]


def draw(query, letters):
    """Draw five of the docnos that begin with the letters `letters` for a query."""
    docnos = [docno for docno in DOCNOS if docno[0] in letters]
    return " ".join(np.random.default_rng([0, 10, query]).choice(docnos, 5, replace=False))


@pytest.mark.parametrize(("pool", "rule", "expected"), [
    # as `prepare pairs` has written them
    ("split", "least_similar", ["b1 b2 b3 b4 b0", "a1 a2 a3 a4 a0"]),
    ("split", "random", [draw(0, "b"), draw(1, "a")]),
    # ties are in random order
    ("collection", "least_similar", ["d0 d1 d2 d3 d4", "d0 d1 d2 d3 d4"]),
    ("collection", "random", [draw(0, "bcd"), draw(1, "acd")]),
])  # fmt: skip
def test_candidates_follow_pool_and_rule(tiny_work_dir, pool, rule, expected):
    queries, docnos = load_candidates(tiny_work_dir, pool, rule)
    assert [row[:5] for row in docnos] == [DOCNOS[:5], DOCNOS[5:10]]
    negatives = [
        sorted(row[5:]) if (pool, rule) == ("collection", "least_similar") else row[5:]
        for row in docnos
    ]
    assert [" ".join(row) for row in negatives] == expected
    assert queries.docnos[:10] == DOCNOS[:10]  # those of training follow
    assert [words[0] for words in queries.premise_words] == queries.docnos
    assert np.argsort(queries.tie_order).tolist() == np.argsort(queries.docnos).tolist()


def test_first_negatives_of_all_positives_are_the_least_similar(tiny_work_dir, monkeypatch):
    monkeypatch.setattr(pair_tables, "CANDIDATES_PER_QUERY", 20)
    _, [first, second] = load_candidates(tiny_work_dir, "collection", "least_similar")
    assert [docno[0] for docno in first[5::3]] == ["d"] * 5  # column 0 of 3 per positive
    assert [docno[0] for docno in first[6::3]] == ["b"] * 5
    assert [docno[0] for docno in first[7::3]] == ["c"] * 5
    assert {docno[0] for docno in second[5::3]} == {"d"}
