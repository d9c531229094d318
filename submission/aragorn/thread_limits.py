"""Compute in one thread where the system allows few, importing only light modules.

If a library cannot start its threads, the process ends: OpenBLAS interrupts it, libgomp exits, and
the thread pool of the tokenisers panics.
"""

import os
import sys
from threading import Event, Thread

# of OpenBLAS in NumPy and in SciPy, torch, its batches and the tokenisers, which start as many
# threads as there are cores, each
POOLS = 5
MAX_PROBES = 100  # starting more takes too long
SETTINGS = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "RAYON_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
MESSAGE = "few threads are allowed (ulimit -u, docker --pids-limit); computing in one thread\n"


def limit_library_threads() -> None:
    """Let the libraries that are imported from now on compute in one thread, and say so, if the
    system allows fewer threads than they start."""
    if not _can_start(min(POOLS * len(os.sched_getaffinity(0)), MAX_PROBES)):
        os.environ.update(SETTINGS)
        sys.stderr.write(MESSAGE)


def _can_start(count: int) -> bool:
    """Return whether `count` threads can run at the same time."""
    end = Event()
    threads = []
    try:
        for _ in range(count):
            thread = Thread(target=end.wait)
            thread.start()
            threads.append(thread)
    except RuntimeError:
        return False
    finally:
        end.set()
        for thread in threads:
            thread.join()
    return True
