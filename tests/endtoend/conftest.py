"""Fixtures of the end-to-end tests: a tiny encoder, judgments, assertions about commands, and a small disk."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import BertConfig, BertModel

from submission.systems.execution import Execution
from tests.conftest import TINY_BERT, build_tiny_tokenizer, read_files
from training.__main__ import main
from training.fitting import training_loop

Capture = pytest.CaptureFixture[str]
Command = Callable[..., list[str]]
MakeExecution = Callable[..., Execution]
Log = pytest.LogCaptureFixture
RankAll = Callable[..., int]
AssertFails = Callable[..., None]


@pytest.fixture
def encoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a tiny untrained BERT encoder and make its directory the only one with pretrained encoders."""
    monkeypatch.setattr("submission.inference.pretrained.ENCODER_DIR", tmp_path / "encoders")
    return write_encoder(tmp_path / "encoders" / "tiny")


def write_encoder(folder: Path, **config_fields: float) -> Path:
    """Write a tiny untrained BERT encoder and its tokenizer."""
    tokenizer = build_tiny_tokenizer()
    torch.manual_seed(0)
    sizes = {**TINY_BERT, "vocab_size": tokenizer.get_vocab_size(), "max_position_embeddings": 64}
    BertModel(BertConfig(**sizes, **config_fields)).save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture
def qrels_files(corpus_with_topics: Path, tmp_path: Path) -> list[Path]:
    """Write judgments for the three topics to two files.

    The documents that contain the first word of a topic are judged, and every fifth of them is relevant.
    """
    arguments = json.loads((corpus_with_topics / "args-me.json").read_text())["arguments"]
    lines: list[list[str]] = [[], []]
    for qid, index in enumerate((0, 200, 400), 1):
        word = arguments[index]["conclusion"].split()[0]
        docnos = [argument["id"] for argument in arguments if word in argument["premises"][0]["text"].split()]
        lines[qid > 1] += [f"{qid} 0 {docno} {int(row % 5 == 0)}\n" for row, docno in enumerate(docnos)]
    files = [tmp_path / "first.qrels", tmp_path / "second.qrels"]
    for file, file_lines in zip(files, lines, strict=True):
        file.write_text("".join(file_lines))
    return files


@pytest.fixture
def assert_fails(capsys: Capture) -> AssertFails:
    """Return a function that asserts that a `training` command fails with an exit code and an error message."""

    def check(code: int, message: str, *command: object) -> None:
        assert main([*map(str, command)]) == code
        assert message in capsys.readouterr().err

    return check


@pytest.fixture
def assert_resumes(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Return a function that asserts that training writes the same bytes with and without interruptions.

    Training is interrupted before each step in `stops`, counted over all attempts, and then resumed. The function returns the
    number of log lines at the last interruption.
    """

    def check(fit: Callable[[], object], work: Path, name: str, *stops: int) -> int:
        fit()
        checkpoint, run_dir = work / "checkpoints" / name, work / "fit" / name
        expected = read_files(work / "checkpoints")
        assert checkpoint.exists()
        shutil.rmtree(run_dir)
        shutil.rmtree(checkpoint)
        take_step, steps = training_loop.take_step, itertools.count()

        def take_step_or_stop(*arguments: Any) -> float:
            if next(steps) in stops:
                raise KeyboardInterrupt
            return take_step(*arguments)

        with monkeypatch.context() as patch:
            patch.setattr(training_loop, "take_step", take_step_or_stop)
            for _ in stops:
                with pytest.raises(KeyboardInterrupt):
                    fit()
        assert (run_dir / "state.pt").exists()
        log_line_count = len((run_dir / "log.jsonl").read_text().splitlines())
        fit()
        assert read_files(work / "checkpoints") == expected
        return log_line_count

    return check


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """Return a function that mounts an in-memory file system of a given size in KiB; later calls resize it."""
    disk = tmp_path / "disk"
    disk.mkdir()

    def resize(kibibytes: int) -> Path:
        remount = "remount," if disk.is_mount() else ""
        command = ["mount", "-t", "tmpfs", "-o", f"{remount}size={kibibytes}k", "tmpfs", str(disk)]
        if shutil.which("mount") is None or subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("mounting a small file system needs root")
        return disk

    yield resize
    if disk.is_mount():
        subprocess.run(["umount", "--lazy", str(disk)], check=True)  # indexes on the disk may still be memory-mapped
