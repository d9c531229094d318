"""The part that makes checkpoints and measures runs, offline; it is not in the container."""

from __future__ import annotations
