"""How much room an execution's kept files will take, said before it starts."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterable
from pathlib import Path

from submission.errors import CheckpointError
from submission.systems.execution import Execution, Stage, walk

log = logging.getLogger(__name__)

DOCUMENTS = 1.0  # bytes for each byte of the corpus, as is said of the components
COMPRESSED = 3.0  # times that a compressed corpus grows


def say_room(execution: Execution, stages: Iterable[Stage], directory: Path) -> None:
    """Log how large the kept files of stages become, about; warn where the disk has no room for them.

    Args:
        execution: of the input.
        stages: what is going to be asked for.
        directory: of the kept files, some of which may be there.
    """
    corpus = sum(
        file.stat().st_size * (COMPRESSED if file.suffix == ".gz" else 1.0) for file in execution.input.form.corpus_files
    )
    most = corpus * expected(execution, stages)
    there = sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())
    free = shutil.disk_usage(directory).free
    log.info("%s: about %.0f MB at most; there now: %.0f MB, free: %.0f MB", directory, most / 1e6, there / 1e6, free / 1e6)
    if most > there + free:
        log.warning("that may be too little room: a full disk stops an execution; with --work it goes on once there is room")


def expected(execution: Execution, stages: Iterable[Stage]) -> float:
    """Return how many bytes are kept, at most at a time, for each byte of the corpus."""
    shares: dict[str, float] = {}
    for component in dict.fromkeys(part for stage in stages for part in walk(stage)):
        try:
            shares |= component.keeps(execution.checkpoints)
        except CheckpointError:  # said where it is needed
            continue
    most = max(shares.values(), default=0.0)  # while an index is put together, its parts are there too
    return DOCUMENTS + sum(shares.values()) + most
