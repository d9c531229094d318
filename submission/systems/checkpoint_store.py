"""Store of loaded checkpoints, and an in-memory cache of results and errors."""

from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any, TypeVar, cast

import torch

from submission.inference.checkpoint_io import NetworkCheckpoint, with_precision
from submission.storage.atomic_files import recover_directory
from submission.storage.checkpoint_directory import read_config

T = TypeVar("T")
NetworkT = TypeVar("NetworkT", bound=NetworkCheckpoint[Any, Any])


class Memo:
    """An in-memory cache of results and errors, by owner and name."""

    def __init__(self) -> None:
        self._outcomes: dict[Hashable, tuple[Any, Exception | None]] = {}

    def get_or_compute(self, owner: Hashable, name: str, compute: Callable[[], T]) -> T:
        """Return the result of the first call of `compute`, or raise its error."""
        if (owner, name) not in self._outcomes:
            try:
                self._outcomes[owner, name] = compute(), None
            except Exception as exception:
                self._outcomes[owner, name] = None, exception
        result, error = self._outcomes[owner, name]
        if error is not None:
            raise error
        return cast(T, result)


class CheckpointStore:
    """The checkpoints in a directory; each is loaded once, on first use."""

    def __init__(self, directory: Path, precision: torch.dtype | None = None) -> None:
        """Open the store; `precision` is the precision of its networks on the CPU (None: float32)."""
        self.directory, self.precision = directory, precision
        self._memo = Memo()

    def has(self, name: str) -> bool:
        """Return whether a checkpoint of that name exists, intact or damaged."""
        recover_directory(self.directory / name)
        return (self.directory / name).is_dir()

    def load_config(self, name: str, config_type: type[T]) -> T:
        """Load a checkpoint that consists of a config.json only."""
        return self._memo.get_or_compute(config_type.__name__, name, lambda: read_config(self.directory / name, config_type))

    def load_network(self, name: str, loader: Callable[[Path], NetworkT]) -> NetworkT:
        """Load a network and convert it to the precision of this store."""
        network = self._memo.get_or_compute(loader, name, lambda: loader(self.directory / name))
        return with_precision(network, self.precision)
