"""Tests of the term index against term counts of each document."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from submission.retrieval.term_index import IndexSettings, TermIndex, load_or_build_term_index
from submission.storage.artifact_store import ArtifactStore
from submission.text.index_terms import TermAnalyser
from tests.conftest import build_text_lookup

pytestmark = pytest.mark.usefixtures("small_shards")

UNSTEMMED = IndexSettings(stemmer="none")
DOCUMENTS = pd.DataFrame(
    {
        "docno": [f"d{row:03}" for row in range(400)],
        "conclusion": [f"zoos {'cages ' * (row % 3)}" for row in range(400)],
        "premise": [f"zoos w{row % 7} w{row % 11} “w{row % 5}”…x" if row != 13 else "the" for row in range(400)],
    }
)


def build_index(directory: Path, documents: pd.DataFrame = DOCUMENTS, settings: IndexSettings = UNSTEMMED) -> TermIndex:
    lookup, store = build_text_lookup(documents), ArtifactStore(directory, {}, overwrite=True)
    return load_or_build_term_index(documents["docno"].tolist(), lookup, settings, store)


def test_index_counts_terms(tmp_path: Path) -> None:
    index, analyser = build_index(tmp_path), TermAnalyser("none")
    counts = [Counter(analyser.analyse(f"{row.conclusion} {row.premise}")) for row in DOCUMENTS.itertuples()]
    total = sum(counts, Counter())
    assert index.terms == sorted(total)
    assert index.lengths.tolist() == [count.total() for count in counts]
    assert index.token_count == total.total()
    for row, count in enumerate(counts):
        terms, frequencies = index.get_document_terms(row)
        assert list(zip(terms, frequencies.tolist(), strict=True)) == sorted(count.items())
    for term in index.terms:
        postings = [values.tolist() for values in index.get_postings(term)]
        assert postings == [[i for i, count in enumerate(counts) if count[term]], [c[term] for c in counts if c[term]]]
    statistics = index.get_statistics(["zoos", "unheard", "cages"])
    assert (statistics.document_count, statistics.df.tolist(), statistics.cf.tolist()) == (400, [400, 0, 266], [799, 0, 399])
    assert {array.dtype for array in (index.by_term.indices, index.by_term.data, index.lengths)} == {np.dtype(np.int32)}


def test_conclusion_equal_to_the_premise_is_counted_once(tmp_path: Path) -> None:
    index = build_index(tmp_path / "premise", settings=IndexSettings("premise", "none"))
    assert index.get_postings("cages")[0].size == 0
    documents = DOCUMENTS.assign(conclusion=DOCUMENTS["premise"])  # as in the TIREx format
    assert build_index(tmp_path / "same", documents).token_count == index.token_count
