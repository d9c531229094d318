"""Find or make a Python that has what requirements files pin, and print its path. Standard library only.

    python3 submission/environment.py requirements.txt [MORE …]

If the Python that runs this has everything (as in the container) it is that one, else `.venv` beside this package, which is
made or completed when needed. Words for people go to stderr.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from importlib import metadata
from pathlib import Path

VENV = Path(__file__).resolve().parent.parent / ".venv"
OLDEST = (3, 11)
BROKEN = 100  # the exit code of an environment without pip


def missing(files: list[str]) -> list[str]:
    """The pinned requirements (name==version) of files that this Python does not have."""
    lines = [line.split("#")[0].strip() for file in files for line in Path(file).read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if line and _version(line.split("==")[0]) != line.split("==")[1]]


def _version(name: str) -> str | None:
    try:
        return metadata.version(name).split("+")[0]  # 2.13.0+cpu is 2.13.0
    except metadata.PackageNotFoundError:
        return None


def main(files: list[str]) -> int:
    """Print the interpreter's path; 0, or 1 if there is none with all requirements."""
    if sys.version_info < OLDEST:
        print(
            f"error: Python {'.'.join(map(str, OLDEST))} or newer is needed, this is {sys.version.split()[0]}",
            file=sys.stderr,
        )
        return 1
    absent = missing(files)
    if not absent:
        print(sys.executable)
        return 0
    if Path(sys.prefix) == VENV:
        return _install(absent, files)
    python = VENV / "bin" / "python"
    if python.exists():
        code = subprocess.run([str(python), __file__, *files]).returncode
        if code != BROKEN:
            return code
    print(f"making {VENV}", file=sys.stderr)
    if subprocess.run([sys.executable, "-m", "venv", "--clear", str(VENV)], stdout=sys.stderr).returncode:
        print(f"error: {sys.executable} -m venv failed; install Python's venv module (python3-venv)", file=sys.stderr)
        return 1
    return subprocess.run([str(python), __file__, *files]).returncode


def _install(absent: list[str], files: list[str]) -> int:
    """Install what is absent into this environment, and print its Python's path."""
    pip = [sys.executable, "-m", "pip"]
    if subprocess.run([*pip, "--version"], capture_output=True).returncode:
        return BROKEN
    print(f"installing into {VENV}: {', '.join(absent)}", file=sys.stderr)
    more = [word for file in files for word in ("-r", file)]
    command = [*pip, "install", "--disable-pip-version-check", "--quiet", *more]
    if subprocess.run(command, stdout=sys.stderr).returncode == 0 and not missing(files):
        print(sys.executable)
        return 0
    words = "see pip's words above; if the environment itself is broken, remove it and try again"
    print(f"error: could not install {', '.join(missing(files))} into {VENV}; {words}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it, without a traceback
    sys.exit(main(sys.argv[1:]))
