"""Prepare the tables and word vectors that networks are trained on."""

from __future__ import annotations
