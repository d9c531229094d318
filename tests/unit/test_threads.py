"""Tests that libraries compute in one thread where the system allows few."""

import os
import threading
from threading import Thread

import pytest

from aragorn import threads


@pytest.mark.parametrize(("n_allowed", "is_limited"), [(0, True), (9, True), (10, False)])
def test_libraries_are_limited_if_not_all_threads_can_start(
    n_allowed, is_limited, monkeypatch, capsys
):
    n_before = threading.active_count()
    start = Thread.start

    def start_if_allowed(thread):
        if threading.active_count() - n_before >= n_allowed:
            raise RuntimeError("can't start new thread")
        start(thread)

    environment = {"OMP_NUM_THREADS": "8"}
    monkeypatch.setattr(os, "environ", environment)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1})
    monkeypatch.setattr(Thread, "start", start_if_allowed)
    threads.limit_library_threads()
    assert (environment.get("OPENBLAS_NUM_THREADS") == "1") == is_limited
    assert (environment["OMP_NUM_THREADS"] == "1") == is_limited
    assert ("computing in one thread" in capsys.readouterr().err) == is_limited
    assert threading.active_count() == n_before
