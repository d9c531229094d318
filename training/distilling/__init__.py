"""Prepare the scores of a teacher system for debate titles."""

from __future__ import annotations
