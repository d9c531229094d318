"""Evaluate, compare and report runs."""

from __future__ import annotations

import argparse

from submission.cli import (
    Commands,
    add_cache_dir,
    add_checkpoints,
    add_device,
    add_input,
    add_input_run,
    add_order,
    path_argument,
)
from training.cli.options import QRELS_HELP, add_output, named_path, open_execution, unique_names


def add_parsers(commands: Commands) -> None:
    """Add the parsers of `evaluate`, `analyse`, `report` and `readme`."""
    parser = commands.add("evaluate", _evaluate, "evaluate TREC runs against qrels, with confidence intervals and tests")
    help_text = f"{QRELS_HELP}; repeatable, e.g. relevance=FILE and quality=FILE"
    parser.add_argument("--qrels", type=named_path, action="append", required=True, metavar="[NAME=]FILE", help=help_text)
    parser.add_argument(
        "--collection", type=path_argument, metavar="DIR", help="ignore judgments of documents outside this corpus"
    )
    parser.add_argument("--baseline", metavar="RUN", help="run to test against (NAME, or file name without extension)")
    add_output(parser, "write means.csv, per_topic.csv and, with --baseline, significance.csv to this directory")
    add_order(parser)
    help_text = "TREC run file or directory with run.txt; NAME labels it"
    parser.add_argument("runs", type=named_path, nargs="+", metavar="[NAME=]RUN", help=help_text)

    parser = commands.add("analyse", _analyse, "Jaccard overlap and rank correlation between the runs of a directory")
    parser.add_argument("runs", type=path_argument, metavar="RUN_DIR", help="directory with <team>-<system>.txt runs")
    add_order(parser)
    add_output(parser, "output directory of tables and heat maps (default: RUN_DIR/analysis)")

    parser = commands.add("report", _report, "write a self-contained HTML report on the runs of a directory")
    help_text = "directory with <team>-<system>.txt runs and run.txt (a copy of one of them)"
    parser.add_argument("runs", type=path_argument, metavar="RUN_DIR", help=help_text)
    parser.add_argument("--qrels", type=path_argument, required=True, metavar="FILE", help=QRELS_HELP)
    add_input(parser)
    add_input_run(parser)
    add_checkpoints(parser)
    add_cache_dir(parser)
    add_device(parser)
    add_output(parser, "report file (default: RUN_DIR/report.html)", "FILE")

    commands.add("readme", _readme, "update generated sections of the documentation")


def _evaluate(options: argparse.Namespace) -> None:
    from submission.data.dataset import Dataset
    from submission.data.qrels import read_qrels
    from submission.data.runs import read_run
    from training.evaluation import tables
    from training.evaluation.evaluate import evaluate_runs
    from training.evaluation.overlap import compute_overlap

    docnos = set(Dataset(options.collection).documents["docno"]) if options.collection else None
    qrels_files, run_files = unique_names(options.qrels, "qrels"), unique_names(options.runs, "runs")
    qrels_by_name = {name: read_qrels(file, docnos) for name, file in qrels_files.items()}
    runs = {name: read_run(file, options.order) for name, file in run_files.items()}
    overlaps = [
        compute_overlap(run, qrels, (name, label), (run_files[name], qrels_files[label]))
        for label, qrels in qrels_by_name.items()
        for name, run in runs.items()
    ]
    values = {label: evaluate_runs(runs, qrels) for label, qrels in qrels_by_name.items()}
    print(tables.format_evaluation(values, overlaps, options.baseline, options.output))


def _analyse(options: argparse.Namespace) -> None:
    from training.evaluation.similarity import compare_runs

    for name, table in compare_runs(options.runs, options.output or options.runs / "analysis", options.order).items():
        print(f"{name}\n{table.to_string(float_format=lambda value: f'{value:.2f}', na_rep='')}\n")


def _report(options: argparse.Namespace) -> None:
    from training.report.report import write_report

    with open_execution(options, options.runs) as execution:
        write_report(options.runs, options.qrels, execution, options.output or options.runs / "report.html", options.order)


def _readme(options: argparse.Namespace) -> None:
    from training.report.readme import update_readmes

    update_readmes()
