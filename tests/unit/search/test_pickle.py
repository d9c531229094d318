"""Tests of indexes that are pickled, copied, or sent to another process."""

import copy
import multiprocessing
import pickle

import pandas as pd
import pytest

from aragorn.errors import UsageError
from aragorn.paths import CHECKPOINT_DIR
from aragorn.search import load_system
from aragorn.systems.catalogue import SYSTEMS
from tests.conftest import PREMISE, SAMPLE

ARGUMENTS = {"zoo": f"zoos {PREMISE}", "golf": f"golf courses {PREMISE}"}


@pytest.mark.parametrize("name", SYSTEMS)
def test_each_system_is_pickled_with_its_checkpoints(name):
    system = load_system(name, device="cpu")
    restored = pickle.loads(pickle.dumps(system))
    assert restored.system == system.system
    assert restored.checkpoints.directory == system.checkpoints.directory


@pytest.mark.parametrize(
    "clone", [lambda index: pickle.loads(pickle.dumps(index)), copy.copy, copy.deepcopy]
)
@pytest.mark.parametrize(
    ("name", "arguments", "cache_dir"), [("dirichlet", ARGUMENTS, "cache"), ("bm25", SAMPLE, None)]
)
def test_clone_returns_the_results_of_its_index(
    name, arguments, cache_dir, clone, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    index = load_system(name, device="cpu").index(arguments, cache_dir)
    expected = index.search("zoos")
    assert len(expected) > 0
    pickled = clone(index)
    monkeypatch.chdir("/")
    index.close()
    pd.testing.assert_frame_equal(pickled.search("zoos"), expected)
    pickled.close()


def test_index_is_sent_to_a_spawned_process(tmp_path):
    with load_system("dirichlet", device="cpu").index(ARGUMENTS, tmp_path) as index:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            [result] = pool.map(index.search, ["zoos"])
        pd.testing.assert_frame_equal(result, index.search("zoos"))


def test_forked_process_leaves_the_index_of_its_parent():
    with load_system("dirichlet", device="cpu").index(ARGUMENTS) as index:
        expected = index.search("zoos")
        process = multiprocessing.get_context("fork").Process(target=index.close)
        process.start()
        process.join()
        pd.testing.assert_frame_equal(index.search("zoos"), expected)
    with pytest.raises(UsageError, match="the index is closed"):
        index.search("zoos")


def test_relative_checkpoints_are_found_from_another_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(CHECKPOINT_DIR.parent)
    system = load_system("dirichlet", checkpoints=CHECKPOINT_DIR.name, device="cpu")
    monkeypatch.chdir(tmp_path)
    assert len(system.search(ARGUMENTS, "zoos")) == 2
