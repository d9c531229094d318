"""Tests that answers and vectors do not depend on earlier encodings."""

import multiprocessing
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pandas as pd
import pytest
import torch

from aragorn.cache import Parts, open_cache
from aragorn.engine import CPU
from aragorn.index import dense
from aragorn.index.vectors import VectorStore
from aragorn.io.dataset import Dataset
from aragorn.paths import CHECKPOINT_DIR
from aragorn.pipeline.collection import Collection, CorpusFrame
from aragorn.pipeline.retrieval import iter_components
from aragorn.pipeline.session import CheckpointStore, Session
from aragorn.search.indexing import build_indexes
from aragorn.systems.catalogue import get_system
from tests.conftest import SAMPLE, open_searcher

QUESTIONS = ["Should zoos be abolished?", "Is smoking harmful?", "Should voting be compulsory?"]
CHECKPOINTS = CheckpointStore(CHECKPOINT_DIR)
STAGE = get_system("fusion").stage


@pytest.fixture(scope="module")
def corpus():
    """Return a part of the sample that is encoded in seconds."""
    return CorpusFrame(Dataset(SAMPLE).documents.iloc[::9].reset_index(drop=True))


@pytest.fixture(autouse=True)
def small_vector_shards(monkeypatch):
    """Append vectors often, and restore the number of threads."""
    monkeypatch.setattr(dense, "SHARD_SIZE", 8)
    yield
    torch.set_num_threads(1)


def ask(corpus, cache_dir, questions=QUESTIONS, threads=1):
    """Return the ranking of each question; `threads` questions are asked at a time."""
    with (
        open_searcher(corpus, CHECKPOINTS, CPU, cache_dir) as searcher,
        ThreadPoolExecutor(threads) as pool,
    ):
        topics = [pd.DataFrame({"qid": ["1"], "query": [question]}) for question in questions]
        rankings = list(pool.map(lambda topic: searcher.rank(STAGE, topic), topics))
    assert min(map(len, rankings)) > 5
    return {
        question: ranking.to_csv() for question, ranking in zip(questions, rankings, strict=True)
    }


def build_index(corpus, cache_dir):
    with open_cache(cache_dir, Path()) as cache:
        build_indexes(
            [*iter_components(STAGE)], Collection(corpus, Session(CHECKPOINTS, CPU, cache))
        )


def ask_until_killed(corpus, cache_dir):
    append = VectorStore.append

    def append_and_die(store, keys, vectors):
        if len(store.parts.get_names()) > 2:
            (store.parts.path / ".part.0-1-00000002.part").write_bytes(b"incomplete")
            os.kill(os.getpid(), signal.SIGKILL)
        append(store, keys, vectors)

    VectorStore.append = append_and_die
    ask(corpus, cache_dir)


def start_and_kill(corpus, cache_dir):
    """Start a process that is killed when it has appended three parts."""
    process = multiprocessing.get_context("fork").Process(
        target=ask_until_killed, args=(corpus, cache_dir)
    )
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert len(read_vectors(cache_dir)) > 16


def read_vectors(cache_dir):
    """Map the key of each vector to its bytes."""
    [folder] = cache_dir.glob("vectors-*")
    store = VectorStore(Parts(folder), 384)
    parts = [store._read_part(name) for name in Parts(folder).get_names()]
    keys = [
        part[0][start : start + 16]
        for part in parts
        if part
        for start in range(0, len(part[0]), 16)
    ]
    assert len(set(keys)) == len(keys)  # each text was encoded once
    rows = store.find(keys)
    return {key: store.vectors[row].tobytes() for key, row in zip(keys, rows, strict=True)}


@pytest.fixture(scope="module")
def cold(corpus, tmp_path_factory):
    """Return answers and vectors of questions that are asked one by one, without a cache."""
    cache_dir = tmp_path_factory.mktemp("cold")
    return ask(corpus, cache_dir), read_vectors(cache_dir)


PREPARATIONS = {
    "killed": start_and_kill,
    "indexed": build_index,
    "other topics first": lambda corpus, cache_dir: ask(
        corpus, cache_dir, ["Is a vegan diet healthy?"]
    ),
    "two threads": lambda *_: torch.set_num_threads(2),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PREPARATIONS)
def test_answers_and_vectors_equal_those_of_an_empty_cache(name, corpus, cold, tmp_path):
    PREPARATIONS[name](corpus, tmp_path)
    answers = ask(corpus, tmp_path, threads=4)
    vectors = read_vectors(tmp_path)
    assert answers == cold[0]
    assert vectors | cold[1] == vectors
