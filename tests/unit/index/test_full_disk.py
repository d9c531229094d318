"""Tests that a full disk (a limit of file sizes) ends writing, and finished parts remain."""

import resource
from contextlib import contextmanager

import numpy as np
import pytest
from scipy.sparse import csr_array

from aragorn.cache import Cache
from aragorn.errors import OutputError
from aragorn.index.inverted import write_index

FULL = r"cannot be written \(File too large\); free disk space"
N_TERMS = 1000


@contextmanager
def limit_file_size(limit):
    """Let writing beyond the first `limit` bytes of any file fail."""
    _, hard_limit = limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard_limit))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def build_index(directory):
    """Write an index whose largest file is cf.npy: all terms occur in one document."""
    terms = [f"{index:x}" for index in range(N_TERMS)]
    write_index(directory, [csr_array(np.ones((1, N_TERMS), np.int32))], terms)


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
