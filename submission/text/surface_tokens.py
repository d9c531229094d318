"""Split texts into surface tokens with their spans, for taggers with character inputs."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

from submission.text.token_ids import FIRST, PADDING, UNKNOWN
from submission.text.vocabulary import Vocabulary

SLOTS = 20  # longer tokens are truncated
CHARACTERS = string.ascii_letters + string.digits + string.punctuation + "‘’“”–—…"  # noqa: RUF001 typographic marks are intended
SPELLING_IDS = len(CHARACTERS) + FIRST  # with padding and unknown

_WORD = re.compile(r"[^\W_]+|[^\w\s]|_")
_DIGIT = re.compile(r"[0-9]")
_ENDS = frozenset(".?!")
_NUMBERS = {character: token_id for token_id, character in enumerate(CHARACTERS, FIRST)}

Place = tuple[int, int]


@dataclass(frozen=True)
class WrittenPassage:
    """A passage with its tokens, their spans and their ids."""

    text: str
    places: Sequence[Place]
    words: Sequence[str]
    ids: Sequence[int]

    def __len__(self) -> int:
        """Return the number of tokens."""
        return len(self.words)


class WrittenReader:
    """Splits texts into passages of whole sentences with at most `longest` tokens.

    The vocabulary is lower-cased with digits as 0, so case and digits never make a token unknown; the character input preserves
    both.
    """

    file: ClassVar[str] = "vocabulary.txt"

    def __init__(self, vocabulary: Vocabulary, longest: int) -> None:
        self.vocabulary, self._longest = vocabulary, longest

    @classmethod
    def load(cls, directory: Path, config: Any) -> WrittenReader:
        """Load a reader from its file in a directory and a network's config.

        Raises:
            OSError, ValueError: the file cannot be read or parsed.
        """
        return cls(Vocabulary.load(directory / cls.file), config.longest)

    def fits(self, terms: int) -> bool:
        """Return whether its ids match an embedding table of this size."""
        return terms == len(self.vocabulary)

    def dumps(self) -> bytes:
        """Return the content of its file."""
        return self.vocabulary.dumps().encode()

    def passages(self, text: str) -> list[WrittenPassage]:
        """Split a text into passages; return [] for a text without tokens."""
        text_spans, passages = places(text), []
        for slice_ in cut(text, text_spans, self._longest):
            spans = text_spans[slice_]
            first, last = spans[0][0], spans[-1][1]
            tokens = [text[start:end] for start, end in spans]
            relative_spans = [(start - first, end - first) for start, end in spans]
            passages.append(WrittenPassage(text[first:last], relative_spans, tokens, self.vocabulary.ids(map(form, tokens))))
        return passages


def places(text: str) -> list[Place]:
    """Return the spans of a text's tokens: runs of letters and digits, and single punctuation marks."""
    return [match.span() for match in _WORD.finditer(text)]


def cut(text: str, found: Sequence[Place], longest: int) -> list[slice]:
    """Split tokens into slices of whole sentences with at most `longest` tokens; a sentence ends with . ? or ! and whitespace.

    Overlong sentences are split at whitespace if possible.
    """
    slices, start = [], 0
    while start < len(found):
        limit = min(start + longest, len(found))
        ends = range(limit, start, -1)
        whitespace_ends = [end for end in ends if end == len(found) or found[end - 1][1] < found[end][0]]
        sentence_ends = (end for end in whitespace_ends if end == len(found) or text[slice(*found[end - 1])] in _ENDS)
        end = next(chain(sentence_ends, whitespace_ends, ends))
        slices.append(slice(start, end))
        start = end
    return slices


def forms(text: str) -> list[str]:
    """Return the normalised tokens of a text."""
    return [form(text[start:end]) for start, end in places(text)]


def form(word: str) -> str:
    """Return the vocabulary form of a token: lower-cased, digits as 0."""
    return _DIGIT.sub("0", word.lower())


def spelling(word: str) -> list[int]:
    """Return a token's character ids, centred and padded to SLOTS."""
    ids = [_NUMBERS.get(character, UNKNOWN) for character in word[:SLOTS]]
    left_padding = (SLOTS - len(ids)) // 2
    return [PADDING] * left_padding + ids + [PADDING] * (SLOTS - len(ids) - left_padding)
