"""Tagging arguments: documents whose words are tagged, what they are split into, and learning from them."""

from __future__ import annotations
