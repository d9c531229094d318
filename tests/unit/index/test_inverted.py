"""Tests of sparse matrices in files."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from aragorn.index import inverted
from aragorn.index.inverted import SparseMatrix, select_top_k, transpose_matrix, write_matrix

BLOCKS = [np.array([[0, 2], [0, 0]]), np.array([[1, 0, 3]]), np.zeros((0, 3)), np.zeros((1, 3))]


@pytest.mark.parametrize("dtype", [np.int32, np.float64])
def test_blocks_of_rows_become_one_mapped_matrix(dtype, tmp_path, monkeypatch):
    blocks = (csr_array(block.astype(dtype)) for block in BLOCKS)
    assert write_matrix(tmp_path, "m", blocks) == 3
    matrix = SparseMatrix.open(tmp_path, "m", dtype)
    rows = [[values.tolist() for values in matrix.get_row(row)] for row in range(4)]
    assert rows == [[[1], [2]], [[], []], [[0, 2], [1, 3]], [[], []]]
    assert matrix.count_entries().tolist() == [1, 0, 2, 0]
    for n_rows in (1, 3, 9):
        monkeypatch.setattr(inverted, "ROWS_PER_BLOCK", n_rows)
        transposed = transpose_matrix(tmp_path, "m", dtype, 3)
        assert transposed.toarray().tolist() == [[0, 0, 1, 0], [2, 0, 0, 0], [0, 0, 3, 0]]
        assert transposed.has_canonical_format
        assert (transposed.dtype, transposed.indices.dtype) == (dtype, np.int32)


@pytest.mark.parametrize(
    ("k", "expected"), [(0, []), (2, [1, 0]), (3, [1, 0, 2]), (9, [1, 0, 2, 4, 3])]
)
def test_ties_among_the_top_go_to_the_first(k, expected):
    assert select_top_k(np.array([2.0, 3.0, 2.0, 1.0, 2.0]), k).tolist() == expected
