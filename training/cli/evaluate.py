"""Define the subcommands `evaluate`, `overlap` and `report`, which take runs, and `docs`, which updates READMEs."""

import argparse

from submission import cli
from submission.errors import escape_undecodable
from training.cli.options import QRELS_HELP, add_output, index_files_by_name, open_execution, parse_named_path


def add_parsers(commands: cli.Commands) -> None:
    """Add the parsers of `evaluate`, `overlap`, `report` and `docs`."""
    parser = commands.add("evaluate", _evaluate, "evaluate TREC runs against qrels, with confidence intervals and tests")
    help_text = f"{QRELS_HELP}; repeatable, e.g. relevance=FILE and quality=FILE"
    parser.add_argument("--qrels", type=parse_named_path, action="append", required=True, metavar="[NAME=]FILE", help=help_text)
    cli.add_path(parser, "--collection", help="input directory; judgments of documents outside its corpus are ignored")
    help_text = "NAME of the run against which all other RUNs are tested"
    parser.add_argument("--baseline", type=escape_undecodable, metavar="NAME", help=help_text)
    add_output(parser, "directory for means.csv, per_topic.csv and, with --baseline, significance.csv")
    cli.add_options(parser, "order")
    help_text = "TREC run file, or directory with run.txt; NAME labels its results (default: file name without .txt, .gz etc.)"
    parser.add_argument("runs", type=parse_named_path, nargs="+", metavar="[NAME=]RUN", help=help_text)

    description = "compare the runs of a directory by Jaccard index and rank correlation"
    parser = commands.add("overlap", _compare_runs, description, aliases=["analyse"])
    parser.add_argument("runs", type=cli.parse_path, metavar="RUN_DIR", help="directory with <team>-<system>.txt runs")
    cli.add_options(parser, "order")
    add_output(parser, "output directory of tables and heat maps (default: RUN_DIR/analysis)")

    parser = commands.add("report", _write_report, "write a self-contained HTML report on the runs of a directory")
    help_text = "directory with <team>-<system>.txt runs and run.txt (a copy of one of them)"
    parser.add_argument("runs", type=cli.parse_path, metavar="RUN_DIR", help=help_text)
    cli.add_path(parser, "--qrels", required=True, metavar="FILE", help=QRELS_HELP)
    cli.add_options(parser, "inputs", "input_run", "order", "checkpoint_dir", "cache_dir", "device")
    add_output(parser, "report file (default: RUN_DIR/report.html)", "FILE")

    commands.add("docs", _update_docs, "update the generated sections of the READMEs", aliases=["readme"])


def _evaluate(args: argparse.Namespace) -> None:
    from submission.data.dataset import Dataset
    from submission.data.runs import read_run
    from training.evaluation import tables
    from training.evaluation.evaluate import evaluate_run
    from training.evaluation.overlap import compute_overlap
    from training.evaluation.qrels import read_qrels

    docnos = set(Dataset(args.collection).documents["docno"]) if args.collection else None
    qrels_files, run_files = index_files_by_name(args.qrels, "qrels"), index_files_by_name(args.runs, "run")
    qrels_by_name = {name: read_qrels(file, docnos) for name, file in qrels_files.items()}
    runs = {name: read_run(file, args.order) for name, file in run_files.items()}
    overlaps = [
        compute_overlap(run, qrels, (name, label), (run_files[name], qrels_files[label]))
        for label, qrels in qrels_by_name.items()
        for name, run in runs.items()
    ]
    values = {label: {name: evaluate_run(run, qrels) for name, run in runs.items()} for label, qrels in qrels_by_name.items()}
    significance = tables.tabulate_significance(values, args.baseline) if args.baseline else None
    if args.output:
        tables.write_tables(args.output, values, overlaps, significance)
    print(tables.format_evaluation(values, overlaps, significance, args.baseline))


def _compare_runs(args: argparse.Namespace) -> None:
    from training.evaluation.similarity import compare_runs

    for name, table in compare_runs(args.runs, args.output or args.runs / "analysis", args.order).items():
        print(f"{name}\n{table.to_string(float_format=lambda value: f'{value:.2f}', na_rep='')}\n")


def _write_report(args: argparse.Namespace) -> None:
    from training.report.report import write_report

    with open_execution(args, args.cache_dir, args.runs) as execution:
        write_report(args.runs, args.qrels, execution, args.output or args.runs / "report.html", args.order)


def _update_docs(args: argparse.Namespace) -> None:
    from training.report.readme import update_readmes

    update_readmes()
