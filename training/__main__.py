"""Train, tune and evaluate the checkpoints. Tables go to stdout, logs to stderr."""

from __future__ import annotations

if __name__ == "__main__":  # before the slow imports, so that Ctrl-C during them exits cleanly
    from submission.signals import install_handlers

    install_handlers()

import argparse
import sys

from submission import cli
from submission.cli import Commands
from training.cli import evaluate, fit, judged, prepare, study


def main(argv: list[str] | None = None) -> int:
    """Parse the arguments, run the verb and return its exit code."""
    return cli.run_command(_build_parser(), argv)


def _build_parser() -> argparse.ArgumentParser:
    commands = Commands.of("training", __doc__)
    for module in (prepare, fit, judged, study, evaluate):
        module.add_parsers(commands)
    return commands.parser


if __name__ == "__main__":
    sys.exit(main())
