"""The part that the container runs: topics and corpus in, one TREC run per system out."""

from __future__ import annotations

__version__ = "1.1.0"
