"""Tests of `cache`, which lists and prunes the results in a cache directory."""

import os
import time

from aragorn.cache import open_cache


def test_results_are_listed_and_pruned_by_last_use(tmp_path, call):
    directory = tmp_path / "cache"
    with open_cache(directory, tmp_path) as cache:
        for key, size in (("new", 1_000_000), ("old", 3_000_000)):
            cache.get_or_build("terms", key, lambda size=size: bytes(size))
        cache.get_or_build("terms-deepct", "old", lambda: bytes(500_000))
        old = time.time() - 31 * 86400
        for name in ("terms", "terms-deepct"):
            os.utime(cache._locate(name, "old"), (old, old))
    (directory / "notes.txt").write_text("mine")
    foreign_dir = directory / f"terms-{'0' * 16}"  # named like a result
    foreign_dir.mkdir()
    (foreign_dir / "notes.txt").write_text("mine")
    os.utime(foreign_dir, (old, old))
    code, output = call("cache", directory)
    rows = [line.split() for line in output.splitlines()[1:] if line]
    assert code == 0
    expected = [["terms", "3", "4.0", "0"], ["terms-deepct", "1", "0.5", "31"], ["all", "4", "4.5"]]
    assert [row[:4] for row in rows] == expected
    with open_cache(directory, tmp_path) as cache:  # using a result renews it
        cache.get_or_build("terms-deepct", "old", bytes)
        code, output = call("cache", directory, "--prune", "30")
        assert (code, "in use by another process" in output) == (5, True)
    code, output = call("cache", directory, "--prune", "30")
    assert (code, "removed 1 result (3.0 MB)" in output) == (0, True)
    with open_cache(directory, tmp_path) as cache:
        assert len(cache.get_or_build("terms", "new", bytes)) == 1_000_000
        assert cache.get_or_build("terms", "old", lambda: b"built again") == b"built again"
    assert (directory / "notes.txt").read_text() == "mine"
    assert (foreign_dir / "notes.txt").read_text() == "mine"
    (tmp_path / "runs").mkdir()
    assert call("cache", tmp_path / "runs")[1].strip() == f"{tmp_path / 'runs'}: no cached results"
    code, output = call("cache", tmp_path / "missing")
    assert (code, "cannot be read" in output) == (5, True)
