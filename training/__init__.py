"""Train checkpoints and evaluate runs offline; not part of the container image."""

from __future__ import annotations
