"""Run this Python with arguments and write its peak memory to a file: `python subprocess_runner.py FILE ARGUMENT …`.

Linux initialises the peak of a child with the memory of its parent, so the parent has to be small.
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
