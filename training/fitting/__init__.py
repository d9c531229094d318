"""Train networks of any task: recipe, loop, state, checkpoint."""

from __future__ import annotations
