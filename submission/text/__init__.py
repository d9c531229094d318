"""Normalise and tokenise texts."""

from __future__ import annotations
