"""Tests of selected systems, temporary files, concurrency, and missing vectors."""

import errno
import logging
import os
import re
import tempfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Lock

import numpy as np
import pytest

from aragorn.cache import encode_npy
from aragorn.engine import CPU
from aragorn.errors import OutputError
from aragorn.index import dense, inverted
from aragorn.index.vectors import EncodingEstimate
from aragorn.io.dataset import Dataset
from aragorn.paths import CHECKPOINT_DIR
from aragorn.search.cli import DEFAULT_LEXICAL_SYSTEM, choose_systems
from aragorn.search.searcher import MAX_CACHED_QUERIES, SearchOptions
from aragorn.search.server import SearchServer
from aragorn.systems.catalogue import get_system
from tests.conftest import SAMPLE, open_sample_searcher

GPU = "cuda"


def choose_system_names(names, device, checkpoints=CHECKPOINT_DIR):
    with open_sample_searcher(checkpoints, device) as searcher:
        systems, message = choose_systems(names, searcher, [SAMPLE])
    return [system.name for system in systems], message


def test_default_is_fusion_if_it_is_fast(tmp_path):
    assert choose_system_names(["bm25", "gru", "bm25"], CPU) == (["bm25", "gru"], "")
    expected = (["fusion"], "Using fusion (default). Choose another with --system NAME.")
    assert choose_system_names([], GPU) == expected
    names, message = choose_system_names([], CPU)
    command = f"aragorn index -i {SAMPLE} --cache-dir DIR"
    expected = ([DEFAULT_LEXICAL_SYSTEM], True)
    assert (names, f"fusion takes seconds per query until `{command}` has" in message) == expected
    names, message = choose_system_names([], GPU, tmp_path)
    assert (names, "GPU" in message) == ([DEFAULT_LEXICAL_SYSTEM], False)
    best = r"a fast lexical system: fusion: checkpoint \w+.* not found\. Choose another with --system NAME"
    assert re.search(best, message)


def test_queries_leave_no_files(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with open_sample_searcher() as searcher:
        for index in range(2 * MAX_CACHED_QUERIES + 1):
            searcher.search(f"zoos {index}", [get_system("dirichlet")], SearchOptions())
            assert len(list(tmp_path.iterdir())) == 1  # the directory of indexes
    assert list(tmp_path.iterdir()) == []


def test_failed_query_is_answered_when_the_cause_is_gone(monkeypatch):
    def fill_disk(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    system = get_system("dirichlet")
    with open_sample_searcher() as searcher:
        with monkeypatch.context() as patch:
            patch.setattr(inverted, "read_blocks", fill_disk)
            with pytest.raises(OutputError, match="No space left"):
                searcher.search(ENCODED, [system], SearchOptions())
        [result] = searcher.search(ENCODED, [system], SearchOptions()).system_results
        assert (result.error, len(result.hits)) == (None, 5)


ENCODED = "Should zoos be abolished?"
NEW = "Is smoking harmful?"


class FakeEncoder:
    """Quick substitute for SBERT's encoding of texts, which blocks while `is_open` is not set."""

    def __init__(self):
        self.is_open = Event()
        self.is_entered = Event()
        self.texts = []
        self._lock = Lock()
        self.is_open.set()

    def __call__(self, checkpoint, input_type, device, texts):
        with self._lock:
            first = not self.texts
            self.texts += texts
        if len(texts) > dense.SAMPLE_SIZE or not first:
            self.is_entered.set()
            assert self.is_open.wait(60)
        generators = [np.random.default_rng(zlib.crc32(text.encode())) for text in texts]
        vectors = np.array([rng.standard_normal(384) for rng in generators])
        return encode_npy(
            (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float16)
        )


@pytest.fixture
def encoder(monkeypatch):
    """Replace the encoding of texts; all threads end, even if a test fails."""
    fake = FakeEncoder()
    monkeypatch.setattr(dense, "encode_shard", fake)
    monkeypatch.setattr(EncodingEstimate, "remaining_seconds", 30.0)
    yield fake
    fake.is_open.set()


@pytest.fixture
def searcher(encoder):
    with open_sample_searcher() as instance:
        yield instance


def ask(searcher, query, *systems):
    """Return the hits of each system for a query, with explanations, as text."""
    options = SearchOptions(3, lambda system, docno: system != "knrm", highlight=True)
    results = searcher.search(query, [get_system(name) for name in systems], options).system_results
    assert [result.error for result in results] == [None] * len(systems)
    return re.sub(" at 0x[0-9a-f]+", "", repr(results))  # addresses of functions


def test_threads_get_the_answers_of_queries_one_after_another(searcher):
    names = [("dirichlet", "snrm"), ("bm25", "fusion")]
    questions = [(query, *systems) for query in (ENCODED, NEW) for systems in names]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda question: ask(searcher, *question), questions))
    with open_sample_searcher() as sequential:
        assert answers == [ask(sequential, *question) for question in questions]


def test_quick_queries_are_answered_while_another_one_encodes(searcher, encoder):
    encoded = ask(searcher, ENCODED, "fusion")
    encoder.is_open.clear()
    encoder.is_entered.clear()
    with ThreadPoolExecutor(2) as pool:
        slow = pool.submit(ask, searcher, NEW, "fusion")
        assert encoder.is_entered.wait(60)
        for index in range(9):
            quick = pool.submit(ask, searcher, f"{NEW} {index}", "dirichlet")
            assert quick.result(60).count("Hit(") == 3
        assert pool.submit(ask, searcher, ENCODED, "fusion").result(60) == encoded
        assert not slow.done()
        encoder.is_open.set()
        assert slow.result(60).count("Hit(") == 3


def test_each_query_logs_an_estimate_before_it_encodes(searcher, encoder, caplog):
    caplog.set_level(logging.INFO)
    for query, has_progress in ((ENCODED, True), (NEW, False)):
        caplog.clear()
        known_count = len(encoder.texts)
        ask(searcher, query, "fusion")
        estimates = [message for message in caplog.messages if "without a vector" in message]
        assert estimates == [
            f"sbert: encoding {len(encoder.texts) - known_count} texts without a vector, about 30 s"
        ]
        assert any("1 topic in" in message for message in caplog.messages) == has_progress


def test_page_waits_for_vectors_then_shows_results(searcher, encoder):
    server = SearchServer(searcher, Dataset(SAMPLE), [get_system("fusion")], 5, 0)
    server.server_close()
    encoder.is_open.clear()
    for _ in range(2):
        status, text = server.respond("q=zoos")
        expected = (202, True, False)
        is_reloaded = '<meta http-equiv="refresh" content="2">' in text
        assert (status, is_reloaded, "<article" in text) == expected
        assert re.search(r"sbert: encoding \d+ texts without a vector, about 30 s", text)
        assert f"<code>aragorn index -i {SAMPLE} --cache-dir DIR</code>" in text
    assert server.respond("q=zoos&system=dirichlet")[0] == 200
    assert encoder.is_entered.wait(60)  # all texts but those of the sample
    known_count = len(encoder.texts)
    encoder.is_open.set()
    while (answer := server.respond("q=zoos"))[0] == 202:
        pass
    assert (answer[0], answer[1].count("<article"), "refresh" in answer[1]) == (200, 5, False)
    assert len(encoder.texts) >= known_count == len(set(encoder.texts))
