"""Rank args.me arguments for Touché topics and write TREC runs."""

if __name__ == "__main__":  # before slow imports, so that Ctrl-C never prints a traceback
    from aragorn.signals import install_handlers

    install_handlers()

import argparse
import os
import sys
from pathlib import Path

from aragorn import cli
from aragorn.errors import EXIT_CODES
from aragorn.timing import pause_gc

# environment variable with the program name in usage lines, set by run.sh
PROGRAM_VARIABLE = "ARAGORN_PROGRAM"
COMPUTATION_OPTIONS = ("device", "precision", "checkpoint_dir")


def main(argv: list[str] | None = None) -> int:
    """Run the subcommand in `argv` (None: the process's command line) and return the exit code."""
    return cli.run_command(_build_parser(), argv)


def _build_parser() -> argparse.ArgumentParser:
    program = os.environ.get(PROGRAM_VARIABLE, "python -m aragorn")
    commands = cli.Commands(
        argparse.ArgumentParser(prog=program, description=__doc__, epilog=EXIT_CODES)
    )
    _add_rank(commands)
    _add_check(commands)
    _add_explain(commands)
    _add_search(commands)
    _add_index(commands)
    cli.add_options(
        commands.add("systems", _list_systems, "list systems with availability and description"),
        "checkpoint_dir",
    )
    return commands.parser


def _add_rank(commands: cli.Commands) -> None:
    parser = commands.add(
        "rank", _rank, "rank documents for all topics and write one TREC run per system"
    )
    # run.sh --help shows the help of this subcommand
    parser.epilog = f"other subcommands: check, explain, index, search, systems; {parser.epilog}"
    cli.add_options(parser, "inputs", "input_run", "order")
    default = cli.read_path_from_environment(["outputDir", "TIRA_OUTPUT_DIR"], Path("runs"))
    help_text = "output directory for runs and metadata"
    cli.add_path(parser, "-o", "--output", dest="output_dir", default=default, help=help_text)
    _add_systems(
        parser,
        "run",
        "The run of the first is also run.txt (default: all available, with fusion's as run.txt)",
    )
    parser.add_argument(
        "--team",
        default="aragorn",
        metavar="TEAM",
        help="team name in run tags and file names (TEAM-SYSTEM)",
    )
    help_text = "label of the runs, e.g. the name of the re-ranked run: run tags and file names become TEAM-LABEL-SYSTEM"
    parser.add_argument("--label", metavar="LABEL", help=help_text)
    help_text = "maximum number of documents per topic, 1 to 1000 (default: 100, or the depth of the supplied ranking)"
    parser.add_argument("--depth", type=cli.integer_between(1, 1000), metavar="N", help=help_text)
    cli.add_options(
        parser, *COMPUTATION_OPTIONS, "engine", "ray_address", "shared_cache", "cache_dir"
    )
    parser.add_argument(
        "--overwrite",
        action="store_true",
        help="remove all runs of other inputs, teams, labels or depths; replace those of other code, checkpoints or devices",
    )


def _add_check(commands: cli.Commands) -> None:
    parser = commands.add(
        "check",
        _check,
        "validate input, checkpoints and runs, and report all errors, without ranking",
    )
    cli.add_options(parser, "inputs", "checkpoint_dir")
    help_text = "TREC runs of this input's topics to validate; of a directory, run.txt"
    cli.add_path(
        parser,
        "--run",
        action="extend",
        nargs="+",
        default=[],
        metavar="FILE",
        dest="runs",
        help=help_text,
    )
    parser.add_argument(
        "--no-checkpoints",
        action="store_true",
        help="do not load the checkpoints, which takes most of the time",
    )
    help_text = "output file for the ids of documents whose text differs from args.me 2020-04-01"
    cli.add_path(parser, "--mismatched-ids", "--differing", metavar="FILE", help=help_text)


def _add_explain(commands: cli.Commands) -> None:
    parser = commands.add(
        "explain", _explain, "decompose a document's score for a topic, or compare two documents"
    )
    cli.add_options(parser, "inputs", "input_run", "order", "cache_dir", *COMPUTATION_OPTIONS)
    parser.add_argument(
        "--system", required=True, metavar="NAME", help="system whose score to explain"
    )
    parser.add_argument("--qid", "--topic", required=True, metavar="QID", help="topic id")
    help_text = "document id; given twice, the contributions to both scores are shown side by side"
    parser.add_argument(
        "--docno",
        "--document",
        required=True,
        action="append",
        metavar="DOCNO",
        dest="docnos",
        help=help_text,
    )


