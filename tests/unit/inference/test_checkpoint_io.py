from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from submission.errors import CheckpointError
from submission.inference.ranker_checkpoint import load_checkpoint
from submission.models.padding import pad
from submission.models.rankers.knrm import KNRM
from tests.conftest import update_hash


def test_load_restores_the_checkpoint(checkpoints: Path) -> None:
    checkpoint = load_checkpoint(checkpoints / "knrm")
    assert isinstance(checkpoint.network, KNRM)
    assert not checkpoint.network.training
    assert checkpoint.tokeniser.lengths.premise == 100
    assert checkpoint.tokeniser.encode_query("Are zoos golf xyz?") == [
        checkpoint.tokeniser.vocabulary.lookup([w])[0] for w in ("zoos", "golf", "xyz")
    ]
    stored = safetensors.torch.load_file(checkpoints / "knrm" / "model.safetensors")
    assert {name: str(tensor.dtype) for name, tensor in stored.items()} == {
        "embedding.weight": "torch.float16",
        "linear.weight": "torch.float32",
        "linear.bias": "torch.float32",
    }


def test_probe_of_two_texts(checkpoints: Path) -> None:
    checkpoint = load_checkpoint(checkpoints / "knrm")
    pairs = [
        ("Are zoos cruel?", "wild animals in cages"),
        ("golf", "zoos"),
        ("Are zoos cruel?", "zoos"),
        ("golf", "zoos"),
        ("", ""),
    ]
    scores = checkpoint.score(pairs)
    assert scores.dtype == np.float32
    with torch.no_grad():
        alone = [
            checkpoint.network(
                *pad([checkpoint.tokeniser.encode_query(query)]), *pad([checkpoint.tokeniser.encode_premise(premise)])
            ).item()
            for query, premise in pairs
        ]
    np.testing.assert_allclose(scores, alone, rtol=0, atol=1e-6)
    assert len(set(scores.tolist())) == 4
    assert checkpoint.score([]).shape == (0,)


def test_fingerprint_is_deterministic(checkpoints: Path) -> None:
    first = load_checkpoint(checkpoints / "knrm")
    assert first.fingerprint == load_checkpoint(checkpoints / "knrm").fingerprint


def test_missing_checkpoint_lists_available_ones(checkpoints: Path) -> None:
    with pytest.raises(CheckpointError, match="checkpoint not found; available: knrm"):
        load_checkpoint(checkpoints / "kmrm")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "vocabulary.txt", "probe.json", "provenance.json"])
def test_missing_file(checkpoints: Path, name: str) -> None:
    (checkpoints / "knrm" / name).unlink()
    with pytest.raises(CheckpointError, match=rf"knrm: missing {name};"):
        load_checkpoint(checkpoints / "knrm")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "vocabulary.txt", "probe.json"])
def test_one_flipped_bit(checkpoints: Path, name: str) -> None:
    file = checkpoints / "knrm" / name
    data = bytearray(file.read_bytes())
    data[-2] ^= 1
    file.write_bytes(data)
    with pytest.raises(CheckpointError, match=f"{name}: damaged"):
        load_checkpoint(checkpoints / "knrm")


def test_truncated_provenance(checkpoints: Path) -> None:
    file = checkpoints / "knrm" / "provenance.json"
    file.write_text(file.read_text()[:-20])
    with pytest.raises(CheckpointError, match=r"provenance\.json: damaged"):
        load_checkpoint(checkpoints / "knrm")


def test_unknown_config_fails(checkpoints: Path) -> None:
    file = checkpoints / "knrm" / "config.json"
    config = json.loads(file.read_text())
    file.write_text(json.dumps({**config, "config": {**config["config"], "idf": True}}))
    update_hash(checkpoints / "knrm", "config.json")
    with pytest.raises(CheckpointError, match=r"written by version 1\.\d+\.\d+, incompatible with"):
        load_checkpoint(checkpoints / "knrm")


def test_mismatched_weights_fail(checkpoints: Path) -> None:
    file = checkpoints / "knrm" / "model.safetensors"
    tensors = safetensors.torch.load_file(file)
    del tensors["linear.bias"]
    safetensors.torch.save_file(tensors, file)
    update_hash(checkpoints / "knrm", "model.safetensors")
    with pytest.raises(CheckpointError, match=r"linear\.bias"):
        load_checkpoint(checkpoints / "knrm")


def test_changed_text_processing_fails_the_probe(checkpoints: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("submission.text.normalisation.load_stop_words", frozenset)
    with pytest.raises(CheckpointError, match="the text processing or the network has changed"):
        load_checkpoint(checkpoints / "knrm")


def test_changed_network_fails_the_probe(checkpoints: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forward = KNRM.forward
    monkeypatch.setattr(KNRM, "forward", lambda *arguments: forward(*arguments) * 1.01)
    with pytest.raises(CheckpointError, match="the text processing or the network has changed"):
        load_checkpoint(checkpoints / "knrm")
