"""Evaluate runs: measures, significance tests, tables and reports."""

from __future__ import annotations
