"""Configuration of BERT encoders."""

from dataclasses import dataclass
from typing import Any

from aragorn.bounds import (
    Count,
    Deviation,
    FrozenCount,
    LayerCount,
    Length,
    Rows,
    Share,
    TokenId,
    Width,
)

QUERY_LENGTH = 20  # maximum word pieces per query


@dataclass(frozen=True)
class BERTConfig:
    """Configuration of BERT, with names and defaults of Hugging Face's config.json."""

    vocab_size: Rows = 30522
    hidden_size: Width = 768
    num_hidden_layers: LayerCount = 12
    num_attention_heads: Count = 12
    intermediate_size: Width = 3072
    hidden_act: str = "gelu"
    max_position_embeddings: Length = 512
    type_vocab_size: Count = 2
    pad_token_id: TokenId = 0
    layer_norm_eps: Share = 1e-12
    hidden_dropout_prob: Share = 0.1
    attention_probs_dropout_prob: Share = 0.1
    initializer_range: Deviation = 0.02  # standard deviation of the initial weights


@dataclass(frozen=True)
class EncoderConfig:
    """Configuration of a BERT encoder, part of the Config of each network that has one."""

    bert: dict[str, Any]  # fields of BERTConfig
    cls: TokenId = 101  # token id of [CLS]
    sep: TokenId = 102  # token id of [SEP]
    # number of frozen lower transformer layers, besides the embeddings; -1: nothing is frozen
    frozen: FrozenCount = -1
