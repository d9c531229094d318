"""Tests of checkpoints: loading, fingerprints, probes, and pickling by path."""

import pickle
import re

import pytest
import torch
from safetensors.torch import load, save

from aragorn.engine import CPU
from aragorn.errors import CheckpointError
from aragorn.inference.checkpoint import (
    RankerCheckpoint,
    TaggerCheckpoint,
    load_checkpoint,
    load_tagger,
)
from aragorn.pipeline.session import CheckpointStore
from tests.conftest import update_hash, write_deepct, write_targer, write_tiny_ranker

LOADERS = {
    "knrm": load_checkpoint, "deepct": load_tagger, "targer": load_tagger,
}  # fmt: skip
HALF_PRECISION = {  # prefixes of the weights that are stored in float16
    "knrm": "embedding.", "deepct": "encoder.", "targer": ("embedding.", "forward_rnn.", "backward_rnn."),
}  # fmt: skip


@pytest.fixture
def directory(name, tmp_path):
    """Write a small random checkpoint of the network `name` and return its directory."""
    write = {"deepct": write_deepct, "targer": write_targer}.get(name, write_tiny_ranker)
    write(tmp_path, name, seed=0)
    return tmp_path / name


@pytest.mark.parametrize("name", LOADERS)
def test_checkpoints_load_as_saved(name, directory):
    directory = directory.rename(directory.with_name("M\udcfcller"))
    checkpoint = LOADERS[name](directory)
    assert checkpoint.network.get_name() == name
    assert not checkpoint.network.training
    stored = load((directory / "model.safetensors").read_bytes())
    for key, tensor in checkpoint.network.state_dict().items():
        assert torch.equal(tensor, stored[key].float()), key
        assert stored[key].dtype == (
            torch.float16 if key.startswith(HALF_PRECISION[name]) else torch.float32
        ), key


@pytest.mark.parametrize(("name", "file", "change"), [
    ("knrm", "model.safetensors", lambda content: save(load(content), {"note": "same"})),
    ("knrm", "config.json", lambda content: content.replace(b'"dropout": 0.2', b'"dropout": 0.3')),
    ("deepct", "config.json", lambda content: content.replace(b'"scale": 100', b'"scale": 99')),
    ("deepct", "tokenizer.json", lambda content: content + b"\n"),
    ("targer", "config.json", lambda content: content.replace(b'"dropout": 0.5', b'"dropout": 0.4')),
])  # fmt: skip
def test_changed_files_change_the_fingerprint(name, file, change, directory):
    before = LOADERS[name](directory).fingerprint
    assert LOADERS[name](directory).fingerprint == before
    content = (directory / file).read_bytes()
    (directory / file).write_bytes(change(content))
    assert (directory / file).read_bytes() != content
    update_hash(directory, file)
    assert LOADERS[name](directory).fingerprint != before  # although the probe passes


@pytest.mark.parametrize(("name", "target", "replacement"), [
    ("knrm", "aragorn.text.normalisation.load_stop_words", frozenset),
    ("knrm", "aragorn.models.rankers.knrm.KNRM.score_features", lambda self, features: torch.zeros(len(features))),
    ("deepct", "aragorn.models.taggers.deepct.DeepCT.forward", lambda self, ids, mask: torch.zeros(ids.shape)),
    ("deepct", "aragorn.text.passages.SENTENCE_END", re.compile("(?!)")),
    ("targer", "aragorn.models.taggers.targer.CRF.decode", lambda self, emissions, mask: mask.long()),
])  # fmt: skip
def test_changed_code_fails_the_probe(name, target, replacement, directory, monkeypatch):
    monkeypatch.setattr(target, replacement)
    with pytest.raises(CheckpointError, match="the text processing or the network has changed"):
        LOADERS[name](directory)


@pytest.mark.parametrize("name", LOADERS)
def test_checkpoints_are_pickled_by_path(name, directory, monkeypatch):
    checkpoint = LOADERS[name](directory)
    pickled = pickle.dumps(checkpoint)
    assert len(pickled) < 500
    unpickled = pickle.loads(pickled)
    assert unpickled is not checkpoint
    assert (unpickled.fingerprint, unpickled.directory) == (checkpoint.fingerprint, directory)
    monkeypatch.setattr(type(checkpoint), "load", None)
    assert pickle.loads(pickled) is unpickled  # loaded once per process
    for kind in (RankerCheckpoint, TaggerCheckpoint):
        with pytest.raises(TypeError, match="not loaded from a directory"):
            pickle.dumps(kind(checkpoint.network, checkpoint.tokeniser, "a test"))


@pytest.mark.parametrize("precision", ["bfloat16", "float32"])
def test_precision_is_pickled_with_the_checkpoint(precision, tmp_path, monkeypatch):
    write_tiny_ranker(tmp_path, "sbert", seed=0)
    checkpoint = CheckpointStore(tmp_path, precision).load_network("sbert", load_checkpoint)
    unpickled = pickle.loads(pickle.dumps(checkpoint))
    fingerprint = load_checkpoint(tmp_path / "sbert").fingerprint
    assert unpickled.fingerprint == checkpoint.fingerprint == fingerprint
    monkeypatch.setattr(
        "aragorn.inference.checkpoint.move_to_device", lambda network, device, precision: precision
    )
    assert [loaded.move_network(CPU) for loaded in (checkpoint, unpickled)] == [precision] * 2
