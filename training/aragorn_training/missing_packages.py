"""Report a missing package, importing only the standard library."""

import sys
from types import TracebackType

OWN_PACKAGES = ("aragorn", "aragorn_training")
MESSAGE = (
    "error: Python package {name} is not installed in {python}; activate the environment with `. .venv/bin/activate`, "
    "and install the packages for training once with `pip install -e '.[training]'` in the project"
)


def report_missing_package(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    """Exit with code 2 and a message if a third-party package is missing, else print the traceback:
    a `sys.excepthook`."""
    package = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if not package or package in OWN_PACKAGES:
        sys.__excepthook__(kind, error, traceback)
        return
    print(MESSAGE.format(name=package, python=sys.executable), file=sys.stderr)
    raise SystemExit(2)
