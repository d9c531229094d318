"""Tests of the bundled sample: its size, judgments, ids and topics."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from submission.data.args_me import find_corpus_files
from submission.data.collection import select_collection
from submission.data.topics import find_topic_files
from tests.conftest import REAL_DATA, SAMPLE, load_documents, load_topics
from training.evaluation.qrels import read_qrels

QRELS = SAMPLE.parent / "sample.qrels"


def test_sample_size() -> None:
    corpus = load_documents(SAMPLE)
    assert len(select_collection(corpus)) >= 300
    assert len(load_topics(find_topic_files(SAMPLE))) >= 12
    assert len(corpus) - len(select_collection(corpus)) >= 30  # texts too short for the collection
    assert corpus.duplicated(["premise"]).sum() >= 15


def test_qrels_are_graded_and_match_corpus() -> None:
    labels = [line.split() for line in QRELS.read_text().splitlines()]
    assert {label[3] for label in labels} == {"-2", "0", "1", "2"}
    assert {label[2] for label in labels} <= set(load_documents(SAMPLE)["docno"])
    assert read_qrels(QRELS)["qid"].nunique() == len(load_topics(find_topic_files(SAMPLE)))


def compute_java_hash(text: str) -> int:
    units = text.encode("utf-16-be")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) % 2**32
    return value


def test_ids_are_text_hashes() -> None:
    arguments = [a for file in find_corpus_files(SAMPLE) for a in json.loads(file.read_text(encoding="utf-8"))["arguments"]]
    for argument in arguments:
        premise = " ".join(part["text"] for part in argument["premises"])
        text = (31 * compute_java_hash(premise) + compute_java_hash(argument["conclusion"])) % 2**32
        assert argument["id"] == f"S{compute_java_hash(argument['context']['sourceUrl']):x}-A{text:x}"


@pytest.mark.skipif(not REAL_DATA.exists(), reason="needs the args.me data")
def test_topics_differ_from_touche() -> None:
    def read_titles(files: list[Path]) -> set[str]:
        return {re.sub(r"\W+", " ", query.lower()).strip() for query in load_topics(files)["query"]}

    touche = set().union(*(read_titles([file]) for file in (REAL_DATA / "topics").glob("*.xml")))
    assert not touche & read_titles(find_topic_files(SAMPLE))
