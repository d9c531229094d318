"""Rank Touché topics over the args.me corpus and write TREC runs."""

from __future__ import annotations

if __name__ == "__main__":  # before slow imports, so that Ctrl-C never prints a traceback
    from submission.signals import hear

    hear()

import argparse
import sys
from pathlib import Path

from submission import cli
from submission.cli import (
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
from submission.timing import gc_paused


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit code."""
    return cli.run(_parser(), arguments)


def _parser() -> argparse.ArgumentParser:
    verbs = Verbs.of("submission", __doc__)

    verb = verbs.add("rank", _rank, "rank documents for all topics and write one TREC run per system")
    add_input(verb)
    add_input_run(verb)
    output = from_environment(["outputDir", "TIRA_OUTPUT_DIR"], Path("runs"))
    help_text = "output directory for runs and metadata"
    verb.add_argument("-o", "--output", type=folder, default=output, metavar="DIR", help=help_text)
    help_text = "system to run; repeatable. The first is also written as run.txt (default: all available, run.txt = fusion)"
    verb.add_argument("--system", action="append", default=[], metavar="NAME", dest="systems", help=help_text)
    verb.add_argument("--team", default="aragorn", metavar="TEAM", help="run tag prefix; files and tags are TEAM-SYSTEM")
    help_text = "maximum number of documents per topic, 1 to 1000 (default: 100, or the depth of the supplied ranking)"
    verb.add_argument("--depth", type=whole_number(1, 1000), metavar="N", help=help_text)
    add_device(verb)
    add_precision(verb)
    add_engine(verb)
    add_checkpoints(verb)
    help_text = "cache for indexes, rankings and scores; an interrupted run resumes from it (default: temporary directory)"
    verb.add_argument("--work", type=folder, metavar="DIR", help=help_text)
    verb.add_argument("--overwrite", action="store_true", help="overwrite runs made from other inputs, settings or code")

    verb = verbs.add("check", _check, "validate input, checkpoints and runs; report all errors; no ranking")
    add_input(verb)
    add_checkpoints(verb)
    help_text = "TREC run for this input to validate; repeatable"
    verb.add_argument("--run", action="append", type=folder, default=[], metavar="FILE", dest="runs", help=help_text)
    verb.add_argument(
        "--differing", type=folder, metavar="FILE", help="write the ids of documents whose text differs from args.me 2020-04-01"
    )

    verb = verbs.add("explain", _explain, "decompose a document's score for a topic")
    add_input(verb)
    add_input_run(verb)
    verb.add_argument("--system", required=True, metavar="NAME", help="system to explain")
    verb.add_argument("--topic", required=True, metavar="QID", help="topic id")
    verb.add_argument("--document", required=True, metavar="DOCNO", help="document id")
    add_work(verb)
    add_device(verb)
    add_precision(verb)
    add_checkpoints(verb)

    verb = verbs.add("search", _search, "search with one query, at a prompt, or in a web page")
    verb.add_argument("question", nargs="?", help="query text (default: read queries from a prompt; Ctrl-D ends)")
    add_input(verb)
    help_text = "system to search with; repeatable, results side by side (default: fusion on a GPU, else dirichlet)"
    verb.add_argument("--system", action="append", default=[], metavar="NAME", dest="systems", help=help_text)
    help_text = "number of results per system, 1 to 100"
    verb.add_argument("--depth", type=whole_number(1, 100), default=5, metavar="N", help=help_text)
    verb.add_argument("--explain", action="store_true", help="print the largest score contributions of each result")
    verb.add_argument("--json", action="store_true", help="print one JSON object per query")
    help_text = "start a local web page (default port: 8040; 0: any free port)"
    verb.add_argument("--serve", type=whole_number(0, 65535), nargs="?", const=8040, metavar="PORT", help=help_text)
    help_text = "cache directory, shared with rank (default: temporary directory)"
    verb.add_argument("--work", type=folder, metavar="DIR", help=help_text)
    add_device(verb)
    add_precision(verb)
    add_checkpoints(verb)

    verb = verbs.add("systems", _systems, "list systems with description and availability")
    add_checkpoints(verb)
    return verbs.parser


# Handlers import what they need: torch alone takes 2 s, and --help needs none of it.


def _rank(options: argparse.Namespace) -> None:
    with gc_paused(freeze=True):
        from submission.rank import Job, rank
    rank(Job(**{name: value for name, value in vars(options).items() if name != "verb"}))


def _check(options: argparse.Namespace) -> None:
    from submission.check import check

    report = check(options.input, options.runs, options.checkpoints, options.differing)
    print("\n".join(report.lines))
    report.refuse_faults()


def _explain(options: argparse.Namespace) -> None:
    from submission.data.dataset import Input
    from submission.explain import explain
    from submission.inference.device import choose_device, choose_precision
    from submission.storage.cache_directory import Work
    from submission.systems.catalogue import find
    from submission.systems.checkpoint_store import Checkpoints
    from submission.systems.execution import Execution

    system, device = find(options.system), choose_device(options.device)
    checkpoints = Checkpoints(options.checkpoints, choose_precision(options.precision, device))
    dataset = Input(options.input, options.input_run, options.topic, options.order)
    with Work(options.work, Path()) as work:
        execution = Execution(dataset, checkpoints, device, work)
        print(explain(system, options.document, execution, sys.stdout.isatty()), end="")


def _search(options: argparse.Namespace) -> None:
    with gc_paused(freeze=True):
        from submission.search.cli import Job, search
    search(Job(**{name: value for name, value in vars(options).items() if name not in ("verb", "called")}))


def _systems(options: argparse.Namespace) -> None:
    from submission.systems.catalogue import SYSTEMS
    from submission.systems.checkpoint_store import Checkpoints

    checkpoints = Checkpoints(options.checkpoints)
    for system in SYSTEMS.values():
        missing = system.missing(checkpoints)
        availability = f"missing checkpoint {', '.join(missing)} in {checkpoints.directory}" if missing else "ready"
        print(f"{system.name:14} {availability:14} {system.about}")
        formula = "" if missing else system.stage.formula(checkpoints)
        if formula:
            print(f"{'':14} {'':14} {formula}")


if __name__ == "__main__":
    sys.exit(main())
