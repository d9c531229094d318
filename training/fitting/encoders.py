"""Read the configuration and the pooler of pretrained encoders."""

import json
from typing import Any

from torch import Tensor

from submission.errors import CheckpointError
from submission.inference.pretrained import CONFIG_FILE, TOKENISER_FILE, WEIGHTS_FILE, PretrainedEncoder

BERT_FIELDS = (
    "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "hidden_act",
    "max_position_embeddings", "type_vocab_size", "layer_norm_eps", "hidden_dropout_prob", "attention_probs_dropout_prob",
)  # fmt: skip


def read_encoder_config(encoder: PretrainedEncoder, frozen: int = -1) -> dict[str, Any]:
    """Return the fields of `EncoderConfig` that the encoder determines, and the number of frozen layers.

    Raises:
        CheckpointError: If the encoder is not a BERT model.
    """
    values = _read_json(encoder, CONFIG_FILE)
    if values.get("model_type") != "bert":
        raise CheckpointError(f"{encoder.folder}: model type is {values.get('model_type')!r}; expected 'bert'")
    vocabulary = _read_json(encoder, TOKENISER_FILE)["model"]["vocab"]
    bert = {name: values[name] for name in BERT_FIELDS if name in values}
    return {"bert": bert, "cls": vocabulary["[CLS]"], "sep": vocabulary["[SEP]"], "frozen": frozen}


def load_pooler_weights(encoder: PretrainedEncoder) -> dict[str, Tensor]:
    """Load the pooler's weights under a network's tensor names.

    Raises:
        CheckpointError: If the encoder has no pooler.
    """
    weights = encoder.load_weights()
    try:
        return {f"pooler.{name}": weights[f"pooler.dense.{name}"] for name in ("weight", "bias")}
    except KeyError as error:
        message = f"{encoder.folder / WEIGHTS_FILE}: no tensor {error.args[0]}; choose an encoder with a pooler"
        raise CheckpointError(message) from None


def _read_json(encoder: PretrainedEncoder, file: str) -> Any:
    return json.loads((encoder.folder / file).read_text(encoding="utf-8"))
