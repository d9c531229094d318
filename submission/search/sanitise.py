"""Sanitising of untrusted text for display: removal of control, bidirectional and invisible characters."""

from __future__ import annotations

JOINERS = "\u200c\u200d"  # needed by Persian and by emoji sequences


def sanitise(text: str) -> str:
    """Replace each invisible character with U+FFFD and each whitespace character with a space."""
    return text if text.isprintable() else "".join(map(_sanitise_character, text))


def _sanitise_character(character: str) -> str:
    if character.isspace():
        return " "
    return character if character.isprintable() or character in JOINERS else "\ufffd"
