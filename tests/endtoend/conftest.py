"""Fixtures of the end-to-end tests: an retrieval, a tiny encoder, judgments, and an assertion that
a command fails."""

import json
import logging
import os
import sys
import warnings
from collections.abc import Callable
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import IO

import pytest

from aragorn_training.__main__ import main
from aragorn_training.data.retrieval import DatasetRetrieval
from tests.unit.training.conftest import write_encoder

Capture = pytest.CaptureFixture[str]
Command = Callable[..., list[str]]
MakeRetrieval = Callable[..., DatasetRetrieval]
Execute = Callable[..., DatasetRetrieval]
Log = pytest.LogCaptureFixture
RankAll = Callable[..., int]
AssertFails = Callable[..., None]
FORK = get_context("fork")


class ForkedProcess:
    """Replacement for Popen that runs a `training` command in a fork of this process, which has
    imported the program."""

    def __init__(self, command: list[str], stdout: IO[bytes], **_: object) -> None:
        def run_command() -> None:
            # as in a separate process, no warning is an error, and the command configures the log
            warnings.resetwarnings()
            logging.getLogger().handlers.clear()
            sys.stdout = sys.stderr = open(stdout.fileno(), "w", buffering=1, closefd=False)  # noqa: SIM115
            os._exit(main(command[3:]))

        self.process = FORK.Process(target=run_command)
        self.process.start()

    @property
    def returncode(self) -> int | None:
        """Exit code, or None if the process is running."""
        return self.process.exitcode

    def poll(self) -> int | None:
        """Return the exit code, or None if the process is running."""
        return self.returncode


@pytest.fixture
def execute(make_retrieval: Execute, corpus_with_topics: Path, checkpoints_copy: Path) -> Execute:
    """Return a function that opens an execution on `corpus_with_topics` with the checkpoints of all
    systems."""
    return partial(make_retrieval, corpus_with_topics, checkpoints=checkpoints_copy)


@pytest.fixture
def encoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a tiny untrained BERT encoder and make its directory the only one with pretrained
    encoders."""
    monkeypatch.setattr("aragorn.inference.pretrained.ENCODER_DIR", tmp_path / "encoders")
    return write_encoder(tmp_path / "encoders" / "tiny", 0, layers=2)


@pytest.fixture
def qrels_files(corpus_with_topics: Path, tmp_path: Path) -> list[Path]:
    """Write judgments of topic 1 to one file, and of topics 2 and 3 to another.

    The documents that contain a topic's first word are judged, and every fifth of them, from the
    first, is relevant.
    """
    arguments = json.loads((corpus_with_topics / "args-me.json").read_text())["arguments"]
    lines: list[list[str]] = [[], []]
    for qid, index in enumerate((0, 200, 400), 1):
        word = arguments[index]["conclusion"].split()[0]
        docnos = [
            argument["id"]
            for argument in arguments
            if word in argument["premises"][0]["text"].split()
        ]
        lines[qid > 1] += [
            f"{qid} 0 {docno} {int(row % 5 == 0)}\n" for row, docno in enumerate(docnos)
        ]
    files = [tmp_path / "first.qrels", tmp_path / "second.qrels"]
    for file, file_lines in zip(files, lines, strict=True):
        file.write_text("".join(file_lines))
    return files


@pytest.fixture
def assert_fails(capsys: Capture) -> AssertFails:
    """Return a function that asserts that a `training` command fails with an exit code and a
    message on standard error."""

    def check(code: int, message: str, *command: object) -> None:
        assert main([*map(str, command)]) == code
        assert message in capsys.readouterr().err

    return check
