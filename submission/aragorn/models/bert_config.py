"""Configuration of BERT encoders."""

from dataclasses import dataclass
from typing import Any

QUERY_LENGTH = 20  # maximum word pieces per query


@dataclass(frozen=True)
class BERTConfig:
    """Configuration of BERT, with names and defaults of Hugging Face's config.json."""

    vocab_size: int = 30522
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    pad_token_id: int = 0
    layer_norm_eps: float = 1e-12
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    initializer_range: float = 0.02  # standard deviation of the initial weights


@dataclass(frozen=True)
class EncoderConfig:
    """Configuration of a BERT encoder, part of the Config of each network that has one."""

    bert: dict[str, Any]  # fields of BERTConfig
    cls: int = 101  # token id of [CLS]
    sep: int = 102  # token id of [SEP]
    # number of frozen lower transformer layers, besides the embeddings; -1: nothing is frozen
    frozen: int = -1
