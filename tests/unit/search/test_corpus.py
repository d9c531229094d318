from __future__ import annotations

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

from submission.data.dataset import Dataset
from submission.errors import InputError
from submission.search.corpus import Corpus
from submission.search.inputs import build_topics
from tests.conftest import SAMPLE


@pytest.fixture
def tirex(tmp_path: Path) -> Path:
    """Create a TIREx data set with a ranking to re-rank."""
    row = {"qid": "1", "query": "zoos", "docno": "d", "text": "zoos are cruel " * 8, "rank": 1, "score": 2.0}
    (tmp_path / "rerank.jsonl").write_text(json.dumps(row) + "\n")
    return tmp_path


def test_corpus_has_the_fingerprint_and_documents_of_rank(tirex: Path) -> None:
    for directory in (SAMPLE, tirex):
        corpus, dataset = Corpus.from_directory(directory), Dataset(directory)
        assert corpus.corpus_fingerprint == dataset.corpus_fingerprint
        pd.testing.assert_frame_equal(corpus.documents, dataset.documents)


def test_supplied_ranking_is_ignored(tirex: Path) -> None:
    corpus = Corpus.from_directory(tirex)
    assert Dataset(tirex).supplied_ranking(lambda docnos: set()) is not None
    assert (corpus.supplied_ranking(lambda docnos: set()), corpus.ranking_file) == (None, None)
    assert corpus.topics.empty


def test_topics_are_optional(tmp_path: Path) -> None:
    shutil.copy(SAMPLE / "idebate.json", tmp_path)
    assert len(Corpus.from_directory(tmp_path).documents) == 80
    (tmp_path / "idebate.json").write_text("{")
    with pytest.raises(InputError, match=r"idebate\.json.*malformed JSON"):
        _ = Corpus.from_directory(tmp_path).documents


def test_queries_change_the_fingerprint_but_not_that_of_the_corpus() -> None:
    corpus = Corpus.from_directory(SAMPLE)
    inputs = [corpus.with_queries(build_topics(query)) for query in ("zoos", "zoo s", "golf")]
    assert len({dataset.fingerprint for dataset in inputs}) == 3
    assert {dataset.corpus_fingerprint for dataset in inputs} == {corpus.corpus_fingerprint}
