"""A text as passages of whole sentences, each as the word pieces of its words (Hollatz 2022, 3.2; Dai and Callan 2020)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Self

from tokenizers import Tokenizer

from submission.text.normalise import drop_urls
from submission.text.pieces import Pieces, load_tokenizer

SENTENCE_END = re.compile(r"[.!?…][\"'”’)\]]*\s+|\s*\n\s*")
WRITTEN = re.compile(r"\S+\s*")
UNKNOWN = "[UNK]"


@dataclass(frozen=True)
class Passage:
    """A passage as its pieces, and its words: what stands between blanks and marks, and each mark."""

    text: str
    ids: list[int]  # of its pieces, at most so many as are read
    words: list[str]  # lower-cased, as their pieces put together; "" where the tokenizer does not know a word
    spans: list[tuple[int, int]]  # the place of each in the text
    places: list[int]  # of each word's first piece, all of which are read

    def __len__(self) -> int:
        """The number of pieces."""
        return len(self.ids)


class PassageReader(Pieces):
    """Cuts texts into passages."""

    def __init__(self, tokenizer: Tokenizer, words: int, pieces: int) -> None:
        """With at most so many words, written between blanks, in a passage, of which at most so many pieces are read."""
        super().__init__(tokenizer)
        self._most, self._pieces = words, pieces

    @classmethod
    def load(cls, directory: Path, config: Any) -> Self:
        """Load a reader from a directory that has its file, and the numbers of words and pieces. Raises OSError, ValueError."""
        return cls(load_tokenizer(directory), config.words, config.pieces)

    def passages(self, text: str) -> list[Passage]:
        """The passages of a text as written, without URLs."""
        return [self.passage(part) for part in cut(drop_urls(text), self._most)]

    def passage(self, text: str) -> Passage:
        """A text as one passage."""
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        # Once each: whoever asks for these lists has them made anew.
        ids, tokens, offsets = encoding.ids, encoding.tokens, encoding.offsets
        words, spans, places = [], [], []
        for _, group in groupby(range(len(ids)), encoding.word_ids.__getitem__):
            own = list(group)
            if own[0] >= self._pieces:
                break
            word = "".join(tokens[place].removeprefix("##") for place in own)
            words.append("" if word == UNKNOWN else word)
            spans.append((offsets[own[0]][0], offsets[own[-1]][1]))
            places.append(own[0])
        return Passage(text, ids[: self._pieces], words, spans, places)


def cut(text: str, most: int) -> list[str]:
    """The passages of a text: whole sentences of at most so many words, written between blanks; a longer sentence is cut."""
    found: list[str] = []
    number = most  # of the words of the last passage
    for part, words in _parts(text, most):
        if number + words > most:
            found.append("")
            number = 0
        found[-1] += part
        number += words
    return [passage.strip() for passage in found]


def _parts(text: str, most: int) -> Iterator[tuple[str, int]]:
    """Sentences, or the parts of too long ones, with the numbers of their words, 1 or more."""
    ends = [match.end() for match in SENTENCE_END.finditer(text)]
    for start, end in zip([0, *ends], [*ends, len(text)], strict=True):
        words = WRITTEN.findall(text[start:end])
        for first in range(0, len(words), most):
            part = words[first : first + most]
            yield "".join(part), len(part)
