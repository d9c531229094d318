"""Normalise Unicode, conclusions, queries and premises (Entezari 2020, section 3.2)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import cache
from itertools import chain, groupby
from typing import TYPE_CHECKING, TypeVar

from aragorn.paths import STOP_WORDS_FILE

if TYPE_CHECKING:
    import inflect

VERSION = 1  # of normalised texts and stop words
COMPUTES_WITH = ("inflect",)

JOINERS = "\u200c\u200d"  # needed by Persian and by emoji sequences


def sanitise(text: str) -> str:
    """Replace whitespace with spaces, and invisible characters, except JOINERS, with U+FFFD."""
    return text if text.isprintable() else "".join(map(_sanitise_character, text))


def _sanitise_character(character: str) -> str:
    if character.isspace():
        return " "
    return character if character.isprintable() or character in JOINERS else "\ufffd"


# Starting with a character set makes the pattern several times faster; hence the lookbehinds.
URL = re.compile(r"[HhWw](?i:(?<=h)ttps?://|(?<=w)ww\.)\S+")
DIGITS = re.compile(r"[0-9]+")
# straight, typographic single quotes, modifier letter, full-width
APOSTROPHES = "'\u2018\u2019\u02bc\uff07"
WHITESPACE = re.compile(r"\s")
NON_LETTERS = re.compile(r"[^a-z]+")
# 32 non-ASCII characters that may be combining marks, which are no word characters
MANY_MARKS = re.compile(r"[\u0300-\U0001ffff](?<!\w)[\u0300-\U0001ffff]{31,}")
INNER_APOSTROPHE = re.compile(rf"[{APOSTROPHES}](?<=\w.)(?=\w)")
NUMBER_TOKEN = "<number>"  # replaces numbers that inflect cannot spell

_INVISIBLE_RANGES = (  # inclusive ranges of invisible code points that do not separate words
    (0x00AD, 0x00AD),  # soft hyphen
    (0x034F, 0x034F),  # combining grapheme joiner
    (0x061C, 0x061C),  # Arabic letter mark
    (0x180B, 0x180F),  # Mongolian variation selectors and vowel separator
    (0x200B, 0x200F),  # zero-width space, joiners and directional marks
    (0x202A, 0x202E),  # directional embeddings and overrides
    (0x2060, 0x206F),  # word joiner, invisible operators, directional isolates
    (0xFE00, 0xFE0F),  # variation selectors
    (0xFEFF, 0xFEFF),  # zero-width no-break space, also a byte order mark
    (0xE0000, 0xE0FFF),  # tags, further variation selectors
)
_FULL_WIDTH_ASCII = range(0xFF01, 0xFF5F)  # full-width ! to ~
_TRANSLATION: dict[int, int | None] = {
    **{code: None for first, last in _INVISIBLE_RANGES for code in range(first, last + 1)},
    **{code: code - 0xFF01 + ord("!") for code in _FULL_WIDTH_ASCII},
    0x3000: ord(" "),
}
INVISIBLE_CHARACTERS = "".join(
    f"{chr(first)}-{chr(last)}" for first, last in _INVISIBLE_RANGES
)  # for use in a regex character class

T = TypeVar("T")


class _PunctuationTranslation(dict[int, str | int]):
    """Lazily filled table that applies `replace` to punctuation marks and symbols."""

    def __init__(self, replace: Callable[[str], str]) -> None:
        super().__init__()
        self._replace = replace

    def __missing__(self, code: int) -> str | int:
        character = chr(code)
        self[code] = replacement = (
            self._replace(character) if unicodedata.category(character)[0] in "PS" else code
        )
        return replacement


def _name_punctuation(character: str) -> str:
    """Return the Unicode name of a mark, e.g. <comma>; that of ASCII for typographic ones."""
    name = unicodedata.name(character.translate(_TYPOGRAPHIC_TO_ASCII), "symbol")
    return f" <{NON_LETTERS.sub('_', name.lower())}> "


_TYPOGRAPHIC_TO_ASCII = str.maketrans("‘’ʼ＇“”„«»–—−", '\'\'\'\'"""""---')  # noqa: RUF001 look-alikes are intended
_REMOVE_PUNCTUATION = _PunctuationTranslation(
    lambda character: "" if character in APOSTROPHES else " "
)
_NAME_PUNCTUATION = _PunctuationTranslation(_name_punctuation)