def _add_search(commands: cli.Commands) -> None:
    parser = commands.add("search", _search, "search with one query, at a prompt, or on a web page")
    help_text = "query text (default: read queries at a prompt; Ctrl-D quits)"
    parser.add_argument("query", nargs="?", metavar="QUERY", help=help_text)
    cli.add_options(parser, "inputs", "cache_dir", *COMPUTATION_OPTIONS)
    _add_systems(
        parser,
        "search with",
        "Results are shown side by side (default: fusion on a GPU or an indexed collection, else dirichlet)",
    )
    help_text = "number of results per system, 1 to 100"
    parser.add_argument(
        "--depth", type=cli.integer_between(1, 100), default=5, metavar="N", help=help_text
    )
    parser.add_argument(
        "--explain",
        action="store_true",
        help="print the largest score contributions of each result",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object per query")
    help_text = "start a local web page (default port: 8040; 0: any free port)"
    parser.add_argument(
        "--serve",
        type=cli.integer_between(0, 65535),
        nargs="?",
        const=8040,
        metavar="PORT",
        help=help_text,
    )


def _add_index(commands: cli.Commands) -> None:
    parser = commands.add(
        "index",
        _index,
        "build the indexes and vectors of a collection in advance, so that queries are fast",
    )
    cli.add_options(parser, "inputs")
    cli.add_path(
        parser,
        "--cache-dir",
        "--work",
        required=True,
        help="cache for indexes; an interrupted build resumes from it",
    )
    _add_systems(parser, "index for", "(default: fusion)")
    cli.add_options(parser, *COMPUTATION_OPTIONS, "engine", "ray_address", "shared_cache")


def _add_systems(parser: argparse.ArgumentParser, purpose: str, note: str) -> None:
    help_text = f"system to {purpose}; repeatable. {note}"
    parser.add_argument(
        "--system", action="append", default=[], metavar="NAME", dest="systems", help=help_text
    )


# Handlers import heavy modules lazily: importing torch takes 2 s, which --help need not wait for.


def _rank(args: argparse.Namespace) -> None:
    with pause_gc(freeze=True):
        from aragorn.rank import RankOptions, rank
    rank(RankOptions(**{name: value for name, value in vars(args).items() if name != "handler"}))


def _check(args: argparse.Namespace) -> None:
    from aragorn.check import check

    checkpoint_dir = None if args.no_checkpoints else args.checkpoint_dir
    report = check(args.inputs, args.runs, checkpoint_dir, args.mismatched_ids)
    print("\n".join(report.lines))
    report.raise_if_errors()


def _explain(args: argparse.Namespace) -> None:
    from aragorn.explain import explain
    from aragorn.inference.device import choose_device, choose_precision
    from aragorn.io.dataset import Dataset
    from aragorn.storage.cache_directory import CacheDirectory
    from aragorn.systems.catalogue import get_system
    from aragorn.systems.execution import CheckpointStore, Execution

    system, device = get_system(args.system), choose_device(args.device)
    checkpoints = CheckpointStore(args.checkpoint_dir, choose_precision(args.precision, device))
    dataset = Dataset(*args.inputs, input_run=args.input_run, qid=args.qid, order=args.order)
    with CacheDirectory(args.cache_dir, Path()) as cache:
        print(
            explain(
                system,
                args.docnos,
                Execution(dataset, checkpoints, device, cache),
                sys.stdout.isatty(),
            ),
            end="",
        )


def _search(args: argparse.Namespace) -> None:
    with pause_gc(freeze=True):
        from aragorn.search.cli import run_search
    run_search(args)


def _index(args: argparse.Namespace) -> None:
    with pause_gc(freeze=True):
        from aragorn.search.indexing import run_index
    run_index(args)


def _list_systems(args: argparse.Namespace) -> None:
    from aragorn.systems.catalogue import SYSTEMS
    from aragorn.systems.execution import CheckpointStore

    checkpoints = CheckpointStore(args.checkpoint_dir)
    width = max(map(len, SYSTEMS))
    for system in SYSTEMS.values():
        missing_names = system.stage.find_missing_checkpoints(checkpoints)
        availability = (
            f"missing checkpoint {', '.join(missing_names)} in {checkpoints.directory}"
            if missing_names
            else "ready"
        )
        print(f"{system.name:{width}} {availability:14} {system.description}")
        formula = "" if missing_names else system.stage.format_formula(checkpoints)
        if formula:
            print(f"{'':{width}} {'':14} {formula}")


if __name__ == "__main__":
    sys.exit(main())
