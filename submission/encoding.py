"""Texts → id tensors and masks; padding happens here and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from submission.rankers.base import PADDING
from submission.text import premise_words, query_words
from submission.vocabulary import Vocabulary


@dataclass(frozen=True)
class WordLengths:
    """How many words of a text a word network sees (thesis: 10 and 100)."""

    query: int = 10
    premise: int = 100


class WordEncoder:
    """Texts to word ids, cut to the checkpoint's lengths."""

    def __init__(self, vocabulary: Vocabulary, lengths: WordLengths) -> None:
        self.vocabulary = vocabulary
        self.lengths = lengths

    def query(self, text: str) -> list[int]:
        """The ids of a conclusion or title."""
        return self.vocabulary.ids(query_words(text)[: self.lengths.query])

    def premise(self, text: str) -> list[int]:
        """The ids of a premise."""
        return self.vocabulary.ids(premise_words(text)[: self.lengths.premise])


def pad(sequences: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Id lists to a pair (ids, mask): ids (B, L) int64 padded with 0, mask (B, L) bool, L the longest but at least 1."""
    lengths = torch.tensor([len(sequence) for sequence in sequences])
    longest = max(1, int(lengths.max()))
    ids = torch.tensor([[*sequence, *[PADDING] * (longest - len(sequence))] for sequence in sequences])
    return ids, torch.arange(longest) < lengths[:, None]
