"""A slow computation of shards, in a separate module, which a worker of Ray imports quickly."""

import os
import time


def compute_slowly(folder, index):
    """Create a trace file named after the shard and the process id, and wait for 0.4 s."""
    (folder / f"{index}-{os.getpid()}").touch()
    time.sleep(0.4)
    return b"%d" % index * 1000
