"""Which systems answer where none is named."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from submission.systems import catalogue
from submission.systems.catalogue import System, find
from submission.systems.remembered import Checkpoints

BY_WORDS = "dirichlet"  # of those that search by the texts' own words, the best by Touché's measure (README, Results)


def chosen(names: Sequence[str], checkpoints: Checkpoints, device: torch.device) -> tuple[list[System], str]:
    """The systems of those names, each once; or a default one, and why it is that. Raises UsageError: an unknown name."""
    if names:
        return [find(name) for name in dict.fromkeys(names)], ""
    primary = find(catalogue.PRIMARY_SYSTEM)
    if device.type == "cuda" and not primary.missing(checkpoints):
        return [primary], f"asking {primary.name}, the primary system; --system NAME asks another"
    why = f"{primary.name} takes seconds a question without a GPU"
    return [find(BY_WORDS)], f"asking {BY_WORDS}, the best that searches by the words alone: {why}; --system NAME asks another"
