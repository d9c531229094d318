"""Command line: `python -m submission VERB`; results go to files, words for people to stderr."""

from __future__ import annotations

import argparse
from pathlib import Path

from submission import command, systems
from submission.check import check
from submission.command import add_checkpoints, add_input, add_input_run, from_environment
from submission.data import Data
from submission.device import choose_device
from submission.ensemble import NAME as ENSEMBLE
from submission.ensemble import open_ensemble
from submission.explain import explain
from submission.rank import Job, rank

EXIT_CODES = """exit codes: 0 done; 1 a mistake of the program; 2 usage; 3 input; 4 checkpoint; 5 output;
6 some systems failed, the others are written"""


def main(arguments: list[str] | None = None) -> int:
    """Run a verb; the exit code."""
    return command.run(_parser(), arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="submission", description=__doc__, epilog=EXIT_CODES)
    verbs = parser.add_subparsers(required=True, metavar="VERB")

    verb = verbs.add_parser("rank", help="write one run per system", epilog=EXIT_CODES,
                            formatter_class=argparse.ArgumentDefaultsHelpFormatter)  # fmt: skip
    add_input(verb)
    add_input_run(verb)
    verb.add_argument("-o", "--output", type=Path, default=from_environment(["outputDir", "TIRA_OUTPUT_DIR"], Path("runs")),
                      metavar="DIR", help="directory for the runs")  # fmt: skip
    verb.add_argument("--system", action="append", default=[], metavar="NAME", dest="systems",
                      help="repeatable; the first is the primary one (default: all present, knrm primary)")  # fmt: skip
    verb.add_argument("--team", default="aragorn", help="run files and tags are named <team>-<system>")
    verb.add_argument("--depth", type=_depth, default=100, metavar="N", help="documents a topic in a run, at most 1000")
    verb.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto", help="auto: the GPU if there is one")
    add_checkpoints(verb)
    verb.add_argument("--work", type=Path, metavar="DIR", help="where finished parts and SNRM's index are kept, so that a "
                      "restarted execution goes on where it stopped (default: a temporary directory)")  # fmt: skip
    verb.add_argument("--overwrite", action="store_true", help="replace the runs of another input, setting or version")
    verb.set_defaults(verb=_rank)

    verb = verbs.add_parser("check", help="all faults of an input, of the checkpoints and of run files; scores nothing",
                            epilog=EXIT_CODES, formatter_class=argparse.ArgumentDefaultsHelpFormatter)  # fmt: skip
    add_input(verb)
    add_checkpoints(verb)
    verb.add_argument("--run", action="append", type=Path, default=[], metavar="FILE", dest="runs",
                      help="repeatable; a run made from this input")  # fmt: skip
    verb.add_argument("--differing", type=Path, metavar="FILE", help="write the ids there whose texts are not the judged ones")
    verb.set_defaults(verb=_check)

    verb = verbs.add_parser("explain", help="why a document has its score: the parts that sum to it", epilog=EXIT_CODES,
                            formatter_class=argparse.ArgumentDefaultsHelpFormatter)  # fmt: skip
    add_input(verb)
    add_input_run(verb)
    verb.add_argument("--system", required=True, metavar="NAME", help="whose score")
    verb.add_argument("--topic", required=True, metavar="N", help="the topic's number")
    verb.add_argument("--document", required=True, metavar="ID", help="the argument's id")
    verb.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto", help="auto: the GPU if there is one")
    add_checkpoints(verb)
    verb.set_defaults(verb=_explain)

    verb = verbs.add_parser("systems", help="list the systems, what each is, and whether its checkpoint is there")
    add_checkpoints(verb)
    verb.set_defaults(verb=_systems)
    return parser


def _rank(options: argparse.Namespace) -> None:
    flags = {name: value for name, value in vars(options).items() if name != "verb"}
    rank(Job(**flags))


def _check(options: argparse.Namespace) -> None:
    check(options.input, options.runs, options.checkpoints, options.differing)


def _explain(options: argparse.Namespace) -> None:
    data, device = Data(options.input, options.input_run), choose_device(options.device)
    explain(options.system, options.topic, options.document, data, options.checkpoints, device)


def _systems(options: argparse.Namespace) -> None:
    for system in systems.all_systems(options.checkpoints):
        state = "ready" if system.present else f"no checkpoint at {system.checkpoint}"
        print(f"{system.name:14} {state:14} {system.description}")
        if system.name == ENSEMBLE and system.checkpoint and system.present:
            print(f"{'':14} {'':14} score = {open_ensemble(system.checkpoint).formula()}")


def _depth(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1000:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number from 1 to 1000")
    return int(text)


if __name__ == "__main__":
    command.program(main)
