"""Cached artifacts, atomic files, locks and provenance."""

from __future__ import annotations
