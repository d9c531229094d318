"""Test that a running task is logged when no other message appears."""

import logging
import time

import pytest

from aragorn import progress
from aragorn.progress import Stopwatch, announce, log_when_silent, suppress_info, track


@pytest.fixture
def messages(monkeypatch, caplog):
    """Return a function that returns the messages of this test, in which at most 40 ms pass without
    a message."""
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(progress, "MAX_SILENT_SECONDS", 0.04)
    return lambda: caplog.messages


def test_silence_is_broken_by_the_innermost_task(messages):
    with log_when_silent():
        time.sleep(0.1)  # nothing is announced
        assert messages() == []
        with Stopwatch().stage("documents"):
            time.sleep(0.1)
            assert set(messages()) == {"documents, 0 s so far"}
            for _ in track([1, 2], "texts", "words", [3, 4]):
                time.sleep(0.1)
    assert {"texts: 0 of 7 words, 0 s so far", "texts: 3 of 7 words, 0 s so far"} <= set(messages())
    assert messages()[-1] == "texts: 7 words in 0.2 s"
    n_messages = len(messages())
    time.sleep(0.1)
    assert len(messages()) == n_messages


def test_other_messages_and_suppressed_tasks_do_not_count_as_silence(messages):
    with log_when_silent(), announce(lambda: "estimate"):
        for _ in range(20):
            logging.getLogger().info("working")
            time.sleep(0.01)
        assert set(messages()) == {"working"}
        with suppress_info():
            for _ in track([1], "texts", "words"):
                time.sleep(0.1)
    assert messages()[-1] == "estimate, 0 s so far"
    assert not any("texts" in message and "so far" in message for message in messages())
