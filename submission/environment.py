"""Print the path of a Python interpreter with all pinned requirements; create .venv if necessary.

    python3 submission/environment.py requirements.txt [FILE …]

Prints the running interpreter if it has all requirements (as in the container), else that of the
project's `.venv`, which is created or completed with the versions in requirements.lock. Messages go
to stderr. Imports only the standard library.
"""

import signal
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
VENV = PROJECT / ".venv"
LOCK = PROJECT / "requirements.lock"
MIN_PYTHON = (3, 11)
EXIT_NO_PIP = 100  # exit code if the environment has no pip


def find_missing_requirements(files: list[str]) -> list[str]:
    """Return the requirements (name==version) in the files that are not installed in exactly that
    version."""
    lines = [
        line.split("#")[0].strip()
        for file in files
        for line in Path(file).read_text(encoding="utf-8").splitlines()
    ]
    return [
        line
        for line in lines
        if line and _get_installed_version(line.split("==")[0]) != line.split("==")[1]
    ]


def _get_installed_version(name: str) -> str | None:
    try:
        # ignore local version labels: 2.13.0+cpu → 2.13.0
        return metadata.version(name).split("+")[0]
    except metadata.PackageNotFoundError:
        return None


def main(files: list[str]) -> int:
    """Print the path of an interpreter with all requirements in the files, creating `.venv` if
    necessary, and return 0.

    Returns 1 on failure, or EXIT_NO_PIP if this interpreter is that of a `.venv` without pip.
    """
    if sys.version_info < MIN_PYTHON:
        min_version = ".".join(map(str, MIN_PYTHON))
        print(
            f"error: this is Python {sys.version.split()[0]}; install Python {min_version} or later",
            file=sys.stderr,
        )
        return 1
    missing_requirements = find_missing_requirements(files)
    if not missing_requirements:
        print(sys.executable)
        return 0
    if Path(sys.prefix) == VENV:
        return _install(missing_requirements, files)
    venv_python = VENV / "bin" / "python"
    if venv_python.exists():
        exit_code = subprocess.run([str(venv_python), __file__, *files]).returncode
        if exit_code != EXIT_NO_PIP:
            return exit_code
    print(f"Creating {VENV}", file=sys.stderr)
    if subprocess.run(
        [sys.executable, "-m", "venv", "--clear", str(VENV)], stdout=sys.stderr
    ).returncode:
        print(
            f"error: {sys.executable} -m venv failed; install the venv module (package python3-venv)",
            file=sys.stderr,
        )
        return 1
    return subprocess.run([str(venv_python), __file__, *files]).returncode


def _install(missing_requirements: list[str], files: list[str]) -> int:
    """Install the missing requirements into this `.venv` and print its interpreter's path; return
    the exit code of `main`."""
    pip = [sys.executable, "-m", "pip"]
    if subprocess.run([*pip, "--version"], capture_output=True).returncode:
        return EXIT_NO_PIP
    print(f"Installing into {VENV}: {', '.join(missing_requirements)}", file=sys.stderr)
    requirement_args = [argument for file in files for argument in ("-r", file)]
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as constraints:
        constraints.write(_read_locked_requirements())
        constraints.flush()
        pip_install = [
            *pip,
            "install",
            "--disable-pip-version-check",
            "--quiet",
            *requirement_args,
            "-c",
            constraints.name,
        ]
        is_installed = subprocess.run(
            pip_install, stdout=sys.stderr
        ).returncode == 0 and not find_missing_requirements(files)
    if is_installed:
        print(sys.executable)
        return 0
    hint = f"see pip's output above, or delete {VENV} and try again"
    print(
        f"error: cannot install {', '.join(find_missing_requirements(files))} into {VENV}; {hint}",
        file=sys.stderr,
    )
    return 1


def _read_locked_requirements() -> str:
    """Return the requirements in requirements.lock without hashes; with hashes, pip would require
    them for every package."""
    lines = LOCK.read_text(encoding="utf-8").splitlines()
    return "".join(
        f"{line.split()[0]}\n" for line in lines if "==" in line and not line.startswith("#")
    )


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # exit on Ctrl-C without a traceback
    sys.exit(main(sys.argv[1:]))
