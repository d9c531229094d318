"""Tests of the term index, BM25, Dirichlet and RM3 against counts and values by hand."""

import math
from collections import Counter

import numpy as np
import pandas as pd
import pytest

from aragorn.index.weighting import BM25, RM3, Dirichlet, build_query, expand_query, search
from aragorn.systems import lexical
from aragorn.systems.lexical import IndexSettings, TermIndex, build_term_index, search_all
from aragorn.text.index_terms import TermAnalyser
from tests.conftest import build_text_lookup

UNSTEMMED = IndexSettings(stemmer="none")
DOCUMENTS = pd.DataFrame({
    "docno": [f"d{row:03}" for row in range(400)], "conclusion": [f"zoos {'cages ' * (row % 3)}" for row in range(400)],
    "premise": [f"zoos w{row % 7} w{row % 11} “w{row % 5}”…x" if row != 13 else "the" for row in range(400)],
})  # fmt: skip


def build_index(directory, documents=DOCUMENTS, settings=UNSTEMMED, *frequencies):
    directory.mkdir(exist_ok=True)
    lookup = build_text_lookup(documents)
    build_term_index(directory, documents["docno"].tolist(), lookup, settings, *frequencies)
    return TermIndex(directory, settings)


@pytest.mark.usefixtures("small_shards")
def test_index_counts_terms(tmp_path):
    index = build_index(tmp_path)
    analyser = TermAnalyser("none")
    texts = DOCUMENTS["conclusion"] + " " + DOCUMENTS["premise"]
    counts = [Counter(analyser.analyse(text)) for text in texts]
    total = sum(counts, Counter())
    assert sorted(index.terms) == sorted(total)
    assert index.lengths.tolist() == [count.total() for count in counts]
    assert index.total_length == total.total()
    for row, count in enumerate(counts):
        terms, frequencies = index.get_document_terms(row)
        assert len(terms) == len(count)
        assert dict(zip(terms, frequencies.tolist(), strict=True)) == count
    for term in index.terms:
        postings = [values.tolist() for values in index.get_postings(term)]
        rows = [row for row, count in enumerate(counts) if count[term]]
        assert postings == [rows, [counts[row][term] for row in rows]]
    statistics = index.get_statistics(["zoos", "unheard", "cages"])
    expected = (400, [400, 0, 266], [799, 0, 399])
    assert (statistics.n_documents, statistics.df.tolist(), statistics.cf.tolist()) == expected
    actual = {array.dtype for array in (index.by_term.columns, index.by_term.values, index.lengths)}
    assert actual == {np.dtype(np.int32)}


def test_conclusion_equal_to_the_premise_is_counted_once(tmp_path):
    index = build_index(tmp_path / "premise", settings=IndexSettings("premise", "none"))
    assert index.get_postings("cages")[0].size == 0
    documents = DOCUMENTS.assign(conclusion=DOCUMENTS["premise"])  # as in the TIREx format
    assert build_index(tmp_path / "same", documents).total_length == index.total_length


def test_collection_may_be_empty(tmp_path):
    index = build_index(tmp_path, DOCUMENTS[:0])
    assert (index.terms, index.total_length) == ([], 0)
    assert search(index, QUERY, BM25(), 10).documents.size == 0


def test_index_sums_the_frequencies_of_enriched_words(tmp_path):
    words = [{"zoos": 4, "cage": 4, "running": 7, "runs": 4}, {}]
    plain, stemmed = (
        build_index(
            tmp_path / stemmer,
            DOCUMENTS[:2],
            IndexSettings(stemmer=stemmer),
            lambda a, b: words[a:b],
        )
        for stemmer in ("none", "porter")
    )
    terms, frequencies = stemmed.get_document_terms(0)
    assert dict(zip(terms, frequencies.tolist(), strict=True)) == {"zoo": 4, "cage": 4, "run": 11}
    assert stemmed.lengths.tolist() == [19, 0]
    expected = {"run": 5, "b": 1}
    assert stemmed.count_enriched_terms({"Running": 2, "run's": 3, "the": 9, "a-b": 1}) == expected
    assert {"running", "runs"} <= {*plain.terms}


TEXTS = [
    "teacher tenur teacher", "tenur school law", "school school gun gun gun", "gun law", "tax law tax school", "gun tax",
]  # fmt: skip
QUERY = build_query(["teacher", "tenur"])
MODELS = [BM25(), BM25(2.4, 0.15), Dirichlet(10), Dirichlet(10, "query")]


def build_premise_index(directory, texts):
    docnos = [f"d{n:02}" for n in range(len(texts))]
    return build_index(
        directory, pd.DataFrame({"docno": docnos, "conclusion": "", "premise": texts})
    )


@pytest.fixture
def six_documents(tmp_path):
    return build_premise_index(tmp_path, TEXTS)


def get_scores(index, query, model):
    hits = search(index, query, model, 10)
    return dict(zip((hits.documents + 1).tolist(), hits.scores.tolist(), strict=True))


