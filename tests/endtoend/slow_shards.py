"""A slow computation of shards, in a separate module, which a worker of Ray imports quickly."""

import os
import time
from pathlib import Path


def compute_slowly(folder: Path, index: int) -> bytes:
    """Create a trace file named after the shard and the process id, wait for 0.4 s, and return the
    shard's bytes."""
    (folder / f"{index}-{os.getpid()}").touch()
    time.sleep(0.4)
    return b"%d" % index * 1000
