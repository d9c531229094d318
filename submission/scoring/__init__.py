"""Pairs of texts → scores, by a network of a checkpoint."""

from __future__ import annotations
