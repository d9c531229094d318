"""Tests of BERT networks, from a tiny encoder to a run, without internet access."""

import json
import shutil

import pytest
import safetensors.torch
import torch

from aragorn.__main__ import main as aragorn
from aragorn.errors import CheckpointError, OutputError
from aragorn.inference.checkpoint import load_checkpoint
from aragorn.inference.pretrained import PretrainedEncoder
from aragorn.io.runs import read_run
from aragorn_training.__main__ import main
from aragorn_training.fitting.initialisation import read_encoder_config
from tests.conftest import argv, needs_bfloat16

pytestmark = pytest.mark.usefixtures("block_network", "without_plots")

RECIPE = """ranker = "{ranker}"
[lengths]
query = 20
premise = 30
[encoder]
name = "tiny"
frozen_layers = {frozen}
learning_rate = 0.001
{lines}
[training]
epochs = {epochs}
max_steps = 4
validations_per_epoch = 2
batch_size = 16
micro_batch_size = 8
"""


@pytest.fixture
def fit(work_dir, tmp_path, encoder):
    """Return a function that writes a recipe, with `lines` after those of [encoder]."""

    def command(ranker, frozen=-1, lines="", epochs=1):
        recipe = RECIPE.format(ranker=ranker, frozen=frozen, lines=lines, epochs=epochs)
        (tmp_path / f"{ranker}.toml").write_text(recipe)
        return argv("fit", tmp_path / f"{ranker}.toml", "--work-dir", work_dir, "--device cpu")

    return command


@needs_bfloat16
@pytest.mark.parametrize("ranker", ["sbert", pytest.param("vanilla_bert", marks=pytest.mark.slow)])
def test_precisions_differ_slightly_and_are_cached_separately(
    ranker, all_checkpoints_dir, make_input, tmp_path
):
    flags = argv("-i", make_input(), "--checkpoints", all_checkpoints_dir, "--device cpu")
    flags += ["--system", ranker]

    def rank(output, *extra):
        assert aragorn(["rank", *flags, "-o", str(tmp_path / output), *extra]) == 0
        run = read_run(tmp_path / output / "run.txt").set_index(["qid", "docno"])
        return run["score"].to_dict()

    cache = ("--cache-dir", str(tmp_path / "cache"))
    half_precision = ("--precision", "bfloat16")
    full = rank("full", *cache)
    half = rank("half", *cache, *half_precision)
    # of so few conclusions, SBERT retrieves all
    everything = [(qid, f"a{premise}") for qid in "12" for premise in range(1, 6)]
    assert sorted(full) == (
        everything if ranker == "sbert" else [("1", "a1"), ("1", "a2"), ("2", "a3")]
    )
    assert full.keys() == half.keys()
    difference = max(abs(full[pair] - half[pair]) for pair in full)
    assert 0 < difference < 0.02 * max(1, *map(abs, full.values()))
    assert half == rank("half uncached", *half_precision)
    expected = OutputError.exit_code
    assert aragorn(["rank", *flags, "-o", str(tmp_path / "full"), *half_precision]) == expected


def test_frozen_layers_are_unchanged_unsaved_and_tied_to_encoder(
    fit, work_dir, encoder, monkeypatch, caplog
):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx2": True, "amx_bf16": False})
    assert main(fit("vanilla_bert", frozen=1, lines="bfloat16 = true")) == 0
    assert "vanilla_bert.toml: encoder.bfloat16 = true is many times slower" in caplog.text
    checkpoint = work_dir / "checkpoints" / "vanilla_bert"
    stored = safetensors.torch.load_file(checkpoint / "model.safetensors")
    assert not [name for name in stored if "embeddings" in name or "layer.0." in name]
    actual = {str(tensor.dtype) for name, tensor in stored.items() if name.startswith("encoder.")}
    assert actual == {"torch.float16"}
    assert stored["linear.weight"].dtype == torch.float32
    weights = load_checkpoint(checkpoint).network.state_dict()
    pretrained = PretrainedEncoder(encoder.name).load_encoder_weights()
    same = {name for name, tensor in pretrained.items() if torch.equal(tensor, weights[name])}
    assert {name for name in pretrained if "embeddings" in name or "layer.0." in name} <= same
    changed = "encoder.bert.encoder.layer.1.output.dense.weight"
    assert (weights[changed] - pretrained[changed]).abs().max() > 1e-3
    tensors = safetensors.torch.load_file(encoder / "model.safetensors")
    other_tensors = {name: tensor + 1 for name, tensor in tensors.items()}
    safetensors.torch.save_file(other_tensors, encoder / "model.safetensors")
    message = r"trained with another version of the encoder .* copy the original files into"
    with pytest.raises(CheckpointError, match=message):
        load_checkpoint(checkpoint)


