"""Test that a running task is logged when no other message appears."""

import logging
import re
import time

import pytest

from aragorn import progress
from aragorn.progress import Stopwatch, announce, log_when_silent, suppress_info, track
from tests.conftest import wait_until


@pytest.fixture
def messages(monkeypatch, caplog):
    """Return a function that returns the messages of this test, in which at most 40 ms pass without
    a message."""
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(progress, "MAX_SILENT_SECONDS", 0.04)
    return lambda: caplog.messages


@pytest.fixture
def wait_for(messages):
    """Return a function that waits for a message that contains a text."""

    return lambda text: wait_until(lambda: any(text in message for message in messages()))


def test_silence_is_broken_by_the_innermost_task(messages, wait_for):
    with log_when_silent():
        time.sleep(0.1)  # nothing is announced
        assert messages() == []
        with Stopwatch().stage("documents"):
            wait_for("documents, ")
            assert all(re.fullmatch(r"documents, \d+ s so far", message) for message in messages())
            for n_done in track([0, 3], "texts", "words", [3, 4]):
                wait_for(f"texts: {n_done} of 7 words, ")
    assert re.fullmatch(r"texts: 7 words in \d+\.\d s", messages()[-1])
    n_messages = len(messages())
    time.sleep(0.1)
    assert len(messages()) == n_messages


def test_other_messages_and_suppressed_tasks_do_not_count_as_silence(
    messages, wait_for, monkeypatch
):
    monkeypatch.setattr(progress, "MAX_SILENT_SECONDS", 0.3)
    with log_when_silent(), announce(lambda: "estimate"):
        for _ in range(40):
            logging.getLogger().info("working")
            time.sleep(0.01)
        assert set(messages()) == {"working"}
        with suppress_info():
            for _ in track([1], "texts", "words"):
                wait_for("estimate, ")
    assert messages()[-1].startswith("estimate, ")
    assert not any("texts" in message and "so far" in message for message in messages())
