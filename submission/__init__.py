"""Rank the topics of an input and write TREC runs; the package in the container image."""

from __future__ import annotations

__version__ = "1.1.0"
