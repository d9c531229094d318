"""Train, tune and evaluate checkpoints. Tables go to stdout, logs to stderr."""

import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any

OWN_PACKAGES = ("aragorn", "aragorn_training")
MESSAGE = (
    "error: Python package {name} is not installed in {python}; activate the environment with `. "
    ".venv/bin/activate`, "
    "and install the packages for training once with `pip install -e '.[training]'` in the project"
)


def report_missing_package(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    """Exit with code 2 and a message if a package is missing, else print the traceback."""
    package = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if not package or package in OWN_PACKAGES:
        sys.__excepthook__(kind, error, traceback)
        return
    print(MESSAGE.format(name=package, python=sys.executable), file=sys.stderr)
    raise SystemExit(2)


if __name__ == "__main__":  # before slow imports, so that Ctrl-C never prints a traceback
    from aragorn.signals import install_handlers
    from aragorn.threads import limit_library_threads

    install_handlers()
    limit_library_threads()
    # imports of packages follow, in this module and in the subcommands
    sys.excepthook = report_missing_package

from aragorn import __version__, cli, signals, threads
from aragorn.errors import EXIT_CODES
from aragorn_training.commands import all as all_command
from aragorn_training.commands import evaluate, fit, prepare, study
from aragorn_training.options import add_command

TRAINING_EXIT_CODES = (
    f"{EXIT_CODES}; 7 training failed (non-finite loss or constant scores); "
    "8 metrics not reproduced"
)
COMMANDS: dict[str, Callable[[Any], None]] = {
    "fit": fit.fit_recipe,
    "tune": fit.tune,
    "fuse": fit.fuse,
    "evaluate": evaluate.evaluate,
    "compare": evaluate.compare,
    "overlap": evaluate.overlap,
    "report": evaluate.report,
    "docs": evaluate.docs,
}


def main(argv: list[str] | None = None) -> int:
    """Run the command in `argv` (None: sys.argv) and return its exit code."""
    arguments = sys.argv[1:] if argv is None else argv
    selected_study = arguments[1] if arguments[:1] == ["study"] and len(arguments) > 1 else ""
    return cli.run_command(_build_parser(selected_study), argv)


def _build_parser(selected_study: str) -> cli.ArgumentParser:
    parser = cli.ArgumentParser(
        prog="aragorn-training", description=__doc__, epilog=TRAINING_EXIT_CODES
    )
    parser.add_argument("--version", action="version", version=f"aragorn-training {__version__}")
    commands = cli.Commands(parser)
    all_command.add_all(commands)
    kinds = commands.add_group("prepare", "build training data in a working directory", "KIND")
    for name, run in prepare.KINDS.items():
        add_command(kinds, name, run)
    for name, command in COMMANDS.items():
        add_command(commands, name, command)
    study.add_studies(commands, selected_study)
    return commands.parser


def run() -> int:
    """Run the installed program `aragorn-training`."""
    signals.install_handlers()
    threads.limit_library_threads()
    sys.excepthook = report_missing_package
    return main()


if __name__ == "__main__":
    sys.exit(main())
