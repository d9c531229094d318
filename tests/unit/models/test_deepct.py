"""DeepCT: weights are independent of the batch, passages add up, a checkpoint reproduces its annotations."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from submission.errors import CheckpointError
from submission.inference.enricher_checkpoint import PROBE_TEXTS, EnricherCheckpoint, load_enricher
from submission.inference.enrichment import annotate_texts, enrich_texts
from submission.inference.pretrained import PretrainedEncoder
from submission.models.enricher import TokenAnnotation
from submission.models.enrichers.deepct import DeepCT
from submission.models.padding import pad
from submission.text.passages import PassageReader
from tests.conftest import TINY_BERT, build_tiny_tokenizer, read_files, update_hash, write_deepct
from training.fitting.fit import save_network
from training.fitting.initialisation import read_encoder_config

CPU = torch.device("cpu")
TEXTS = ["topic filler topic abc", "filler", "", "topic " * 30 + "filler abc. abc!", "abc filler"]


def make_network(dropout: float = 0.1) -> DeepCT:
    torch.manual_seed(0)
    bert = {**TINY_BERT, "max_position_embeddings": 64, "vocab_size": 58}
    return DeepCT(DeepCT.Config(bert=bert, cls=2, sep=3, words=12, pieces=60, dropout=dropout))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    write_deepct(tmp_path, "deepct")
    return tmp_path / "deepct"


def test_weights_do_not_depend_on_the_batch() -> None:
    network, reader = make_network().eval(), PassageReader(build_tiny_tokenizer(), 12, 60)
    passages = [passage for text in TEXTS for passage in reader.split(text)]
    with torch.no_grad():
        together = network.annotate(passages)
        assert [len(words) for words in together] == [4, 1, 12, 12, 11, 2]
        for passage, words in zip(passages, together, strict=True):
            [alone] = network.annotate([passage])
            assert [word.surface for word in alone] == [word.surface for word in words] == passage.words
            np.testing.assert_allclose([word.weight for word in alone], [word.weight for word in words], rtol=0, atol=1e-5)


def test_initial_weights_and_dropout() -> None:
    network = make_network(dropout=0.5)
    assert network.linear.bias.item() == 0
    assert 0 < network.linear.weight.abs().max() <= 0.04
    ids, mask = pad([[4, 5, 6]])
    network.train()
    torch.manual_seed(1)
    assert not torch.equal(network(ids, mask), network(ids, mask))
    assert all(value.requires_grad for value in network.parameters())


def test_every_parameter_has_a_gradient_or_is_frozen() -> None:
    torch.manual_seed(0)
    bert = {**TINY_BERT, "max_position_embeddings": 64, "vocab_size": 58}
    network = DeepCT(DeepCT.Config(bert=bert, cls=2, sep=3, frozen=1, pieces=60))
    network(*pad([[4, 5, 6, 7], [8]])).square().sum().backward()
    without = {name for name, value in network.named_parameters() if value.grad is None}
    assert without == network.get_omitted_tensors()
    assert {name.split(".")[2] for name in without} == {"embeddings", "encoder"}
    assert not any("layer.1" in name for name in without)


def test_term_frequencies_match_hand_computed_values() -> None:
    network = make_network()
    first = [
        TokenAnnotation("cage", 0, 4, 0.304),
        TokenAnnotation("the", 5, 8, -0.2),
        TokenAnnotation("cage", 9, 13, 0.5),
        TokenAnnotation("cages", 14, 19, 0.004),
    ]
    second = [
        TokenAnnotation("cages", 0, 5, 0.125),
        TokenAnnotation("cage", 6, 10, 1.21),
        TokenAnnotation("", 11, 12, 0.9),
        TokenAnnotation("zoo", 13, 16, 0.0051),
    ]
    # "cage": 50 + 121; "cages": 0.4 is dropped, 12.5 rounds to 12; unknown words are dropped
    assert network.compute_term_frequencies([first, second]) == {"cage": 171, "cages": 12, "zoo": 1}
    assert network.compute_term_frequencies([]) == {}


def test_load_restores_the_checkpoint(directory: Path) -> None:
    opened = load_enricher(directory)
    assert isinstance(opened.network, DeepCT)
    assert not opened.network.training
    frequencies = enrich_texts(TEXTS, opened, CPU)
    assert (frequencies[2], frequencies[0] != {}, opened.fingerprint) == ({}, True, load_enricher(directory).fingerprint)
    [passages] = annotate_texts(TEXTS[3:4], opened, CPU)
    assert [len(passage) for passage in passages] == [12, 12, 11]
    rows = json.loads((directory / "probe.json").read_text())
    assert [row["text"] for row in rows] == list(PROBE_TEXTS)
    assert [len(row["passages"]) > 0 for row in rows] == [True] * 5 + [False] + [True] * 3
    config = json.loads((directory / "config.json").read_text())
    assert (config["enricher"], config["config"]["scale"], sorted(config)) == ("deepct", 100, ["config", "enricher", "version"])


def test_any_changed_byte_changes_the_fingerprint(directory: Path) -> None:
    fingerprints = {load_enricher(directory).fingerprint}
    for name in ("tokenizer.json", "config.json"):
        content = json.loads((directory / name).read_text())
        if name == "config.json":
            content["config"]["scale"] = 99  # the probe does not show it
        (directory / name).write_text(json.dumps(content, indent=3))
        update_hash(directory, name)
        fingerprints.add(load_enricher(directory).fingerprint)
    assert len(fingerprints) == 3


def test_changed_network_fails_the_probe(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forward = DeepCT.forward
    monkeypatch.setattr(DeepCT, "forward", lambda *arguments: forward(*arguments) + 0.001)
    with pytest.raises(CheckpointError, match="the text processing or the network has changed"):
        load_enricher(directory)


def test_changed_passages_fail_the_probe(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("submission.text.passages.SENTENCE_END", re.compile("(?!)"))
    with pytest.raises(CheckpointError, match="the text processing or the network has changed"):
        load_enricher(directory)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json", "probe.json"])
def test_damaged_files_fail(directory: Path, name: str) -> None:
    data = bytearray((directory / name).read_bytes())
    data[-2] ^= 1
    (directory / name).write_bytes(data)
    with pytest.raises(CheckpointError, match=f"{name}: damaged"):
        load_enricher(directory)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("enricher", "deepcut", "unknown enricher 'deepcut'; did you mean 'deepct'"),
        ("ranker", "knrm", "unknown field `ranker`"),
    ],
)
def test_ranker_checkpoint_fails(directory: Path, key: str, value: str, words: str) -> None:
    config = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps({**config, key: value}))
    update_hash(directory, "config.json")
    with pytest.raises(CheckpointError, match=words):
        load_enricher(directory)


def test_more_word_pieces_than_positions_fail() -> None:
    bert = {**TINY_BERT, "max_position_embeddings": 64, "vocab_size": 58}
    DeepCT(DeepCT.Config(bert=bert, pieces=62))
    with pytest.raises(ValueError, match="pieces is 63; expected 1 to 62"):
        DeepCT(DeepCT.Config(bert=bert, pieces=63))


def test_frozen_layers_are_not_stored(tmp_path: Path) -> None:
    """A checkpoint over MiniLM is no larger than those of the rankers."""
    pretrained = PretrainedEncoder("all-MiniLM-L6-v2")
    network = DeepCT(DeepCT.Config(**read_encoder_config(pretrained, 3)))
    network.load_state_dict({**network.state_dict(), **pretrained.load_encoder_weights()})
    reader = PassageReader.load(pretrained.folder, network.config)
    save_network(tmp_path / "deepct", EnricherCheckpoint, network, reader, {}, {"note": "untrained"}, "# test\n", pretrained)
    stored = safetensors.torch.load_file(tmp_path / "deepct" / "model.safetensors")
    assert not any("embeddings" in name or "layer.2." in name for name in stored)
    assert sum(map(len, read_files(tmp_path / "deepct").values())) < 13e6
    assert isinstance(load_enricher(tmp_path / "deepct").network, DeepCT)
