"""Read argument-quality data sets and train rankers listwise on them."""

from __future__ import annotations
