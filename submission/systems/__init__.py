"""Retrieval systems, their stages, and their execution."""

from __future__ import annotations
