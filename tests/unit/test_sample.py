"""Tests of the bundled sample: its size, judgments, ids and topics."""

import re
from pathlib import Path

import pytest

from submission.data.args_me_ids import find_mismatched_ids
from submission.data.collection import select_collection
from submission.data.dataset import Dataset
from submission.data.topics import find_topic_files, read_topics
from tests.conftest import REAL_DATA, SAMPLE
from training.evaluation.qrels import read_qrels

QRELS = SAMPLE.parent / "sample.qrels"


def test_sample_size() -> None:
    corpus = Dataset(SAMPLE).documents
    assert len(select_collection(corpus)) >= 300
    assert len(read_topics(find_topic_files(SAMPLE))[0]) >= 12
    assert len(corpus) - len(select_collection(corpus)) >= 30  # texts too short for the collection
    assert corpus.duplicated(["premise"]).sum() >= 15


def test_qrels_are_graded_and_match_corpus() -> None:
    labels = [line.split() for line in QRELS.read_text().splitlines()]
    assert {label[3] for label in labels} == {"-2", "0", "1", "2"}
    assert {label[2] for label in labels} <= set(Dataset(SAMPLE).documents["docno"])
    assert read_qrels(QRELS)["qid"].nunique() == len(read_topics(find_topic_files(SAMPLE))[0])


def test_ids_are_text_hashes() -> None:
    corpus = Dataset(SAMPLE).documents
    docnos, hashed_count = find_mismatched_ids(corpus)
    assert (len(docnos), hashed_count) == (0, len(corpus))


@pytest.mark.skipif(not REAL_DATA.exists(), reason="needs the args.me data")
def test_topics_differ_from_touche() -> None:
    def read_titles(files: list[Path]) -> set[str]:
        return {re.sub(r"\W+", " ", query.lower()).strip() for query in read_topics(files)[0]["query"]}

    touche = set().union(*(read_titles([file]) for file in (REAL_DATA / "topics").glob("*.xml")))
    assert not touche & read_titles(find_topic_files(SAMPLE))
