"""From titles of debates, and another system's scores for them, to a network."""

from __future__ import annotations
