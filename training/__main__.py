"""Train, tune and evaluate the checkpoints. Tables go to stdout, logs to stderr."""

from __future__ import annotations

if __name__ == "__main__":  # before the slow imports, so that Ctrl-C during them exits cleanly
    from submission.interrupted import hear

    hear()

import argparse
import sys

from submission import command
from submission.command import Verbs
from training.commands import judged, networks, prepare, runs, studies


def main(arguments: list[str] | None = None) -> int:
    """Parse the arguments, run the verb and return its exit code."""
    return command.run(_parser(), arguments)


def _parser() -> argparse.ArgumentParser:
    verbs = Verbs.of("training", __doc__)
    for module in (prepare, networks, judged, studies, runs):
        module.add(verbs)
    return verbs.parser


if __name__ == "__main__":
    sys.exit(main())
