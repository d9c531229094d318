"""Run files, their directory, and what is told of them."""

from __future__ import annotations
