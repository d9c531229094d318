"""The one normalisation of conclusions, queries and premises (thesis 3.2), for retrieval, training and ranking alike."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import cache
from typing import Literal, TypeVar

import inflect

from submission.paths import STOP_WORDS
from submission.text.characters import unified

# What begins with a set of characters is found several times as fast: hence the first letter of "http" or "www" apart, and the
# letter before an apostrophe looked for after it.
URL = re.compile(r"[HhWw](?i:(?<=h)ttps?://|(?<=w)ww\.)\S+")
DIGITS = re.compile(r"[0-9]+")
APOSTROPHES = "'\u2018\u2019\u02bc\uff07"  # straight, both single quotes (typed for it everywhere), modifier, full-width
BLANK = re.compile(r"\s")
NO_LETTERS = re.compile(r"[^a-z]+")
INNER_APOSTROPHE = re.compile(rf"[{APOSTROPHES}](?<=\w.)(?=\w)")
NUMBER = "<number>"  # a number that inflect has no words for

# What the word networks' checkpoints were trained on: 1 takes characters as they are, 2 unifies them first.
TextRule = Literal[1, 2]
LATEST_RULE: TextRule = 2

T = TypeVar("T")


class _Translation(dict[int, str | int]):
    """A table for str.translate that classifies each character when it is first met."""

    def __missing__(self, code: int) -> str | int:
        character = chr(code)
        is_mark = unicodedata.category(character)[0] in "PS"  # punctuation and symbols
        self[code] = self.replacement(character) if is_mark else code
        return self[code]

    def replacement(self, mark: str) -> str:
        raise NotImplementedError


class _Removal(_Translation):
    def replacement(self, mark: str) -> str:
        return "" if mark in APOSTROPHES else " "


class _Naming(_Translation):
    """Marks to tokens by their Unicode names: a comma is <comma>. Typographic forms share the name of the plain one."""

    plain = str.maketrans("‘’ʼ＇“”„«»–—−", '\'\'\'\'"""""---')  # noqa: RUF001 the look-alikes are the point

    def replacement(self, mark: str) -> str:
        mark = mark.translate(self.plain)
        return f" <{NO_LETTERS.sub('_', unicodedata.name(mark, 'symbol').lower())}> "


_ENGINE = inflect.engine()
_REMOVED = _Removal()
_NAMED = _Naming()


def normalise(text: str) -> str:
    """The normalised form of a conclusion or of a topic's title: lower-cased, no punctuation, no stop words, not stemmed.

    Characters are unified first. Apostrophes are deleted, other punctuation and symbols become a blank. A text that would
    become empty ("To be or not to be?") keeps its lower-cased form.
    """
    return without_stop_words(unified(text))


def without_stop_words(text: str) -> str:
    """Normalise a text whose characters are taken as they are."""
    lowered = text.lower()
    terms = [term for term in lowered.translate(_REMOVED).split() if term not in stop_words()]
    return " ".join(terms or lowered.split())


def query_words(text: str, rule: TextRule = LATEST_RULE) -> list[str]:
    """The query of the word networks: the normalised conclusion or title, digits as words."""
    return _spell_digits(without_stop_words(text if rule == 1 else unified(text))).split()


def premise_words(text: str, rule: TextRule = LATEST_RULE) -> list[str]:
    """A premise for the word networks: URLs dropped, digits as words, punctuation as named tokens, repeats collapsed.

    An apostrophe within a word is deleted as in conclusions, so that "women's" is the same term on both sides.
    """
    text = text if rule == 1 else unified(text)
    text = INNER_APOSTROPHE.sub("", drop_urls(text.lower()))
    words = _spell_digits(text.translate(_NAMED)).split()
    return [word for word, before in zip(words, [None, *words], strict=False) if word != before]


def beginning(text: str, most: int, tokens: Callable[[str], list[T]]) -> list[T]:
    """The first `most` of a text's tokens, without reading more of a long text than about that many need.

    `tokens` must say the same of a text's part before a blank as of that part within the whole text.
    """
    size = 8 * most  # characters; English has about 6 a token
    while blank := BLANK.search(text, size):
        found = tokens(text[: blank.start()])
        if len(found) >= most:
            return found[:most]
        size *= 2
    return tokens(text)[:most]


def drop_urls(text: str) -> str:
    """The text without its URLs: all that BERT networks change."""
    return URL.sub(" ", text)


@cache
def stop_words() -> frozenset[str]:
    """NLTK's English stop words as of 2020 (179, shipped in nltk_data), without apostrophes as in normalised text."""
    # Not by NLTK: it takes seconds to import, and its loader refuses folders of another owner or writable by a group, as a
    # clone or a mount may well be, and goes on to other lists of the machine.
    text = STOP_WORDS.read_text(encoding="utf-8")
    return frozenset(word.translate(_REMOVED) for word in text.split())


def _spell_digits(text: str) -> str:
    return DIGITS.sub(lambda match: f" {_number_words(match[0])} ", text)


@cache
def _number_words(digits: str) -> str:
    try:
        words = _ENGINE.number_to_words(digits, andword="")
    except (IndexError, ValueError, inflect.NumOutOfRangeError):  # beyond its range, or Python's
        return NUMBER
    return str(words).replace("-", " ").replace(",", "")
