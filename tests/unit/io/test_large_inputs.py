"""Tests that inputs with many topics, words, attributes or marks are processed in linear time."""

import json
import time

import pytest

from aragorn.index.weighting import build_query
from aragorn.io.run_rules import find_run_issues
from aragorn.io.touche import read_documents, read_topics
from aragorn.text.normalisation import normalise_unicode
from tests.conftest import make_argument

N = 12_000
MAX_SECONDS = 4.0  # of processor time; quadratic algorithms take more
QIDS = [str(index) for index in range(N)]


@pytest.fixture(autouse=True)
def is_linear():
    start = time.process_time()
    yield
    assert time.process_time() - start < MAX_SECONDS


def test_query_of_many_words():
    words = [f"w{index}" for index in range(4 * N)]
    query = build_query([*words, words[0]])
    assert (len(query), query["w0"], query["w1"]) == (4 * N, 1.0, 0.5)


def test_many_combining_marks():
    text = normalise_unicode("a" + 4 * N * "\u0301\u0323")
    assert text == "\u1ea1" + (4 * N - 1) * "\u0323" + 4 * N * "\u0301"


def test_many_attributes(tmp_path):
    attributes = " ".join(f'a{index}="1"' for index in range(4 * N))
    file = tmp_path / "topics.xml"
    file.write_text(f"<t><topic {attributes}><number>1</number><title>a b</title></topic></t>")
    assert read_topics([file])["query"].tolist() == ["a b"]


def test_repeated_arguments(tmp_path):
    arguments = [make_argument(f"a{index}") for index in range(N)] * 2
    (tmp_path / "args-me.json").write_text(json.dumps({"arguments": arguments}))
    assert len(read_documents([tmp_path / "args-me.json"])) == N


@pytest.mark.parametrize("prefix", ["", "x"])
def test_runs_of_many_topics(prefix, tmp_path):
    file = tmp_path / "run.txt"
    file.write_text("".join(f"{prefix}{qid} Q0 a1 1 2.5 tag\n" for qid in QIDS))
    issues = find_run_issues(file, QIDS, {"a1"})
    if not prefix:
        assert issues == []
        assert len(find_run_issues(file, QIDS[: N // 2], {"a1"})) == N // 2  # unknown topics
    else:
        assert len(issues) == N + 1
        assert issues[-1].message.startswith(f"none of the {N} topics is in the run (0, 1, 2,")
