"""Readers of published data sets."""

from __future__ import annotations
