"""Train, tune and evaluate checkpoints. Tables go to stdout, logs to stderr."""

import argparse
import sys
from types import TracebackType

from aragorn.paths import get_install_command

OWN_PACKAGES = ("aragorn", "aragorn_training")
MESSAGE = (
    "error: Python package {name} is not installed in {python}; install the packages for training "
    "with `{command}`, and activate their environment"
)


def report_missing_package(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    """Exit with code 2 and a message if a package is missing, else print the traceback."""
    package = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if not package or package in OWN_PACKAGES:
        sys.__excepthook__(kind, error, traceback)
        return
    command = get_install_command("training")
    print(MESSAGE.format(name=package, python=sys.executable, command=command), file=sys.stderr)
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
from aragorn.options import add_arguments, build_options
from aragorn_training.commands import COMMANDS, GROUPS, describe_command, load_command

TRAINING_EXIT_CODES = (
    f"{EXIT_CODES}; 7 training failed (non-finite loss or constant scores); "
    "8 metrics not reproduced"
)


def main(argv: list[str] | None = None) -> int:
    """Run the command in `argv` (None: sys.argv) and return its exit code."""
    arguments = sys.argv[1:] if argv is None else argv
    return cli.run_command(_build_parser(arguments), argv)


def _build_parser(arguments: list[str]) -> cli.ArgumentParser:
    """Build the parser, with options only of the command that the arguments start with."""
    parser = cli.ArgumentParser(
        prog="aragorn-training", description=__doc__, epilog=TRAINING_EXIT_CODES
    )
    parser.add_argument("--version", action="version", version=f"aragorn-training {__version__}")
    commands = cli.Commands(parser)
    groups: dict[str, cli.Commands] = {}
    for name, target in COMMANDS.items():
        group, _, last_word = name.rpartition(" ")
        if group and group not in groups:
            groups[group] = commands.add_group(group, *GROUPS[group])
        owner = groups.get(group, commands)
        description = describe_command(target)
        if arguments[: len(name.split())] == name.split():
            _add_command(owner, last_word, target, description)
        else:
            owner.add(last_word, lambda args: None, description)
    return commands.parser


def _add_command(commands: cli.Commands, name: str, target: str, description: str) -> None:
    function, options_type = load_command(target)

    def handle(args: argparse.Namespace) -> None:
        function(build_options(options_type, args))

    add_arguments(commands.add(name, handle, description), options_type)


def run() -> int:
    """Run the installed program `aragorn-training`."""
    signals.install_handlers()
    threads.limit_library_threads()
    sys.excepthook = report_missing_package
    return main()


if __name__ == "__main__":
    sys.exit(main())
