"""Run this Python with some arguments, and write its peak memory to a file: `python alone.py FILE ARGUMENT …`.

Linux counts for a process what its parent had in memory when it started it: here next to nothing, in a benchmark a corpus.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

if __name__ == "__main__":
    file, *arguments = sys.argv[1:]
    process = os.posix_spawn(sys.executable, [sys.executable, *arguments], os.environ)
    _, status, usage = os.wait4(process, 0)
    Path(file).write_text(f"{usage.ru_maxrss * 1024}\n", encoding="utf-8")
    sys.exit(os.waitstatus_to_exitcode(status))
