"""First-stage retrieval."""

from __future__ import annotations