def normalise(text: str) -> str:
    """Normalise a conclusion or topic title: lower-cased, without punctuation and stop words.

    Unicode is normalised first. Apostrophes are deleted; other punctuation and symbols are replaced
    with spaces. If no term remains ("To be or not to be?"), the lower-cased text is returned.
    """
    lower_text = normalise_unicode(text).lower()
    terms = [
        term
        for term in lower_text.translate(_REMOVE_PUNCTUATION).split()
        if term not in load_stop_words()
    ]
    return " ".join(terms or lower_text.split())


def tokenise_query(text: str) -> list[str]:
    """Tokenise a query for the word-based networks: apply `normalise`, spell out numbers."""
    return _spell_digits(normalise(text)).split()


def tokenise_premise(text: str) -> list[str]:
    """Tokenise a premise for the word-based networks.

    Unicode is normalised, URLs are removed, numbers spelled out, punctuation marks replaced with
    named tokens, and repeated tokens collapsed. Apostrophes inside words are deleted as in queries,
    so that "women's" is the same term in both.
    """
    text = INNER_APOSTROPHE.sub("", remove_urls(normalise_unicode(text).lower()))
    words = _spell_digits(text.translate(_NAME_PUNCTUATION)).split()
    return [word for word, previous in zip(words, [None, *words], strict=False) if word != previous]


def tokenise_prefix(text: str, max_tokens: int, tokenise: Callable[[str], list[T]]) -> list[T]:
    """Return the first `max_tokens` tokens of a text without tokenising all of a long text.

    For a prefix that ends at whitespace, `tokenise` must return a prefix of all tokens.
    """
    size = 8 * max_tokens  # characters; about 6 per English token
    while whitespace := WHITESPACE.search(text, size):
        tokens = tokenise(text[: whitespace.start()])
        if len(tokens) >= max_tokens:
            return tokens[:max_tokens]
        size *= 2
    return tokenise(text)[:max_tokens]


def remove_urls(text: str) -> str:
    """Replace each URL with a space, the only preprocessing of texts for BERT networks."""
    return URL.sub(" ", text)


def normalise_unicode(text: str) -> str:
    """Return a text in NFC, without invisible characters, and full-width ones as ASCII."""
    if text.isascii():
        return text
    text = MANY_MARKS.sub(_order_marks, text.translate(_TRANSLATION))
    return unicodedata.normalize("NFC", text)


def _order_marks(match: re.Match[str]) -> str:
    """Return the characters with each sequence of combining marks in canonical order, which NFC
    prescribes, too, but unicodedata takes quadratic time for."""
    sequences = groupby(match[0], key=lambda character: unicodedata.combining(character) > 0)
    return "".join(
        chain.from_iterable(sorted(group, key=unicodedata.combining) for _, group in sequences)
    )


@cache
def load_stop_words() -> frozenset[str]:
    """Load NLTK's 179 English stop words of 2020, without apostrophes, as in normalised text."""
    # Read the file directly: importing NLTK takes seconds, and its loader skips directories with
    # unusual owners or permissions.
    text = STOP_WORDS_FILE.read_text(encoding="utf-8")
    return frozenset(word.translate(_REMOVE_PUNCTUATION) for word in text.split())


def _spell_digits(text: str) -> str:
    return DIGITS.sub(lambda match: f" {_spell_number(match[0])} ", text)


@cache
def _create_engine() -> inflect.engine:
    import inflect  # here, because the import would slow down every command

    return inflect.engine()


@cache
def _spell_number(digits: str) -> str:
    from inflect import NumOutOfRangeError

    try:
        words = _create_engine().number_to_words(digits, andword="")
    except (IndexError, ValueError, NumOutOfRangeError):  # number too large
        return NUMBER_TOKEN
    return str(words).replace("-", " ").replace(",", "")
