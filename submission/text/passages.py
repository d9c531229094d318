"""Split texts into passages of whole sentences and encode them as word pieces (Hollatz 2022, 3.2; Dai and Callan 2020)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Self

from tokenizers import Tokenizer

from submission.text.normalisation import drop_urls
from submission.text.word_pieces import Pieces, load_tokenizer

SENTENCE_END = re.compile(r"[.!?…][\"'”’)\]]*\s+|(?<!\s)\s*\n\s*")  # without the lookbehind quadratic in whitespace
WRITTEN = re.compile(r"\S+\s*")
UNKNOWN = "[UNK]"


@dataclass(frozen=True)
class Passage:
    """A passage with its word pieces and its tokens (words and punctuation marks)."""

    text: str
    ids: list[int]  # of its word pieces, truncated
    words: list[str]  # lower-cased, joined from their word pieces; "" if unknown to the tokenizer
    spans: list[tuple[int, int]]  # character spans in the text
    places: list[int]  # index of each token's first word piece

    def __len__(self) -> int:
        """Return the number of word pieces."""
        return len(self.ids)


class PassageReader(Pieces):
    """Splits texts into passages."""

    def __init__(self, tokenizer: Tokenizer, words: int, pieces: int) -> None:
        """Create a reader of passages with at most `words` words, truncated to `pieces` word pieces."""
        super().__init__(tokenizer)
        self._most, self._pieces = words, pieces

    @classmethod
    def load(cls, directory: Path, config: Any) -> Self:
        """Load a reader from its file in a directory and a network's config.

        Raises:
            OSError, ValueError: the file cannot be read or parsed.
        """
        return cls(load_tokenizer(directory), config.words, config.pieces)

    def passages(self, text: str) -> list[Passage]:
        """Split a raw text into passages, without URLs."""
        return [self.passage(passage) for passage in cut(drop_urls(text), self._most)]

    def passage(self, text: str) -> Passage:
        """Encode a text as one passage."""
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        # Each access to an attribute builds a new list.
        ids, tokens, offsets = encoding.ids, encoding.tokens, encoding.offsets
        words, spans, first_pieces = [], [], []
        for _, group in groupby(range(len(ids)), encoding.word_ids.__getitem__):
            piece_indices = list(group)
            if piece_indices[0] >= self._pieces:
                break
            word = "".join(tokens[index].removeprefix("##") for index in piece_indices)
            words.append("" if word == UNKNOWN else word)
            spans.append((offsets[piece_indices[0]][0], offsets[piece_indices[-1]][1]))
            first_pieces.append(piece_indices[0])
        return Passage(text, ids[: self._pieces], words, spans, first_pieces)


def cut(text: str, most: int) -> list[str]:
    """Split a text into passages of whole sentences with at most `most` words; longer sentences are split."""
    passages: list[str] = []
    word_count = most  # of the last passage
    for sentence, sentence_words in _parts(text, most):
        if word_count + sentence_words > most:
            passages.append("")
            word_count = 0
        passages[-1] += sentence
        word_count += sentence_words
    return [passage.strip() for passage in passages]


def _parts(text: str, most: int) -> Iterator[tuple[str, int]]:
    """Yield sentences, or pieces of overlong ones, with their word counts."""
    ends = [match.end() for match in SENTENCE_END.finditer(text)]
    for start, end in zip([0, *ends], [*ends, len(text)], strict=True):
        words = WRITTEN.findall(text[start:end])
        for first in range(0, len(words), most):
            chunk = words[first : first + most]
            yield "".join(chunk), len(chunk)
