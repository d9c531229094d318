"""Open the execution of a command."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aragorn.cache import open_cache
from aragorn.engine.device import choose_device, choose_precision
from aragorn.io.dataset import Dataset
from aragorn.systems.execution import CheckpointStore, Execution


@contextmanager
def open_execution(options: Any, cache_dir: Path | None, output_dir: Path) -> Iterator[Execution]:
    """Open an execution on the input of a command.

    Args:
        options: Options of the command: `inputs`, `checkpoint_dir`, `device` and, if it has them,
            `input_run`, `order` and `precision`.
        cache_dir: Cache; None: a temporary directory.
        output_dir: Parent of the temporary directory if the system provides none.
    """
    dataset = Dataset(
        *options.inputs,
        input_run=getattr(options, "input_run", None),
        order=getattr(options, "order", "auto"),
    )
    device = choose_device(options.device)
    precision = choose_precision(getattr(options, "precision", "float32"), device)
    checkpoints = CheckpointStore(options.checkpoint_dir, precision)
    with open_cache(cache_dir, output_dir) as cache:
        yield Execution(dataset, checkpoints, device, cache)
