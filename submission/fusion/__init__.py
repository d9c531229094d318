"""Fusion of rankings."""

from __future__ import annotations
