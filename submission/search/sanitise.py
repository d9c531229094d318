"""Sanitise untrusted text for display: no control, bidirectional or invisible characters."""

from __future__ import annotations

JOINERS = "\u200c\u200d"  # needed by Persian and by emoji sequences


def sanitise(text: str) -> str:
    """Replace invisible characters by U+FFFD and whitespace by spaces; the length is unchanged."""
    return text if text.isprintable() else "".join(map(_sanitise_character, text))


def _sanitise_character(character: str) -> str:
    if character.isspace():
        return " "
    return character if character.isprintable() or character in JOINERS else "\ufffd"