def test_scores_match_hand_computed_values(six_documents):
    assert (len(six_documents.lengths), six_documents.total_length) == (6, 19)
    expected = {1: 3.482777, 2: 0.866657}
    assert get_scores(six_documents, QUERY, BM25()) == pytest.approx(expected, abs=1e-6)
    expected = {1: 1.742504, 2: 0.584963}
    assert get_scores(six_documents, QUERY, Dirichlet(10)) == pytest.approx(expected, abs=1e-6)
    # Σ ln p(t|C): the textbook's Σ ln((tf + µp) / (dl + µ)) is the score · ln 2 + this
    constant = 2 * math.log(2 / 19)
    scores = get_scores(six_documents, QUERY, Dirichlet(10, "query")).values()
    textbook = [value * math.log(2) + constant for value in scores]
    assert textbook == pytest.approx([-3.294772, -4.359483], abs=1e-6)


@pytest.mark.parametrize(("feedback", "weighted_terms", "weights", "expected"), [
    (  # law ties with school: the term decides
        "equal", True, {"teacher": 0.46, "tenur": 0.46, "law": 0.08},
        {1: 1.742504, 2: 0.642233, 4: 0.077354, 5: 0.038677},
    ),
    (
        "equal", False, {"teacher": 1 / 3, "tenur": 1 / 3, "law": 1 / 3},
        {1: 1.742504, 2: 0.914270, 4: 0.444785, 5: 0.222392},
    ),
    ("score", True, {"teacher": 0.520476, "tenur": 0.444881, "law": 0.034643}, None),
])  # fmt: skip
def test_expansion_matches_hand_computed_values(
    six_documents, feedback, weighted_terms, weights, expected
):
    expansion = RM3(2, 3, 0.6, feedback, min_df=1, max_df_ratio=1.1, weighted_terms=weighted_terms)
    expanded = expand_query(six_documents, QUERY, Dirichlet(10), expansion)
    assert max(expanded.values()) == 1
    actual = {term: value / sum(expanded.values()) for term, value in expanded.items()}
    assert actual == pytest.approx(weights, abs=1e-6)
    if expected:
        actual = get_scores(six_documents, expanded, Dirichlet(10))
        assert actual == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("model", MODELS, ids=repr)
@pytest.mark.parametrize("expansion", [
    RM3(2, 3, 1.0, min_df=1, max_df_ratio=1.1),
    RM3(2, 0, 0.3, min_df=1, max_df_ratio=1.1),
    RM3(2, 3, 0.3, min_df=1, max_df_ratio=1 / 6),
], ids=["weight 1 of the query", "no expansion terms", "terms in at most a sixth of the documents"])  # fmt: skip
def test_expansion_without_terms_keeps_the_query(six_documents, model, expansion):
    expanded = expand_query(six_documents, QUERY, model, expansion)
    assert get_scores(six_documents, expanded, model) == get_scores(six_documents, QUERY, model)


def test_repeated_and_unknown_terms(six_documents):
    assert build_query(["gun", "law", "gun"]) == {"gun": 1.0, "law": 0.5}
    assert build_query([]) == {}
    assert get_scores(six_documents, {"unheard": 1.0}, BM25()) == {}
    assert expand_query(six_documents, {"unheard": 1.0}, BM25(), RM3()) == {"unheard": 1.0}
    scores = get_scores(six_documents, {"gun": 1.0, "unheard": 1.0}, Dirichlet(10))
    assert scores == get_scores(six_documents, {"gun": 1.0}, Dirichlet(10))
    lower_scores = get_scores(six_documents, {"gun": 1.0, "unheard": 1.0}, Dirichlet(10, "query"))
    assert all(lower_scores[document] < scores[document] for document in scores)


@pytest.mark.parametrize("depth", [4, 100])
def test_ties_keep_document_order(depth, tmp_path):
    index = build_premise_index(tmp_path, ["x b"] * 5 + ["x x b"] + ["x b"] * 5)
    expected = [5, 0, 1, 2, 3, 4, 6, 7, 8, 9, 10]
    assert search(index, {"x": 1.0}, Dirichlet(10), depth).documents.tolist() == expected[:depth]


def test_search_does_not_depend_on_threads(six_documents, monkeypatch):
    titles = ["school law", "teacher", "gun tax", "unheard", ""] * 8
    expansion = RM3(2, 3, 0.6, min_df=1, max_df_ratio=1.1)
    results = []
    for threads in (1, 4):
        monkeypatch.setattr(lexical, "count_cpu_cores", lambda threads=threads: threads)
        hits = search_all(six_documents, titles, Dirichlet(10), expansion, 10, "topics")
        results.append([(topic.documents.tolist(), topic.scores.tolist()) for topic in hits])
    assert results[0] == results[1]
    assert (len(results[0]), results[0][4]) == (40, ([], []))
