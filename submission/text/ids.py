"""Ids of texts for networks: of words, or of a BERT tokenizer's pieces."""

from __future__ import annotations

from typing import Literal

PADDING, UNKNOWN = 0, 1  # of words; those of a vocabulary's terms begin behind these two

Reads = Literal["words", "pieces"]
