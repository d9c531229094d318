"""Files that are whole, known again, and held by one process at a time."""

from __future__ import annotations
