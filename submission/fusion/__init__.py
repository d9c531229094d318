"""Fusion of rankings: regression, linear fusion and quality re-ranking."""

from __future__ import annotations
