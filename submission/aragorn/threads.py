"""Count the CPU cores that this process may use, and compute in one thread where the system allows
few; without heavy imports, as the limit must be set before those.

If a library cannot start its threads, the process ends: OpenBLAS interrupts it, libgomp exits, and
the thread pool of the tokenisers panics.
"""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from math import ceil
from pathlib import Path, PurePosixPath
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
CGROUP_ROOT = Path("/sys/fs/cgroup")
CGROUPS_FILE = Path("/proc/self/cgroup")
# controllers (none: version 2), path
CPU_CGROUP = re.compile(r"^[0-9]+:(|[^:]*\bcpu\b[^:]*):/*(.*)$", re.MULTILINE)


def limit_library_threads() -> None:
    """Let libraries compute in one thread, and say so, if the system allows few threads."""
    if not _can_start(min(POOLS * len(os.sched_getaffinity(0)), MAX_PROBES)):
        os.environ.update(SETTINGS)
        sys.stderr.write(MESSAGE)


def _can_start(count: int) -> bool:
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


def count_cpu_cores() -> int:
    """Return the number of cores in the affinity, or of the tightest CPU quota of the cgroups."""
    if sys.platform == "linux":
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    return min([count, *_iter_quotas()])


def _iter_quotas() -> Iterator[int]:
    """Yield the CPU quotas, rounded up to cores, of the cgroups of this process, up to the root."""
    with suppress(OSError):  # not on Linux
        for controllers, path in CPU_CGROUP.findall(
            CGROUPS_FILE.read_text(encoding="utf-8", errors="replace")
        ):
            directory = "cpu" if controllers else ""
            files = ["cpu.cfs_quota_us", "cpu.cfs_period_us"] if controllers else ["cpu.max"]
            for cgroup in (PurePosixPath(path), *PurePosixPath(path).parents):
                # outside this mount, or without a quota ("max")
                with suppress(OSError, ValueError):
                    texts = [
                        (CGROUP_ROOT / directory / cgroup / file).read_text(encoding="utf-8")
                        for file in files
                    ]
                    quota, period = map(int, " ".join(texts).split())
                    if quota > 0:
                        yield ceil(quota / period)
