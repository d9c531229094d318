"""Constants of BERT-type encoders, apart from them because importing transformers takes seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

QUERY_LENGTH = 20  # positions, always: after a shorter query some are empty

BERT_FIELDS = (
    "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "hidden_act",
    "max_position_embeddings", "type_vocab_size", "layer_norm_eps", "hidden_dropout_prob", "attention_probs_dropout_prob",
)  # fmt: skip


@dataclass(frozen=True)
class EncoderConfig:
    """A BERT-type encoder: its own configuration (BERT_FIELDS), its special pieces, and how much of it is not trained."""

    bert: dict[str, Any]
    cls: int = 101
    sep: int = 102
    frozen: int = -1  # so many lowest blocks are frozen, and the embeddings with them; -1: nothing
