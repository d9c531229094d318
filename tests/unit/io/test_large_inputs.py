"""Tests that inputs with many topics, words, attributes or marks are processed in linear time."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from aragorn.index.weighting import build_query
from aragorn.io.run_rules import find_run_issues
from aragorn.io.touche import read_documents, read_topics
from aragorn.text.normalisation import normalise_unicode
from tests.conftest import make_argument

N = 12_000
MAX_SECONDS = 4.0  # of processor time; quadratic algorithms take more
QIDS = [str(index) for index in range(N)]


def build_long_query(folder):
    words = [f"w{index}" for index in range(4 * N)]
    query = build_query([*words, words[0]])
    assert (query["w0"], query["w1"]) == (1.0, 0.5)
    return len(query)


def normalise_many_marks(folder):
    text = normalise_unicode("a" + 4 * N * "\u0301\u0323")
    assert text == "\u1ea1" + (4 * N - 1) * "\u0323" + 4 * N * "\u0301"
    return len(text) // 8


def read_many_attributes(folder):
    attributes = " ".join(f'a{index}="1"' for index in range(4 * N))
    file = folder / "topics.xml"
    file.write_text(f"<t><topic {attributes}><number>1</number><title>a b</title></topic></t>")
    return len(read_topics([file]))


def read_repeated_arguments(folder):
    arguments = [make_argument(f"a{index}") for index in range(N)] * 2
    file = folder / "args-me.json"
    file.write_text(json.dumps({"arguments": arguments}))
    return len(read_documents([file]))


def write_run(folder, prefix):
    file = folder / "run.txt"
    file.write_text("".join(f"{prefix}{qid} Q0 a1 1 2.5 tag\n" for qid in QIDS))
    return file


def check_run_of_many_topics(folder):
    file = write_run(folder, "")
    assert find_run_issues(file, QIDS, {"a1"}) == []
    return len(find_run_issues(file, QIDS[: N // 2], {"a1"})) + N // 2  # of unknown topics


def check_run_of_other_topics(folder):
    issues = find_run_issues(write_run(folder, "x"), QIDS, {"a1"})
    assert issues[-1].message.startswith(f"none of the {N} topics is in the run (0, 1, 2,")
    return len(issues) - 1


CASES = {
    "query of many words": (build_long_query, 4 * N),
    "many combining marks": (normalise_many_marks, N),
    "many attributes": (read_many_attributes, 1),
    "repeated arguments": (read_repeated_arguments, N),
    "run of many topics": (check_run_of_many_topics, N),
    "run of other topics": (check_run_of_other_topics, N),
}


@pytest.mark.parametrize("case", CASES)
def test_time_is_linear(case, tmp_path):
    process: Callable[[Path], int]
    process, expected = CASES[case]
    start = time.process_time()
    assert process(tmp_path) == expected
    assert time.process_time() - start < MAX_SECONDS
