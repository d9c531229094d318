"""Train sentence-transformers teachers and students (Augmented SBERT, Thakur et al. 2021)."""

from __future__ import annotations
