"""Normalise conclusions, queries and premises (Entezari 2020, section 3.2)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import cache
from typing import Literal, TypeVar

import inflect

from submission.paths import STOP_WORDS
from submission.text.unicode import unified

# A pattern that starts with a character set is several times as fast; hence the lookbehinds.
URL = re.compile(r"[HhWw](?i:(?<=h)ttps?://|(?<=w)ww\.)\S+")
DIGITS = re.compile(r"[0-9]+")
APOSTROPHES = "'\u2018\u2019\u02bc\uff07"  # straight, typographic single quotes, modifier letter, full-width
BLANK = re.compile(r"\s")
NO_LETTERS = re.compile(r"[^a-z]+")
INNER_APOSTROPHE = re.compile(rf"[{APOSTROPHES}](?<=\w.)(?=\w)")
NUMBER = "<number>"  # replaces numbers that inflect cannot spell

# How a checkpoint's training texts were read: 1 without, 2 with Unicode normalisation.
TextRule = Literal[1, 2]
LATEST_RULE: TextRule = 2

T = TypeVar("T")


class _Translation(dict[int, str | int]):
    """A table for str.translate, filled on first use of a character."""

    def __missing__(self, code: int) -> str | int:
        character = chr(code)
        is_punctuation = unicodedata.category(character)[0] in "PS"  # punctuation and symbols
        self[code] = self.replacement(character) if is_punctuation else code
        return self[code]

    def replacement(self, mark: str) -> str:
        raise NotImplementedError


class _Removal(_Translation):
    def replacement(self, mark: str) -> str:
        return "" if mark in APOSTROPHES else " "


class _Naming(_Translation):
    """Replaces punctuation by its Unicode name, e.g. <comma>; typographic variants share the ASCII mark's name."""

    plain = str.maketrans("‘’ʼ＇“”„«»–—−", '\'\'\'\'"""""---')  # noqa: RUF001 look-alikes are intended

    def replacement(self, mark: str) -> str:
        mark = mark.translate(self.plain)
        return f" <{NO_LETTERS.sub('_', unicodedata.name(mark, 'symbol').lower())}> "


_ENGINE = inflect.engine()
_REMOVED = _Removal()
_NAMED = _Naming()


def normalise(text: str) -> str:
    """Normalise a conclusion or topic title: lower-case, no punctuation, no stop words, no stemming.

    Unicode is normalised first. Apostrophes are deleted; other punctuation and symbols become spaces. If nothing remains
    ("To be or not to be?"), the lower-cased text is returned.
    """
    return without_stop_words(unified(text))


def without_stop_words(text: str) -> str:
    """Normalise a text without Unicode normalisation."""
    lowered = text.lower()
    terms = [term for term in lowered.translate(_REMOVED).split() if term not in stop_words()]
    return " ".join(terms or lowered.split())


def query_words(text: str, rule: TextRule = LATEST_RULE) -> list[str]:
    """Tokenise a query for the word networks: normalised, digits spelled out."""
    return _spell_digits(without_stop_words(text if rule == 1 else unified(text))).split()


def premise_words(text: str, rule: TextRule = LATEST_RULE) -> list[str]:
    """Tokenise a premise for the word networks: no URLs, digits spelled out, punctuation as named tokens, repeats collapsed.

    Apostrophes inside words are deleted as in queries, so "women's" is one term in both.
    """
    text = text if rule == 1 else unified(text)
    text = INNER_APOSTROPHE.sub("", drop_urls(text.lower()))
    words = _spell_digits(text.translate(_NAMED)).split()
    return [word for word, previous in zip(words, [None, *words], strict=False) if word != previous]


def beginning(text: str, most: int, tokens: Callable[[str], list[T]]) -> list[T]:
    """Return the first `most` tokens of a text without tokenising all of a long text.

    `tokens` must return for a prefix that ends at whitespace a prefix of the whole text's tokens.
    """
    size = 8 * most  # characters; about 6 per English token
    while blank := BLANK.search(text, size):
        prefix = tokens(text[: blank.start()])
        if len(prefix) >= most:
            return prefix[:most]
        size *= 2
    return tokens(text)[:most]


def drop_urls(text: str) -> str:
    """Remove URLs, the only preprocessing for BERT networks."""
    return URL.sub(" ", text)


@cache
def stop_words() -> frozenset[str]:
    """Load NLTK's English stop words of 2020 (179), without apostrophes as in normalised text."""
    # Read directly: importing NLTK takes seconds, and its loader skips folders of another owner or writable by a group.
    text = STOP_WORDS.read_text(encoding="utf-8")
    return frozenset(word.translate(_REMOVED) for word in text.split())


def _spell_digits(text: str) -> str:
    return DIGITS.sub(lambda match: f" {_number_words(match[0])} ", text)


@cache
def _number_words(digits: str) -> str:
    try:
        words = _ENGINE.number_to_words(digits, andword="")
    except (IndexError, ValueError, inflect.NumOutOfRangeError):  # beyond inflect's or Python's limits
        return NUMBER
    return str(words).replace("-", " ").replace(",", "")
