"""What runs are worth, and what is shown of them."""

from __future__ import annotations

import argparse

from submission.command import Verbs, add_checkpoints, add_device, add_input, add_input_run, add_work, folder
from training.commands.shared import computing, named


def add(verbs: Verbs) -> None:
    """The flags of these verbs."""
    verb = verbs.add("evaluate", _evaluate, "measures of runs: unjudged documents as 0 (all) and dropped (judged)")
    what = "TREC qrels, -2 counts as 0; repeatable, e.g. relevance=FILE and quality=FILE"
    verb.add_argument("--qrels", type=named, action="append", required=True, metavar="[NAME=]FILE", help=what)
    verb.add_argument("--collection", type=folder, metavar="DIR", help="restrict the qrels to the documents of this input")
    verb.add_argument("--baseline", metavar="RUN", help="test the others against this run (its file's name, no ending)")
    verb.add_argument(
        "-o", "--output", type=folder, metavar="DIR", help="means with intervals, values per topic, tests; as CSV"
    )
    verb.add_argument("runs", type=folder, nargs="+", metavar="RUN", help="TREC run files")

    verb = verbs.add("analyse", _analyse, "how alike the runs of a directory are: Jaccard, Spearman, heat maps")
    verb.add_argument("runs", type=folder, metavar="RUN_DIR", help="with <team>-<system>.txt runs")
    verb.add_argument("-o", "--output", type=folder, metavar="DIR", help="tables and heat maps (default: RUN_DIR/analysis)")

    verb = verbs.add("report", _report, "report.html on the runs of a directory: one file, without network and scripts")
    verb.add_argument("runs", type=folder, metavar="RUN_DIR", help="with <team>-<system>.txt runs and run.txt, one of them")
    verb.add_argument("--qrels", type=folder, required=True, metavar="FILE", help="TREC qrels; -2 counts as 0")
    add_input(verb)
    add_input_run(verb)
    add_checkpoints(verb)
    add_work(verb)
    add_device(verb)
    verb.add_argument("-o", "--output", type=folder, metavar="FILE", help="the report (default: RUN_DIR/report.html)")

    verbs.add("readme", _readme, "write the parts of the README that are generated: systems, commands, results")


def _evaluate(options: argparse.Namespace) -> None:
    from submission.input.directory import Input
    from training.measuring import evaluate, results

    docnos = set(Input(options.collection).documents["docno"]) if options.collection else None
    values = {name: evaluate.evaluate_files(options.runs, evaluate.read_qrels(file, docnos)) for name, file in options.qrels}
    print(results.report(values, options.baseline, options.output))


def _analyse(options: argparse.Namespace) -> None:
    from training.measuring.analysis import analyse

    for name, table in analyse(options.runs, options.output or options.runs / "analysis").items():
        print(f"{name}\n{table.to_string(float_format=lambda value: f'{value:.2f}', na_rep='')}\n")


def _report(options: argparse.Namespace) -> None:
    from training.measuring.report import report

    with computing(options, options.runs) as execution:
        report(options.runs, options.qrels, execution, options.output or options.runs / "report.html")


def _readme(options: argparse.Namespace) -> None:
    from training.measuring.readme import update

    update()
