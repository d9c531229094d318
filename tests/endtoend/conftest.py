"""A small encoder that learned nothing, and judgments of a few topics."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from transformers import BertConfig, BertModel

from tests.conftest import tiny_tokenizer


@pytest.fixture
def encoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a two-block BERT over letters and a few words."""
    monkeypatch.setattr("submission.scoring.pretrained.ENCODERS", tmp_path / "encoders")
    folder = tmp_path / "encoders" / "tiny"
    folder.mkdir(parents=True)
    tokenizer = tiny_tokenizer()
    tokenizer.save(str(folder / "tokenizer.json"))
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=tokenizer.get_vocab_size(), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=64,
    )  # fmt: skip
    BertModel(config).save_pretrained(folder)
    return folder


@pytest.fixture
def judged(topics: Path, tmp_path: Path) -> list[Path]:
    """Judgments of the three topics, in two files: every fifth document that has a topic's first word."""
    arguments = json.loads((topics / "args-me.json").read_text())["arguments"]
    lines: list[list[str]] = [[], []]
    for qid, number in enumerate((0, 200, 400), 1):
        word = arguments[number]["conclusion"].split()[0]
        having = [argument["id"] for argument in arguments if word in argument["premises"][0]["text"].split()]
        lines[qid > 1] += [f"{qid} 0 {docno} {int(place % 5 == 0)}\n" for place, docno in enumerate(having)]
    files = [tmp_path / "first.qrels", tmp_path / "second.qrels"]
    for file, own in zip(files, lines, strict=True):
        file.write_text("".join(own))
    return files
