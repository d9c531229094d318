"""Tests that a vector store finds vectors until a part is damaged, while others append."""

import multiprocessing

import numpy as np
import pytest

from aragorn.cache import Parts
from aragorn.errors import OutputError
from aragorn.index import vectors
from aragorn.index.vectors import VectorStore, hash_text

DIMENSION = 4
KEYS = [hash_text("premise", text) for text in ("zoos", "guns", "")]
VECTORS = np.arange(12).reshape(3, 4).astype(np.float16)


@pytest.fixture
def store(tmp_path):
    store = VectorStore(Parts(tmp_path / "vectors"), DIMENSION)
    assert store.find(KEYS).tolist() == [-1, -1, -1]
    store.append(KEYS, VECTORS)
    return store


def test_vectors_are_found_by_text_and_input_type(store):
    for reader in (store, VectorStore(store.parts, DIMENSION)):
        rows = reader.find([*KEYS[::-1], hash_text("query", "zoos")])
        assert rows.tolist() == [2, 1, 0, -1]
        np.testing.assert_array_equal(reader.vectors[rows[:3]], VECTORS[::-1])


def test_damaged_part_counts_as_missing_and_is_replaced(store):
    key = hash_text("query", "golf")
    store.append([key], VECTORS[:1])
    [name] = [name for name in store.parts.get_names() if len(store.parts.read(name) or b"") > 30]
    (store.parts.path / name).write_bytes((store.parts.path / name).read_bytes()[:-1])
    reader = VectorStore(store.parts, DIMENSION)
    assert reader.find([*KEYS, key]).tolist() == [-1, -1, -1, 0]
    reader.append(KEYS, VECTORS)
    assert reader.find([*KEYS, key]).tolist() == [1, 2, 3, 0]
    rows = VectorStore(store.parts, DIMENSION).find(KEYS)
    assert (rows >= 0).all()


def append_many(parts, process):
    store = VectorStore(parts, DIMENSION)
    for batch in range(50):
        keys = [hash_text("query", f"{process} {batch} {part}") for part in "ab"]
        store.append(keys, np.full((2, DIMENSION), batch, dtype=np.float16))


def test_processes_append_and_merge_side_by_side(store, monkeypatch):
    monkeypatch.setattr(vectors, "MAX_PARTS", 10)
    context = multiprocessing.get_context("fork")
    writers = [
        context.Process(target=append_many, args=(store.parts, process)) for process in range(4)
    ]
    for writer in writers:
        writer.start()
    keys = [
        hash_text("query", f"{process} {batch} a") for process in range(4) for batch in range(50)
    ]
    expected = np.arange(200) % 50
    n_known = 0
    while any(writer.is_alive() for writer in writers):  # a reader neither loses nor mixes vectors
        rows = store.find(keys)
        np.testing.assert_array_equal(store.vectors[rows[rows >= 0], 0], expected[rows >= 0])
        assert (rows >= 0).sum() >= n_known
        n_known = (rows >= 0).sum()
    assert [writer.exitcode for writer in writers] == [0] * 4
    for reader in (store, VectorStore(store.parts, DIMENSION)):
        rows = reader.find(keys + KEYS)
        np.testing.assert_array_equal(reader.vectors[rows[:-3], 0], expected)
        np.testing.assert_array_equal(reader.vectors[rows[-3:]], VECTORS)
    assert len(store.parts.get_names()) <= 10


def test_unwritable_folder_raises_an_output_error(tmp_path):
    (tmp_path / "blocked").touch()
    with pytest.raises(OutputError, match=r"blocked/vectors: .*; choose another directory"):
        VectorStore(Parts(tmp_path / "blocked" / "vectors"), DIMENSION).append(KEYS, VECTORS)
