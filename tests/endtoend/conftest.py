"""What these tests share: an encoder that learned nothing, judgments, a small disk, and what is done with a training."""

from __future__ import annotations

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
from tests.conftest import TINY_BERT, file_contents, tiny_tokenizer
from training.__main__ import main
from training.fitting import training_loop

Capture = pytest.CaptureFixture[str]
Command = Callable[..., list[str]]
Execute = Callable[..., Execution]
Log = pytest.LogCaptureFixture
RankAll = Callable[..., int]
Refused = Callable[..., None]


@pytest.fixture
def encoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a two-block BERT over letters and a few words."""
    monkeypatch.setattr("submission.inference.pretrained.ENCODERS", tmp_path / "encoders")
    return write_encoder(tmp_path / "encoders" / "tiny")


def write_encoder(folder: Path, **settings: float) -> Path:
    """Write a two-block BERT over letters and a few words."""
    tokenizer = tiny_tokenizer()
    torch.manual_seed(0)
    sizes = {**TINY_BERT, "vocab_size": tokenizer.get_vocab_size(), "max_position_embeddings": 64}
    BertModel(BertConfig(**sizes, **settings)).save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture
def judged(corpus_with_topics: Path, tmp_path: Path) -> list[Path]:
    """Judgments of the three topics, in two files: every fifth document that has a topic's first word."""
    arguments = json.loads((corpus_with_topics / "args-me.json").read_text())["arguments"]
    lines: list[list[str]] = [[], []]
    for qid, number in enumerate((0, 200, 400), 1):
        word = arguments[number]["conclusion"].split()[0]
        having = [argument["id"] for argument in arguments if word in argument["premises"][0]["text"].split()]
        lines[qid > 1] += [f"{qid} 0 {docno} {int(place % 5 == 0)}\n" for place, docno in enumerate(having)]
    files = [tmp_path / "first.qrels", tmp_path / "second.qrels"]
    for file, own in zip(files, lines, strict=True):
        file.write_text("".join(own))
    return files


@pytest.fixture
def refused(capsys: Capture) -> Refused:
    """A command of training ends with that exit code and says those words."""

    def check(code: int, words: str, *command: object) -> None:
        assert main([*map(str, command)]) == code
        assert words in capsys.readouterr().err

    return check


@pytest.fixture
def resumed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Train a network, and again while it is stopped before some steps, counted over all beginnings: the bytes are the same.

    Returns the number of lines that the log had at the last stop.
    """

    def check(fit: Callable[[], object], work: Path, name: str, *stops: int) -> int:
        fit()
        checkpoint, run = work / "checkpoints" / name, work / "fit" / name
        whole = file_contents(work / "checkpoints")
        assert checkpoint.exists()
        shutil.rmtree(run)
        shutil.rmtree(checkpoint)
        step, taken = training_loop.take_step, iter(range(10**6))

        def stopped(*arguments: Any) -> float:
            if next(taken) in stops:
                raise KeyboardInterrupt
            return step(*arguments)

        with monkeypatch.context() as patch:
            patch.setattr(training_loop, "take_step", stopped)
            for _ in stops:
                with pytest.raises(KeyboardInterrupt):
                    fit()
        assert (run / "state.pt").exists()
        logged = len((run / "log.jsonl").read_text().splitlines())
        fit()
        assert file_contents(work / "checkpoints") == whole
        return logged

    return check


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """A file system in memory of so many KiB; asked again, the same one with another size."""
    place = tmp_path / "disk"
    place.mkdir()

    def resized(kilobytes: int) -> Path:
        how = "remount," if place.is_mount() else ""
        command = ["mount", "-t", "tmpfs", "-o", f"{how}size={kilobytes}k", "tmpfs", str(place)]
        if shutil.which("mount") is None or subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("a small file system cannot be mounted here: that takes the rights of root")
        return place

    yield resized
    if place.is_mount():
        subprocess.run(["umount", "--lazy", str(place)], check=True)  # indexes may still be mapped
