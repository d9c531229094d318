"""Prepare passages for DeepCT and measure term weights (Hollatz 2022, 3.2)."""

from __future__ import annotations
