"""Different code points for the same text → one form, before a text is split into terms.

A title typed on one keyboard must find a premise typed on another: "café" may come decomposed (NFD), "zoos" in full-width
letters, and a web page may hide soft hyphens and zero-width characters inside its words.
"""

from __future__ import annotations

import unicodedata
from functools import cache

_INVISIBLE = (  # inclusive ranges of code points that take no room and separate no words
    (0x00AD, 0x00AD),  # soft hyphen
    (0x034F, 0x034F),  # combining grapheme joiner
    (0x061C, 0x061C),  # Arabic letter mark
    (0x180B, 0x180F),  # Mongolian variation selectors, vowel separator
    (0x200B, 0x200F),  # zero-width space, joiners, direction marks
    (0x202A, 0x202E),  # embeddings and overrides of direction
    (0x2060, 0x206F),  # word joiner, invisible operators, isolates of direction
    (0xFE00, 0xFE0F),  # variation selectors
    (0xFEFF, 0xFEFF),  # zero-width no-break space, also a byte order mark
    (0xE0000, 0xE0FFF),  # tags, more variation selectors
)
_FULL_WIDTH = range(0xFF01, 0xFF5F)  # ! to ~ as wide as an ideograph
_TABLE: dict[int, int | None] = {
    **{code: None for first, last in _INVISIBLE for code in range(first, last + 1)},
    **{code: code - 0xFF01 + ord("!") for code in _FULL_WIDTH},
    0x3000: ord(" "),
}


INVISIBLE = "".join(f"{chr(first)}-{chr(last)}" for first, last in _INVISIBLE)  # for a set of a regular expression


@cache
def combining() -> str:
    """Return, for a regular expression, the characters that compose with a letter before them or may stand in between."""
    marks = {chr(code) for code in range(0x300, 0x20000) if unicodedata.combining(chr(code))}
    pairs = (unicodedata.decomposition(chr(code)).split() for code in range(0xA0, 0x20000))
    composed = {chr(int(pair[1], 16)) for pair in pairs if len(pair) == 2 and not pair[0].startswith("<")}
    return "".join(sorted(character for character in marks | composed if not character.isalnum()))


def unified(text: str) -> str:
    """Return a text composed (NFC), with full-width letters and marks as plain ones and without invisible characters."""
    return text if text.isascii() else unicodedata.normalize("NFC", text.translate(_TABLE))
