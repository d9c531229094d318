"""Texts as people may see them: nothing in them can move the cursor, turn the writing round, or hide."""

from __future__ import annotations

import unicodedata

JOINERS = "\u200c\u200d"  # Persian words and emojis need them


def visible(text: str) -> str:
    """A text of the same length with a mark in place of each character that cannot be seen; blanks stay."""
    return text if text.isprintable() else "".join(map(_visible, text))


def width(text: str) -> int:
    """Count the terminal columns that a text takes."""
    return len(text) if text.isascii() else sum(map(_width, text))


def _visible(character: str) -> str:
    if character.isspace():
        return " "
    return character if character.isprintable() or character in JOINERS else "\ufffd"


def _width(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
