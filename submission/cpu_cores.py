"""Count the CPU cores that this process may use."""

from collections.abc import Iterator
from math import ceil
from pathlib import Path, PurePosixPath

from joblib import cpu_count

CGROUP_ROOT, CGROUPS_FILE = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
QUOTA_FILES_V1, QUOTA_FILES_V2 = ("cpu.cfs_quota_us", "cpu.cfs_period_us"), ("cpu.max",)


def count_cpu_cores() -> int:
    """Return the number of cores in the affinity of this process, or the tightest CPU quota of its cgroups if that is lower."""
    core_count: int = cpu_count()  # reads the quota of the root cgroup only
    return min([core_count, *_iter_quotas()])


def _iter_quotas() -> Iterator[int]:
    """Yield the CPU quotas, rounded up to cores, of the cgroups of this process (version 1 or 2), up to the root."""
    try:
        lines = CGROUPS_FILE.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:  # not on Linux
        return
    for _, controllers, path in (line.split(":", 2) for line in lines):
        if controllers and "cpu" not in controllers.split(","):
            continue
        mount, files = (CGROUP_ROOT / "cpu", QUOTA_FILES_V1) if controllers else (CGROUP_ROOT, QUOTA_FILES_V2)
        cgroup = PurePosixPath(path.lstrip("/"))
        for ancestor in (cgroup, *cgroup.parents):
            try:
                quota, period = " ".join((mount / ancestor / file).read_text(encoding="utf-8") for file in files).split()
                if int(quota) > 0:
                    yield ceil(int(quota) / int(period))
            except (OSError, ValueError):  # outside this mount, or without a quota ("max")
                continue
