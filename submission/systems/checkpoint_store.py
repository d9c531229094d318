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
NetworkT = TypeVar("NetworkT", bound=NetworkCheckpoint[Any, Any])


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
    """The checkpoints in a directory, each loaded once, on first use."""

    def __init__(self, directory: Path, precision: torch.dtype | None = None) -> None:
        """Open the store; `precision` is the CPU precision of its networks (None: float32)."""
        self.directory, self.precision = directory, precision
        self._memo = Memo()

    def has(self, name: str) -> bool:
        """Return whether a checkpoint of that name exists, intact or damaged."""
        recover_directory(self.directory / name)
        return (self.directory / name).is_dir()

    def load_config(self, name: str, config_type: type[T]) -> T:
        """Load a checkpoint that consists of its config.json."""
        return self._memo.get_or_compute(config_type.__name__, name, lambda: read_config(self.directory / name, config_type))

    def load_network(self, name: str, loader: Callable[[Path], NetworkT]) -> NetworkT:
        """Load a network with this store's precision."""
        network = self._memo.get_or_compute(loader, name, lambda: loader(self.directory / name))
        return with_precision(network, self.precision)
