"""Texts → words as they are written, in their places: for networks that see letters and tag the words of the text itself."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

from submission.text.ids import PADDING, UNKNOWN
from submission.text.vocabulary import FIRST, Vocabulary

SLOTS = 20  # for a word's letters; of a longer one its first are seen
CHARACTERS = string.ascii_letters + string.digits + string.punctuation + "‘’“”–—…"  # noqa: RUF001 as texts have them
SPELLING_IDS = len(CHARACTERS) + FIRST  # with padding and unknown

_WORD = re.compile(r"[^\W_]+|[^\w\s]|_")
_DIGIT = re.compile(r"[0-9]")
_ENDS = frozenset(".?!")
_NUMBERS = {character: number for number, character in enumerate(CHARACTERS, FIRST)}

Place = tuple[int, int]  # where a word begins and ends in a text


@dataclass(frozen=True)
class WrittenPassage:
    """A part of a text, its words, and the ids of their forms."""

    text: str
    places: Sequence[Place]
    words: Sequence[str]
    ids: Sequence[int]

    def __len__(self) -> int:
        """The number of its words."""
        return len(self.words)


class WrittenReader:
    """Texts → passages of whole sentences, of at most so many words.

    The vocabulary's words are forms: lower-cased, digits 0. So no word is unknown because of its case or of a number, and its
    letters tell both.
    """

    file: ClassVar[str] = "vocabulary.txt"

    def __init__(self, vocabulary: Vocabulary, longest: int) -> None:
        self.vocabulary, self._longest = vocabulary, longest

    @classmethod
    def load(cls, directory: Path, config: Any) -> WrittenReader:
        """Load a reader from its file in a directory and the longest passage of a Config. Raises OSError, ValueError."""
        return cls(Vocabulary.load(directory / cls.file), config.longest)

    def fits(self, terms: int) -> bool:
        """Tell whether its ids fit a network with vectors for so many ids."""
        return terms == len(self.vocabulary)

    def dumps(self) -> bytes:
        """The content of its file."""
        return self.vocabulary.dumps().encode()

    def passages(self, text: str) -> list[WrittenPassage]:
        """Cut all words of a text into passages; a text without words has none."""
        found, passages = places(text), []
        for part in cut(text, found, self._longest):
            first, last = found[part][0][0], found[part][-1][1]
            words = [text[start:end] for start, end in found[part]]
            own = [(start - first, end - first) for start, end in found[part]]
            passages.append(WrittenPassage(text[first:last], own, words, self.vocabulary.ids(map(form, words))))
        return passages


def places(text: str) -> list[Place]:
    """The places of a text's words: runs of letters and digits, and each mark by itself."""
    return [match.span() for match in _WORD.finditer(text)]


def cut(text: str, found: Sequence[Place], longest: int) -> list[slice]:
    """A text's words in parts of at most so many: of whole sentences, which end with a mark and a blank.

    A sentence that is too long is cut at a blank, and what has none anywhere.
    """
    parts, start = [], 0
    while start < len(found):
        most = min(start + longest, len(found))
        ends = range(most, start, -1)
        blanks = [end for end in ends if end == len(found) or found[end - 1][1] < found[end][0]]
        sentences = (end for end in blanks if end == len(found) or text[slice(*found[end - 1])] in _ENDS)
        end = next(chain(sentences, blanks, ends))
        parts.append(slice(start, end))
        start = end
    return parts


def forms(text: str) -> list[str]:
    """The forms of a text's words."""
    return [form(text[start:end]) for start, end in places(text)]


def form(word: str) -> str:
    """A word as vocabularies have it."""
    return _DIGIT.sub("0", word.lower())


def spelling(word: str) -> list[int]:
    """The ids of a word's letters in the middle of SLOTS, padding on both sides."""
    ids = [_NUMBERS.get(character, UNKNOWN) for character in word[:SLOTS]]
    before = (SLOTS - len(ids)) // 2
    return [PADDING] * before + ids + [PADDING] * (SLOTS - len(ids) - before)
