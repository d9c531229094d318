"""Configuration of BERT encoders, in a separate module because importing transformers takes seconds."""

from dataclasses import dataclass
from typing import Any

QUERY_LENGTH = 20  # maximum word pieces per query


@dataclass(frozen=True)
class EncoderConfig:
    """Configuration of a BERT encoder, part of the Config of each network that has one."""

    bert: dict[str, Any]  # fields of transformers' BertConfig
    cls: int = 101  # token id of [CLS]
    sep: int = 102  # token id of [SEP]
    frozen: int = -1  # number of frozen lower transformer layers, besides the embeddings; -1: nothing is frozen
