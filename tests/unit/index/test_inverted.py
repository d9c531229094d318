"""Tests of sparse matrices in files, and of an index on a full disk (a limit of file sizes)."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from aragorn.cache import Cache
from aragorn.errors import OutputError
from aragorn.index import inverted
from tests.conftest import limit_file_size

BLOCKS = [np.array([[0, 2], [0, 0]]), np.array([[1, 0, 3]]), np.zeros((0, 3)), np.zeros((1, 3))]


@pytest.mark.parametrize("dtype", [np.int32, np.float64])
def test_blocks_of_rows_become_one_mapped_matrix(dtype, tmp_path, monkeypatch):
    blocks = (csr_array(block.astype(dtype)) for block in BLOCKS)
    assert inverted.write_matrix(tmp_path, "m", blocks) == 3
    matrix = inverted.SparseMatrix.open(tmp_path, "m", dtype)
    rows = [[values.tolist() for values in matrix.get_row(row)] for row in range(4)]
    assert rows == [[[1], [2]], [[], []], [[0, 2], [1, 3]], [[], []]]
    assert matrix.count_entries().tolist() == [1, 0, 2, 0]
    for n_rows in (1, 3, 9):
        monkeypatch.setattr(inverted, "ROWS_PER_BLOCK", n_rows)
        transposed = inverted.transpose_matrix(tmp_path, "m", dtype, 3)
        assert transposed.toarray().tolist() == [[0, 0, 1, 0], [2, 0, 0, 0], [0, 0, 3, 0]]
        assert transposed.has_canonical_format
        assert (transposed.dtype, transposed.indices.dtype) == (dtype, np.int32)


@pytest.mark.parametrize(
    ("k", "expected"), [(0, []), (2, [1, 0]), (3, [1, 0, 2]), (9, [1, 0, 2, 4, 3])]
)
def test_ties_among_the_top_go_to_the_first(k, expected):
    assert inverted.select_top_k(np.array([2.0, 3.0, 2.0, 1.0, 2.0]), k).tolist() == expected


FULL = r"cannot be written \(File too large\); raise the limit of file sizes"


N_TERMS = 1000


def build_index(directory):
    """Write an index whose largest file is cf.npy: all terms occur in one document."""
    terms = [f"{index:x}" for index in range(N_TERMS)]
    inverted.write_index(directory, [csr_array(np.ones((1, N_TERMS), np.int32))], terms)


def test_no_file_of_an_index_is_truncated(tmp_path):
    cache = Cache(tmp_path)
    finished = cache.directory("index", "key", build_index)
    sizes = {file.name: file.stat().st_size for file in finished.iterdir()}
    largest = max(sizes.values())
    assert sizes["cf.npy"] == largest == 8 * N_TERMS + 128
    for missing_bytes in (1, 100, largest // 2, largest - 64):
        with limit_file_size(largest - missing_bytes), pytest.raises(OutputError, match=FULL):
            cache.directory("index", f"{missing_bytes} missing", build_index)
        assert list(tmp_path.iterdir()) == [finished]
    assert np.load(finished / "cf.npy").tolist() == [1] * N_TERMS
