"""Count the CPU cores that this process may use."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from math import ceil
from pathlib import Path, PurePosixPath

CGROUP_ROOT = Path("/sys/fs/cgroup")
CGROUPS_FILE = Path("/proc/self/cgroup")
# controllers (none: version 2), path
CPU_CGROUP = re.compile(r"^[0-9]+:(|[^:]*\bcpu\b[^:]*):/*(.*)$", re.MULTILINE)


def count_cpu_cores() -> int:
    """Return the number of cores in the affinity of this process, or the tightest CPU quota of its
    cgroups if that is lower."""
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
            directory, files = (
                ("cpu", ["cpu.cfs_quota_us", "cpu.cfs_period_us"])
                if controllers
                else ("", ["cpu.max"])
            )
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
