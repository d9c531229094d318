"""`evaluate`, `report`, `analyse`: measures of runs, and their presentation."""

from __future__ import annotations

import argparse

from submission.command import Verbs, add_checkpoints, add_device, add_input, add_input_run, add_order, add_work, folder
from training.commands.shared import QRELS, by_name, computing, named


def add(verbs: Verbs) -> None:
    """The flags of these verbs."""
    about = "measures of runs: Touché's nDCG@5, and others with unjudged documents dropped (condensed) and as 0 (all)"
    verb = verbs.add("evaluate", _evaluate, about)
    what = f"{QRELS}; repeatable, e.g. relevance=FILE and quality=FILE"
    verb.add_argument("--qrels", type=named, action="append", required=True, metavar="[NAME=]FILE", help=what)
    verb.add_argument("--collection", type=folder, metavar="DIR", help="restrict the qrels to the documents of this input")
    verb.add_argument(
        "--baseline", metavar="RUN", help="test the others against this run (NAME, or its file's name, no ending)"
    )
    verb.add_argument(
        "-o", "--output", type=folder, metavar="DIR", help="means with intervals, values per topic, tests; as CSV"
    )
    add_order(verb)
    what = "TREC run files, or directories with run.txt; two of one name take a NAME"
    verb.add_argument("runs", type=named, nargs="+", metavar="[NAME=]RUN", help=what)

    verb = verbs.add("analyse", _analyse, "how alike the runs of a directory are: Jaccard, Spearman, heat maps")
    verb.add_argument("runs", type=folder, metavar="RUN_DIR", help="with <team>-<system>.txt runs")
    add_order(verb)
    verb.add_argument("-o", "--output", type=folder, metavar="DIR", help="tables and heat maps (default: RUN_DIR/analysis)")

    verb = verbs.add("report", _report, "report.html on the runs of a directory: one file, without network and scripts")
    verb.add_argument("runs", type=folder, metavar="RUN_DIR", help="with <team>-<system>.txt runs and run.txt, one of them")
    verb.add_argument("--qrels", type=folder, required=True, metavar="FILE", help=QRELS)
    add_input(verb)
    add_input_run(verb)
    add_checkpoints(verb)
    add_work(verb)
    add_device(verb)
    verb.add_argument("-o", "--output", type=folder, metavar="FILE", help="the report (default: RUN_DIR/report.html)")

    verbs.add("readme", _readme, "write the parts of the README that are generated: systems, commands, results")


def _evaluate(options: argparse.Namespace) -> None:
    from submission.input.directory import Input
    from submission.input.qrels import read_qrels
    from submission.input.runs import read_run
    from training.measuring import results
    from training.measuring.evaluate import evaluate_runs
    from training.measuring.overlap import overlap_of

    docnos = set(Input(options.collection).documents["docno"]) if options.collection else None
    qrels_files, run_files = by_name(options.qrels, "qrels"), by_name(options.runs, "runs")
    judged = {name: read_qrels(file, docnos) for name, file in qrels_files.items()}
    runs = {name: read_run(file, options.order) for name, file in run_files.items()}
    overlaps = [
        overlap_of(run, qrels, (name, label), (run_files[name], qrels_files[label]))
        for label, qrels in judged.items()
        for name, run in runs.items()
    ]
    values = {label: evaluate_runs(runs, qrels) for label, qrels in judged.items()}
    print(results.report(values, overlaps, options.baseline, options.output))


def _analyse(options: argparse.Namespace) -> None:
    from training.measuring.analysis import analyse

    for name, table in analyse(options.runs, options.output or options.runs / "analysis", options.order).items():
        print(f"{name}\n{table.to_string(float_format=lambda value: f'{value:.2f}', na_rep='')}\n")


def _report(options: argparse.Namespace) -> None:
    from training.measuring.report import report

    with computing(options, options.runs) as execution:
        report(options.runs, options.qrels, execution, options.output or options.runs / "report.html", options.order)


def _readme(options: argparse.Namespace) -> None:
    from training.measuring.readme import update

    update()
