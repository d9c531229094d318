"""Prepare training data: tables, word vectors, published data sets."""

from __future__ import annotations
