"""Rank Touché topics over the args.me corpus and write TREC runs."""

from __future__ import annotations

if __name__ == "__main__":  # before slow imports, so that Ctrl-C never prints a traceback
    from submission.signals import install_handlers

    install_handlers()

import argparse
import sys
from pathlib import Path

from submission import cli
from submission.cli import (
    Commands,
    add_cache_dir,
    add_checkpoints,
    add_device,
    add_engine,
    add_input,
    add_input_run,
    add_precision,
    integer_between,
    path_argument,
    path_from_environment,
)
from submission.timing import gc_paused


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit code."""
    return cli.run_command(_build_parser(), arguments)


def _build_parser() -> argparse.ArgumentParser:
    verbs = Commands.of("submission", __doc__)

    verb = verbs.add("rank", _rank, "rank documents for all topics and write one TREC run per system")
    add_input(verb)
    add_input_run(verb)
    output = path_from_environment(["outputDir", "TIRA_OUTPUT_DIR"], Path("runs"))
    help_text = "output directory for runs and metadata"
    verb.add_argument("-o", "--output", dest="output_dir", type=path_argument, default=output, metavar="DIR", help=help_text)
    help_text = "system to run; repeatable. The first is also written as run.txt (default: all available, run.txt = fusion)"
    verb.add_argument("--system", action="append", default=[], metavar="NAME", dest="systems", help=help_text)
    verb.add_argument("--team", default="aragorn", metavar="TEAM", help="run tag prefix; files and tags are TEAM-SYSTEM")
    help_text = "maximum number of documents per topic, 1 to 1000 (default: 100, or the depth of the supplied ranking)"
    verb.add_argument("--depth", type=integer_between(1, 1000), metavar="N", help=help_text)
    add_device(verb)
    add_precision(verb)
    add_engine(verb)
    add_checkpoints(verb)
    help_text = "cache for indexes, rankings and scores; an interrupted run resumes from it (default: temporary directory)"
    verb.add_argument("--work", dest="cache_dir", type=path_argument, metavar="DIR", help=help_text)
    verb.add_argument("--overwrite", action="store_true", help="overwrite runs made from other inputs, settings or code")

    verb = verbs.add("check", _check, "validate input, checkpoints and runs; report all errors; no ranking")
    add_input(verb)
    add_checkpoints(verb)
    help_text = "TREC run for this input to validate; repeatable"
    verb.add_argument("--run", action="append", type=path_argument, default=[], metavar="FILE", dest="runs", help=help_text)
    verb.add_argument(
        "--differing",
        type=path_argument,
        metavar="FILE",
        help="write the ids of documents whose text differs from args.me 2020-04-01",
    )

    verb = verbs.add("explain", _explain, "decompose a document's score for a topic")
    add_input(verb)
    add_input_run(verb)
    verb.add_argument("--system", required=True, metavar="NAME", help="system to explain")
    verb.add_argument("--topic", required=True, metavar="QID", help="topic id")
    verb.add_argument("--document", required=True, metavar="DOCNO", help="document id")
    add_cache_dir(verb)
    add_device(verb)
    add_precision(verb)
    add_checkpoints(verb)

    verb = verbs.add("search", _search, "search with one query, at a prompt, or in a web page")
    verb.add_argument("question", nargs="?", help="query text (default: read queries from a prompt; Ctrl-D ends)")
    add_input(verb)
    help_text = "system to search with; repeatable, results side by side (default: fusion on a GPU, else dirichlet)"
    verb.add_argument("--system", action="append", default=[], metavar="NAME", dest="systems", help=help_text)
    help_text = "number of results per system, 1 to 100"
    verb.add_argument("--depth", type=integer_between(1, 100), default=5, metavar="N", help=help_text)
    verb.add_argument("--explain", action="store_true", help="print the largest score contributions of each result")
    verb.add_argument("--json", action="store_true", help="print one JSON object per query")
    help_text = "start a local web page (default port: 8040; 0: any free port)"
    verb.add_argument("--serve", type=integer_between(0, 65535), nargs="?", const=8040, metavar="PORT", help=help_text)
    help_text = "cache directory, shared with rank (default: temporary directory)"
    verb.add_argument("--work", dest="cache_dir", type=path_argument, metavar="DIR", help=help_text)
    add_device(verb)
    add_precision(verb)
    add_checkpoints(verb)

    verb = verbs.add("systems", _systems, "list systems with description and availability")
    add_checkpoints(verb)
    return verbs.parser


# Handlers import what they need: torch alone takes 2 s, and --help needs none of it.


def _rank(args: argparse.Namespace) -> None:
    with gc_paused(freeze=True):
        from submission.rank import RankOptions, rank
    rank(RankOptions(**{name: value for name, value in vars(args).items() if name != "handler"}))


def _check(args: argparse.Namespace) -> None:
    from submission.check import check

    report = check(args.input_dir, args.runs, args.checkpoint_dir, args.differing)
    print("\n".join(report.lines))
    report.raise_if_errors()


def _explain(args: argparse.Namespace) -> None:
    from submission.data.dataset import Dataset
    from submission.explain import explain
    from submission.inference.device import choose_device, choose_precision
    from submission.storage.cache_directory import CacheDirectory
    from submission.systems.catalogue import get_system
    from submission.systems.checkpoint_store import CheckpointStore
    from submission.systems.execution import Execution

    system, device = get_system(args.system), choose_device(args.device)
    checkpoints = CheckpointStore(args.checkpoint_dir, choose_precision(args.precision, device))
    dataset = Dataset(args.input_dir, args.input_run, args.topic, args.order)
    with CacheDirectory(args.cache_dir, Path()) as work:
        execution = Execution(dataset, checkpoints, device, work)
        print(explain(system, args.document, execution, sys.stdout.isatty()), end="")


def _search(args: argparse.Namespace) -> None:
    with gc_paused(freeze=True):
        from submission.search.cli import SearchArguments, run_search
    run_search(SearchArguments(**{name: value for name, value in vars(args).items() if name not in ("handler", "argv")}))


def _systems(args: argparse.Namespace) -> None:
    from submission.systems.catalogue import SYSTEMS
    from submission.systems.checkpoint_store import CheckpointStore

    checkpoints = CheckpointStore(args.checkpoint_dir)
    for system in SYSTEMS.values():
        missing = system.find_missing_checkpoints(checkpoints)
        availability = f"missing checkpoint {', '.join(missing)} in {checkpoints.directory}" if missing else "ready"
        print(f"{system.name:14} {availability:14} {system.description}")
        formula = "" if missing else system.stage.formula(checkpoints)
        if formula:
            print(f"{'':14} {'':14} {formula}")


if __name__ == "__main__":
    sys.exit(main())
