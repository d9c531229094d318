"""Command line: `python -m training VERB`; tables go to stdout, words for people to stderr."""

from __future__ import annotations

if __name__ == "__main__":  # first of all: until then Ctrl-C ends in a traceback
    from submission.interrupted import hear

    hear()

import argparse
import sys

from submission import command
from submission.command import Verbs
from training.commands import judged, networks, prepare, runs, studies

RENAMED = {  # earlier forms of verbs
    "prepare-passages": "prepare passages -i INPUT --work WORK",
    "prepare-quality": "prepare lists -i DIR --work WORK",
    "prepare-tagging": "prepare tags -i DIR --work WORK",
    "prepare-distilled": "prepare distilled -i INPUT --work WORK",
    "embed": "prepare vectors --work WORK",
    "aggregate": "fuse ensemble --work WORK",
    "tune-quality": "tune SYSTEM --qrels FILE --work WORK",
    "compare-enrichments": "study enrichments NAME … --qrels FILE --work WORK",
    "lengths": "study lengths TAGGER … --work WORK",
    "augment": "study augmented-sbert -i DIR --work WORK",
    "students": "study students --work WORK",
    "evaluate-quality": "study argument-quality --work WORK",
}


def main(arguments: list[str] | None = None) -> int:
    """Run a verb and return the exit code."""
    given, parser = sys.argv[1:] if arguments is None else arguments, _parser()
    if given and given[0] in RENAMED:
        parser.error(f"{given[0]} has another form: `python -m training {RENAMED[given[0]]}`")
    if given[:1] == ["prepare"] and given[1:2] in (["-i"], ["--input"], ["-o"], ["--output"], ["--work"]):
        parser.error("prepare has another form: `python -m training prepare pairs -i INPUT --work WORK`")
    return command.run(parser, arguments)


def _parser() -> argparse.ArgumentParser:
    verbs = Verbs.of("training", __doc__)
    for group in (prepare, networks, judged, studies, runs):
        group.add(verbs)
    return verbs.parser


if __name__ == "__main__":
    sys.exit(main())
