"""The interface of engines, and the engine that is always there: this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

import torch

P = TypeVar("P")  # a part
R = TypeVar("R")  # what is computed of it
CPU = torch.device("cpu")


class Engine(Protocol):
    """Applies a function to parts. Results are bit-identical for any engine and worker count, as parts are cut before."""

    about: str  # what it is, for people
    shared: bool  # whether workers read and write the working directory, so that texts and results need not travel

    @property
    def has_gpu(self) -> bool:
        """Whether it can compute on a GPU."""

    def workers(self, device: torch.device) -> int:
        """Return how many parts are computed at a time, at the moment."""

    def map(self, function: Callable[[P], R], parts: Iterable[tuple[int, P]], device: torch.device) -> Iterator[tuple[int, R]]:
        """Compute a function of numbered parts; yield numbers and results in any order.

        Args:
            function: pickled where another process computes it; a checkpoint in it travels as its place and is opened there.
            parts: each is asked for when it can be handed out, so that few of them are in memory.
            device: what a part occupies while it is computed: a GPU or, on the CPU, a processor.

        Raises:
            What the function raises.
        """


class Here(Engine):
    """This process: one part after the other, in their order."""

    about, shared = "this process", False

    @property
    def has_gpu(self) -> bool:
        return torch.cuda.is_available()

    def workers(self, device: torch.device) -> int:
        return 1

    def map(self, function: Callable[[P], R], parts: Iterable[tuple[int, P]], device: torch.device) -> Iterator[tuple[int, R]]:
        for number, part in parts:
            yield number, function(part)


HERE = Here()


def computed(engine: Engine, function: Callable[[P], R], part: P, device: torch.device) -> R:
    """Compute a function of a single part where the engine computes."""
    [(_, result)] = engine.map(function, [(0, part)], device)
    return result
