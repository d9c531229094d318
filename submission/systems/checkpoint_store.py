"""Store of loaded checkpoints, and the memo that remembers results and failures within a process."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any, TypeVar

import torch

from submission.inference.checkpoint_io import LoadedNetwork, in_precision
from submission.storage.atomic_files import restore_directory
from submission.storage.checkpoint_directory import read_config

T = TypeVar("T")
S = TypeVar("S", bound=LoadedNetwork)


class Remembered:
    """A memo of results by owner and name that re-raises failures."""

    def __init__(self) -> None:
        self._made: dict[Hashable, Any] = {}
        self._failed: dict[Hashable, Exception] = {}

    def once(self, owner: Hashable, name: str, make: Callable[[], T]) -> T:
        """Return, or re-raise, the outcome of the first call of `make`."""
        key = owner, name
        if key in self._failed:
            raise self._failed[key]
        if key not in self._made:
            try:
                self._made[key] = make()
            except Exception as error:
                self._failed[key] = error
                raise
        result: T = self._made[key]
        return result


class Checkpoints:
    """The checkpoints in a directory, each loaded once."""

    def __init__(self, directory: Path, precision: torch.dtype | None = None) -> None:
        """Create the store; checkpoints are loaded on first use.

        Args:
            directory: holds one directory per checkpoint.
            precision: CPU precision of networks; None: float32.
        """
        self.directory, self.precision = directory, precision
        self._remembered = Remembered()

    def has(self, name: str) -> bool:
        """Return whether a checkpoint of that name exists, intact or damaged."""
        restore_directory(self.directory / name)
        return (self.directory / name).is_dir()

    def opened(self, name: str, how: Callable[[Path], T]) -> T:
        """Load a checkpoint, once per name and loader."""
        return self._remembered.once(how, name, lambda: how(self.directory / name))

    def load_config(self, name: str, kind: type[T]) -> T:
        """Load a checkpoint that consists of its config.json, once per name and type. Raises CheckpointError."""
        return self._remembered.once(kind.__name__, name, lambda: read_config(self.directory / name, kind))

    def network(self, name: str, how: Callable[[Path], S]) -> S:
        """Load a network with this store's precision."""
        return in_precision(self.opened(name, how), self.precision)