def test_frozen_encoder_needs_no_training(fit, work_dir, encoder, assert_fails):
    message = "training.epochs is 1 but all parameters are frozen; set it to 0"
    assert_fails(2, message, *fit("sbert", frozen=2))
    message = "training.epochs is 0 but the network has trainable parameters"
    assert_fails(2, message, *fit("sbert", frozen=1, epochs=0))
    assert main(fit("sbert", frozen=2, epochs=0)) == 0
    checkpoint = work_dir / "checkpoints" / "sbert"
    assert safetensors.torch.load_file(checkpoint / "model.safetensors") == {}
    weights = load_checkpoint(checkpoint).network.state_dict()
    pretrained = PretrainedEncoder(encoder.name)
    expected = pretrained.load_encoder_weights()
    assert all(torch.equal(weights[name], expected[name]) for name in expected)
    metrics = json.loads((checkpoint / "metrics.json").read_text())
    assert metrics["validation"] == metrics["encoder cosine"]
    message = "with its pretrained encoder, not fine-tuned; built with"
    assert message in (checkpoint / "README.md").read_text()


def test_cedr_initialises_from_a_trained_encoder(
    fit, all_checkpoints_dir, work_dir, encoder, assert_fails
):
    shutil.copytree(all_checkpoints_dir / "knrm", work_dir / "checkpoints" / "knrm")
    message = "encoder.init_from: 'knrm' has no encoder; set it to a BERT checkpoint"
    assert_fails(2, message, *fit("cedr_knrm", lines='init_from = "knrm"'))
    assert main(fit("vanilla_bert", frozen=1)) == 0
    assert main(fit("cedr_knrm", frozen=2, lines='init_from = "vanilla_bert"')) == 0
    start, cedr = (
        load_checkpoint(work_dir / "checkpoints" / name) for name in ("vanilla_bert", "cedr_knrm")
    )
    provenance = json.loads((cedr.directory / "provenance.json").read_text())
    expected = {"name": "vanilla_bert", "fingerprint": start.fingerprint}
    assert provenance["encoder"]["init_from"] == expected
    weights = cedr.network.state_dict()
    initial_weights = start.network.state_dict()
    encoder_names = set(PretrainedEncoder(encoder.name).load_encoder_weights())
    assert all(torch.equal(weights[name], initial_weights[name]) for name in encoder_names)
    stored = safetensors.torch.load_file(cedr.directory / "model.safetensors")
    assert stored.keys() & encoder_names == {name for name in encoder_names if "layer.1." in name}


def test_missing_or_unsupported_encoder_fails(fit, encoder, assert_fails):
    config = json.loads((encoder / "config.json").read_text())
    (encoder / "config.json").write_text(json.dumps({**config, "model_type": "t5"}))
    with pytest.raises(CheckpointError, match="model type is 't5'; choose a 'bert' encoder"):
        read_encoder_config(PretrainedEncoder(encoder.name))
    (encoder / "tokenizer.json").unlink()
    assert_fails(4, "tokenizer.json: missing; expected the encoder", *fit("vanilla_bert"))
    with pytest.raises(CheckpointError, match=r"encoders/nowhere/config\.json: missing"):
        PretrainedEncoder("nowhere")
