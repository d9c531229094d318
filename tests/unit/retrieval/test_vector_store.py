"""Tests that a vector store keeps each vector until its record is damaged, also with several
processes."""

import multiprocessing
import os
from pathlib import Path

import numpy as np
import pytest
from aragorn.errors import OutputError
from aragorn.retrieval.vector_store import VectorStore, hash_text

DIMENSION, RECORD_SIZE = 4, 16 + 2 * 4 + 8
KEYS = [hash_text("premise", text) for text in ("zoos", "guns", "")]
VECTORS = np.arange(12).reshape(3, 4).astype(np.float16)


@pytest.fixture
def store(tmp_path: Path) -> VectorStore:
    store = VectorStore(tmp_path, DIMENSION)
    assert store.find(KEYS).tolist() == [-1, -1, -1]
    store.append(KEYS, VECTORS)
    return store


def test_vectors_are_found_by_text_and_input_type(store: VectorStore) -> None:
    for reader in (store, VectorStore(store.directory, DIMENSION)):
        rows = reader.find([*KEYS[::-1], hash_text("query", "zoos")])
        assert rows.tolist() == [2, 1, 0, -1]
        np.testing.assert_array_equal(reader.vectors[rows[:3]], VECTORS[::-1])


@pytest.mark.parametrize("size", range(1, RECORD_SIZE, 5))
def test_killed_append_loses_only_its_incomplete_record(store: VectorStore, size: int) -> None:
    store.append(KEYS[:1], VECTORS[:1])
    os.truncate(store.file, 3 * RECORD_SIZE + size)
    reader, key = VectorStore(store.directory, DIMENSION), hash_text("premise", "golf")
    assert reader.find(KEYS).tolist() == [0, 1, 2]
    reader.append([key], VECTORS[1:2])
    assert (store.find([*KEYS, key]).tolist(), store.file.stat().st_size) == (
        [0, 1, 2, 3],
        4 * RECORD_SIZE,
    )


@pytest.mark.parametrize("offset", range(0, RECORD_SIZE, 3))
def test_damaged_record_counts_as_missing(store: VectorStore, offset: int) -> None:
    content = bytearray(store.file.read_bytes())
    content[RECORD_SIZE + offset] ^= 4
    store.file.write_bytes(content)
    assert VectorStore(store.directory, DIMENSION).find(KEYS).tolist() == [0, -1, 2]


def append_many(directory: Path, process: int) -> None:
    store = VectorStore(directory, DIMENSION)
    for number in range(50):
        store.append(
            [hash_text("query", f"{process} {number}")] * 2,
            np.full((2, DIMENSION), number, dtype=np.float16),
        )


def test_processes_append_side_by_side(store: VectorStore) -> None:
    context = multiprocessing.get_context("fork")
    writers = [
        context.Process(target=append_many, args=(store.directory, process)) for process in range(4)
    ]
    for writer in writers:
        writer.start()
    keys = [
        hash_text("query", f"{process} {number}") for process in range(4) for number in range(50)
    ]
    while any(writer.is_alive() for writer in writers):  # a reader never sees a wrong vector
        rows = store.find(keys)
        np.testing.assert_array_equal(
            store.vectors[rows[rows >= 0], 0], (np.arange(200) % 50)[rows >= 0]
        )
    assert [writer.exitcode for writer in writers] == [0] * 4
    np.testing.assert_array_equal(store.vectors[store.find(keys), 0], np.arange(200) % 50)
    assert store.file.stat().st_size == (3 + 400) * RECORD_SIZE


def test_unwritable_file_raises_an_output_error(store: VectorStore) -> None:
    blocked = store.directory / "blocked"
    (blocked / store.file.name).mkdir(parents=True)
    with pytest.raises(OutputError, match=r"vectors\.bin: cannot be written"):
        VectorStore(blocked, DIMENSION).append(KEYS, VECTORS)
