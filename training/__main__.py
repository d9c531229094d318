"""Train, tune and evaluate the checkpoints. Tables go to stdout, logs to stderr."""

from __future__ import annotations

if __name__ == "__main__":  # before the slow imports, so that Ctrl-C during them exits cleanly
    from submission.signals import hear

    hear()

import argparse
import sys

from submission import cli
from submission.cli import Verbs
from training.cli import evaluate, fit, judged, prepare, study


def main(arguments: list[str] | None = None) -> int:
    """Parse the arguments, run the verb and return its exit code."""
    return cli.run(_parser(), arguments)


def _parser() -> argparse.ArgumentParser:
    verbs = Verbs.of("training", __doc__)
    for module in (prepare, fit, judged, study, evaluate):
        module.add(verbs)
    return verbs.parser


if __name__ == "__main__":
    sys.exit(main())
