"""Run Python and write its peak memory in bytes to a file: `python subprocess_runner.py FILE ARGUMENT …`.

On Linux, the peak memory of a child is at least that of its parent, so this parent imports nothing large.
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
