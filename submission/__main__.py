"""Command line: `python -m submission VERB`; results go to files, words for people to stderr."""

from __future__ import annotations

if __name__ == "__main__":  # first of all: until then Ctrl-C ends in a traceback
    from submission.interrupted import hear

    hear()

import argparse
import gc
import sys
from pathlib import Path

from submission import command
from submission.command import (
    Verbs,
    add_checkpoints,
    add_device,
    add_engine,
    add_input,
    add_input_run,
    add_precision,
    add_work,
    folder,
    from_environment,
    whole_number,
)


def main(arguments: list[str] | None = None) -> int:
    """Run a verb; the exit code."""
    return command.run(_parser(), arguments)


def _parser() -> argparse.ArgumentParser:
    verbs = Verbs.of("submission", __doc__)

    verb = verbs.add("rank", _rank, "write one run per system")
    add_input(verb)
    add_input_run(verb)
    output = from_environment(["outputDir", "TIRA_OUTPUT_DIR"], Path("runs"))
    verb.add_argument("-o", "--output", type=folder, default=output, metavar="DIR", help="directory for the runs")
    what = "repeatable; the first is the primary one (default: all whose checkpoints are there, fusion primary)"
    verb.add_argument("--system", action="append", default=[], metavar="NAME", dest="systems", help=what)
    verb.add_argument("--team", default="aragorn", help="run files and tags are named <team>-<system>")
    what = "documents a topic in a run, at most 1000 (default: 100, or as many as the list has that was handed over)"
    verb.add_argument("--depth", type=whole_number(1, 1000), metavar="N", help=what)
    add_device(verb)
    add_precision(verb)
    add_engine(verb)
    add_checkpoints(verb)
    what = "directory for finished parts, lists and indexes, from which a restarted execution resumes"
    verb.add_argument("--work", type=folder, metavar="DIR", help=f"{what} (default: a temporary directory)")
    verb.add_argument("--overwrite", action="store_true", help="replace the runs of another input, setting or version")

    verb = verbs.add("check", _check, "validate an input, the checkpoints and run files: all faults at once, no scoring")
    add_input(verb)
    add_checkpoints(verb)
    what = "repeatable; a run made from this input"
    verb.add_argument("--run", action="append", type=folder, default=[], metavar="FILE", dest="runs", help=what)
    verb.add_argument(
        "--differing", type=folder, metavar="FILE", help="write the ids there whose texts are not the judged ones"
    )

    verb = verbs.add("explain", _explain, "why a document has its score: the parts that sum to it")
    add_input(verb)
    add_input_run(verb)
    verb.add_argument("--system", required=True, metavar="NAME", help="whose score")
    verb.add_argument("--topic", required=True, metavar="N", help="the topic's number")
    verb.add_argument("--document", required=True, metavar="ID", help="the argument's id")
    add_work(verb)
    add_device(verb)
    add_precision(verb)
    add_checkpoints(verb)

    verb = verbs.add("search", _search, "answer a question, those of a prompt, or in a browser")
    verb.add_argument("question", nargs="?", help="in your own words (default: a prompt, until Ctrl-D)")
    add_input(verb)
    what = "repeatable; they answer side by side (default: fusion on a GPU, else the best that searches by the words alone)"
    verb.add_argument("--system", action="append", default=[], metavar="NAME", dest="systems", help=what)
    what = "arguments of each system that are shown"
    verb.add_argument("--depth", type=whole_number(1, 100), default=5, metavar="N", help=what)
    verb.add_argument("--explain", action="store_true", help="say in a line what each score is the sum of")
    verb.add_argument("--json", action="store_true", help="one JSON object an answer, for programs")
    what = "a page in the browser of this machine, on a port (default: 8040; 0 is any that is free)"
    verb.add_argument("--serve", type=whole_number(0, 65535), nargs="?", const=8040, metavar="PORT", help=what)
    what = "where indexes are kept, those of `rank --work` too (default: a temporary directory)"
    verb.add_argument("--work", type=folder, metavar="DIR", help=what)
    add_device(verb)
    add_precision(verb)
    add_checkpoints(verb)

    verb = verbs.add("systems", _systems, "list the systems, what each is, and whether its checkpoints are there")
    add_checkpoints(verb)
    return verbs.parser


# What a verb needs is imported when it is called: torch alone takes two seconds, and --help needs nothing.


def _rank(options: argparse.Namespace) -> None:
    gc.disable()
    from submission.rank import Job, rank

    gc.freeze()  # libraries' million objects are no garbage: looking through them again and again takes half a second
    gc.enable()
    rank(Job(**{name: value for name, value in vars(options).items() if name != "verb"}))


def _check(options: argparse.Namespace) -> None:
    from submission.check import check

    report = check(options.input, options.runs, options.checkpoints, options.differing)
    print("\n".join(report.lines))
    report.refuse_faults()


def _explain(options: argparse.Namespace) -> None:
    from submission.disk.work import Work
    from submission.explain import explain
    from submission.input.directory import Input
    from submission.scoring.device import choose_device, choose_precision
    from submission.systems.catalogue import find
    from submission.systems.execution import Execution
    from submission.systems.remembered import Checkpoints

    system, device = find(options.system), choose_device(options.device)
    checkpoints = Checkpoints(options.checkpoints, choose_precision(options.precision, device))
    source = Input(options.input, options.input_run, options.topic, options.order)
    with Work(options.work, Path()) as work:
        execution = Execution(source, checkpoints, device, work)
        print(explain(system, options.document, execution, sys.stdout.isatty()), end="")


def _search(options: argparse.Namespace) -> None:
    gc.disable()  # as in _rank
    from submission.search.command import Job, search

    gc.freeze()
    gc.enable()
    search(Job(**{name: value for name, value in vars(options).items() if name not in ("verb", "called")}))


def _systems(options: argparse.Namespace) -> None:
    from submission.systems.catalogue import SYSTEMS
    from submission.systems.remembered import Checkpoints

    checkpoints = Checkpoints(options.checkpoints)
    for system in SYSTEMS.values():
        missing = system.missing(checkpoints)
        state = f"no checkpoint {', '.join(missing)} in {checkpoints.directory}" if missing else "ready"
        print(f"{system.name:14} {state:14} {system.about}")
        formula = "" if missing else system.stage.formula(checkpoints)
        if formula:
            print(f"{'':14} {'':14} {formula}")


if __name__ == "__main__":
    sys.exit(main())
