"""Measures, tests, tables and reports of runs."""

from __future__ import annotations
