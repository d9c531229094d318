"""Train, tune and evaluate checkpoints. Tables go to stdout, logs to stderr."""

if __name__ == "__main__":  # before slow imports, so that Ctrl-C never prints a traceback
    import sys

    from aragorn.signals import install_handlers

    from aragorn_training.missing_packages import report_missing_package

    install_handlers()
    # imports of packages follow, in this module and in the subcommands
    sys.excepthook = report_missing_package

import argparse
import sys

from aragorn import cli
from aragorn.errors import EXIT_CODES

from aragorn_training.cli import all as all_command
from aragorn_training.cli import evaluate, fit, fuse, prepare, study, tune

TRAINING_EXIT_CODES = f"{EXIT_CODES}; 7 training failed (non-finite loss or constant scores); 8 metrics not reproduced"


def main(argv: list[str] | None = None) -> int:
    """Run the subcommand in `argv` (None: sys.argv) and return its exit code."""
    return cli.run_command(_build_parser(), argv)


def _build_parser() -> argparse.ArgumentParser:
    commands = cli.Commands(
        argparse.ArgumentParser(
            prog="aragorn-training", description=__doc__, epilog=TRAINING_EXIT_CODES
        )
    )
    for module in (all_command, prepare, fit, tune, fuse, study, evaluate):
        module.add_parsers(commands)
    return commands.parser


if __name__ == "__main__":
    sys.exit(main())
