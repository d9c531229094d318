"""Memory of a process: results, failures too, and checkpoints, each opened once."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any, TypeVar

import torch

from submission.scoring.stored import Opened, in_precision

T = TypeVar("T")
S = TypeVar("S", bound=Opened)


class Remembered:
    """A memory of results by owner and name; a failure is raised again."""

    def __init__(self) -> None:
        self._made: dict[Hashable, Any] = {}
        self._failed: dict[Hashable, Exception] = {}

    def once(self, owner: Hashable, name: str, make: Callable[[], T]) -> T:
        """Return, or raise, the result of the first call of `make`."""
        key = owner, name
        if key in self._failed:
            raise self._failed[key]
        if key not in self._made:
            try:
                self._made[key] = make()
            except Exception as error:
                self._failed[key] = error
                raise
        made: T = self._made[key]
        return made


class Checkpoints:
    """The checkpoints of a directory."""

    def __init__(self, directory: Path, precision: torch.dtype | None = None) -> None:
        """Nothing is opened before it is asked for; networks compute on a CPU in a precision, None: float32."""
        self.directory, self.precision = directory, precision
        self._remembered = Remembered()

    def has(self, name: str) -> bool:
        """Tell whether there is a checkpoint of that name, damaged or not."""
        return (self.directory / name).is_dir()

    def opened(self, name: str, how: Callable[[Path], T]) -> T:
        """Open a checkpoint by a function of its directory, once for each name and function."""
        return self._remembered.once(how, name, lambda: how(self.directory / name))

    def network(self, name: str, how: Callable[[Path], S]) -> S:
        """The same of a network, which computes in the precision of these checkpoints."""
        return in_precision(self.opened(name, how), self.precision)
