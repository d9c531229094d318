"""Ids of words, as networks get them: those of a vocabulary's terms begin behind these two."""

from __future__ import annotations

PADDING, UNKNOWN = 0, 1
