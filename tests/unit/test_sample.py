"""Tests of the bundled sample: its size, judgments, ids and topics."""

import re

import pytest

from aragorn.io.collection import find_mismatched_ids, select_collection
from aragorn.io.dataset import Dataset
from aragorn.io.qrels import read_qrels
from aragorn.io.touche import read_topics
from tests.conftest import REAL_DATA, SAMPLE


def test_sample_is_judged_and_has_ids_from_its_texts():
    corpus = Dataset(SAMPLE).documents
    qrels = read_qrels(SAMPLE.parent / "sample.qrels")
    docnos, n_hashed = find_mismatched_ids(corpus)
    assert (len(docnos), n_hashed) == (0, len(corpus))
    # texts too short for the collection
    assert 30 <= len(corpus) - len(select_collection(corpus)) < len(corpus) - 300
    assert set(qrels["docno"]) <= set(corpus["docno"])
    assert set(qrels["rel"]) == {0, 1, 2}
    assert qrels["qid"].nunique() == len(Dataset(SAMPLE).topics) >= 12


@pytest.mark.skipif(not REAL_DATA.exists(), reason="needs the args.me data")
def test_topics_differ_from_touche():
    def read_titles(files):
        queries = [query for file in files for query in read_topics([file])["query"]]
        return {re.sub(r"\W+", " ", query.lower()).strip() for query in queries}

    theirs = read_titles([*(REAL_DATA / "topics").glob("*.xml")])
    assert not theirs & read_titles(Dataset(SAMPLE).topic_files)
