"""Augmented SBERT (Thakur et al. 2021): a cross-encoder labels more pairs for a bi-encoder; on the paper's data."""

from __future__ import annotations
