"""Tune parameters on judged topics."""

from __future__ import annotations
