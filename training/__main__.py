"""Command line: `python -m training VERB`; tables go to stdout, words for people to stderr."""

from __future__ import annotations

if __name__ == "__main__":  # first of all: until then Ctrl-C ends in a traceback
    from submission.interrupted import hear

    hear()

import argparse
import sys

from submission import command
from submission.command import Verbs
from training.commands import judged, networks, runs, studies, tables


def main(arguments: list[str] | None = None) -> int:
    """Run a verb; the exit code."""
    return command.run(_parser(), arguments)


def _parser() -> argparse.ArgumentParser:
    verbs = Verbs("training", __doc__)
    for group in (tables, networks, judged, studies, runs):
        group.add(verbs)
    return verbs.parser


if __name__ == "__main__":
    sys.exit(main())
