"""Normalise and tokenise texts.

Loaders raise OSError if a file cannot be read, and ValueError if it is malformed.
"""

from __future__ import annotations
