"""Configuration of BERT encoders, in its own module because importing transformers takes seconds."""

from dataclasses import dataclass
from typing import Any

QUERY_LENGTH = 20  # maximum word pieces per query

BERT_FIELDS = (
    "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "hidden_act",
    "max_position_embeddings", "type_vocab_size", "layer_norm_eps", "hidden_dropout_prob", "attention_probs_dropout_prob",
)  # fmt: skip


@dataclass(frozen=True)
class EncoderConfig:
    """Configuration of a BERT encoder."""

    bert: dict[str, Any]  # values of BERT_FIELDS
    cls: int = 101  # token id of [CLS]
    sep: int = 102  # token id of [SEP]
    frozen: int = -1  # number of frozen lower layers, embeddings included; -1: none
