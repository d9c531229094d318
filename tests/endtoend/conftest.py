"""Fixtures of the end-to-end tests."""

import json
import logging
import os
import sys
import warnings
from functools import partial
from multiprocessing import get_context

import pytest

from aragorn_training.__main__ import main
from tests.conftest import argv
from tests.unit.training.conftest import write_encoder

FORK = get_context("fork")


class ForkedProcess:
    """Replacement for Popen that runs a `training` command in a fork of this process."""

    def __init__(self, command, stdout, **_):
        def run_command():
            # as in a separate process, no warning is an error, and the command configures the log
            warnings.resetwarnings()
            logging.getLogger().handlers.clear()
            sys.stdout = sys.stderr = open(stdout.fileno(), "w", buffering=1, closefd=False)  # noqa: SIM115
            os._exit(main(command[3:]))

        self.process = FORK.Process(target=run_command)
        self.process.start()

    @property
    def returncode(self):
        """Exit code, or None if the process is running."""
        return self.process.exitcode

    def poll(self):
        """Return the exit code, or None if the process is running."""
        return self.returncode


@pytest.fixture
def execute(make_retrieval, corpus_with_topics, checkpoints_copy):
    """Return a function that opens `corpus_with_topics` with checkpoints of all systems."""
    return partial(make_retrieval, corpus_with_topics, checkpoints=checkpoints_copy)


@pytest.fixture
def encoder(tmp_path, monkeypatch):
    """Write a tiny untrained BERT encoder, the only one that is found."""
    monkeypatch.setattr("aragorn.inference.pretrained.ENCODER_DIR", tmp_path / "encoders")
    return write_encoder(tmp_path / "encoders" / "tiny", 0, layers=2)


@pytest.fixture
def qrels_files(corpus_with_topics, tmp_path):
    """Write judgments of topic 1 to one file, and of topics 2 and 3 to another.

    The documents that contain a topic's first word are judged, and every fifth of them, from the
    first, is relevant.
    """
    arguments = json.loads((corpus_with_topics / "args-me.json").read_text())["arguments"]
    lines = [[], []]
    for qid, index in enumerate((0, 200, 400), 1):
        word = arguments[index]["conclusion"].split()[0]
        texts = {argument["id"]: argument["premises"][0]["text"] for argument in arguments}
        docnos = [docno for docno, text in texts.items() if word in text.split()]
        lines[qid > 1] += [
            f"{qid} 0 {docno} {int(row % 5 == 0)}\n" for row, docno in enumerate(docnos)
        ]
    files = [tmp_path / "first.qrels", tmp_path / "second.qrels"]
    for file, file_lines in zip(files, lines, strict=True):
        file.write_text("".join(file_lines))
    return files


@pytest.fixture
def assert_fails(capsys):
    """Return a function that asserts the exit code and message of a failing command."""

    def check(code, message, *command):
        assert main(argv(*command)) == code
        assert message in capsys.readouterr().err

    return check
