"""Execution in this process or on a Ray cluster."""

from __future__ import annotations
