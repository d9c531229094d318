"""Normalise Unicode: decomposed characters, full-width letters, and soft hyphens or zero-width characters inside words."""

from __future__ import annotations

import unicodedata
from functools import cache

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


@cache
def combining_characters() -> str:
    """Return all combining characters, for use in a regex character class."""
    marks = {chr(code) for code in range(0x300, 0x20000) if unicodedata.combining(chr(code))}
    decompositions = (unicodedata.decomposition(chr(code)).split() for code in range(0xA0, 0x20000))
    composed = {chr(int(codes[1], 16)) for codes in decompositions if len(codes) == 2 and not codes[0].startswith("<")}
    return "".join(sorted(character for character in marks | composed if not character.isalnum()))


def normalise_unicode(text: str) -> str:
    """Return a text in NFC, without invisible characters and with full-width characters converted to ASCII."""
    return text if text.isascii() else unicodedata.normalize("NFC", text.translate(_TRANSLATION))
