"""DeepCT's training: passages, the words of theirs that matter, and what is learned from them (Hollatz 2022, 3.2)."""

from __future__ import annotations
