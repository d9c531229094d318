"""Store of loaded checkpoints, and the memo that remembers results and failures within a process."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any, TypeVar

import torch

from submission.inference.checkpoint_io import NetworkCheckpoint, with_precision
from submission.storage.atomic_files import recover_directory
from submission.storage.checkpoint_directory import read_config

T = TypeVar("T")
S = TypeVar("S", bound=NetworkCheckpoint[Any, Any])


class Memo:
    """A memo of results by owner and name that re-raises failures."""

    def __init__(self) -> None:
        self._results: dict[Hashable, Any] = {}
        self._errors: dict[Hashable, Exception] = {}

    def get_or_compute(self, owner: Hashable, name: str, compute: Callable[[], T]) -> T:
        """Return, or re-raise, the outcome of the first call of `compute`."""
        key = owner, name
        if key in self._errors:
            raise self._errors[key]
        if key not in self._results:
            try:
                self._results[key] = compute()
            except Exception as error:
                self._errors[key] = error
                raise
        result: T = self._results[key]
        return result


class CheckpointStore:
    """The checkpoints in a directory, each loaded once."""

    def __init__(self, directory: Path, precision: torch.dtype | None = None) -> None:
        """Create the store; checkpoints are loaded on first use.

        Args:
            directory: holds one directory per checkpoint.
            precision: CPU precision of networks; None: float32.
        """
        self.directory, self.precision = directory, precision
        self._remembered = Memo()

    def has(self, name: str) -> bool:
        """Return whether a checkpoint of that name exists, intact or damaged."""
        recover_directory(self.directory / name)
        return (self.directory / name).is_dir()

    def load(self, name: str, loader: Callable[[Path], T]) -> T:
        """Load a checkpoint, once per name and loader."""
        return self._remembered.get_or_compute(loader, name, lambda: loader(self.directory / name))

    def load_config(self, name: str, kind: type[T]) -> T:
        """Load a checkpoint that consists of its config.json, once per name and type. Raises CheckpointError."""
        return self._remembered.get_or_compute(kind.__name__, name, lambda: read_config(self.directory / name, kind))

    def load_network(self, name: str, loader: Callable[[Path], S]) -> S:
        """Load a network with this store's precision."""
        return with_precision(self.load(name, loader), self.precision)
