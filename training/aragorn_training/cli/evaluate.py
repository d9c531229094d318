"""Define the subcommands `evaluate`, `compare`, `overlap` and `report`, which take runs, and
`docs`, which updates READMEs."""

import argparse
import filecmp
from pathlib import Path

from aragorn import cli
from aragorn.errors import UsageError, escape_undecodable

from aragorn_training.cli.options import (
    QRELS_HELP,
    add_output,
    index_files_by_name,
    open_execution,
    parse_named_path,
)

COMPARISON_LEGEND = """a: {}, b: {}
difference: mean of b - a over n topics, with its 95 % bootstrap interval from low to high
p: paired two-sided randomisation test, not corrected for the number of measures; if p ≥ .05, the difference may be chance
better, worse, tied: numbers of topics on which b is better than a, worse, and equal"""


def add_parsers(commands: cli.Commands) -> None:
    """Add the parsers of `evaluate`, `compare`, `overlap`, `report` and `docs`."""
    parser = commands.add(
        "evaluate",
        _evaluate,
        "evaluate TREC runs against qrels, with confidence intervals and tests",
    )
    help_text = f"{QRELS_HELP}; repeatable, e.g. relevance=FILE and quality=FILE"
    parser.add_argument(
        "--qrels",
        type=parse_named_path,
        action="append",
        required=True,
        metavar="[NAME=]FILE",
        help=help_text,
    )
    cli.add_path(
        parser,
        "--collection",
        help="input directory; judgments of documents outside its corpus are ignored",
    )
    help_text = "file of docnos, one per line, to exclude from runs and qrels, e.g. as written by `check --mismatched-ids`"
    cli.add_path(parser, "--exclude-ids", metavar="FILE", help=help_text)
    help_text = "NAME of the run against which all other RUNs are tested"
    parser.add_argument("--baseline", type=escape_undecodable, metavar="NAME", help=help_text)
    add_output(
        parser, "directory for means.csv, per_topic.csv and, with --baseline, significance.csv"
    )
    cli.add_options(parser, "order")
    help_text = "TREC run file, or directory with run.txt; NAME labels its results (default: file name without .txt, .gz etc.)"
    parser.add_argument(
        "runs", type=parse_named_path, nargs="+", metavar="[NAME=]RUN", help=help_text
    )

    description = "show how two runs of the same topics differ: documents, ranks, scores and, with --qrels, measures"
    parser = commands.add("compare", _compare_two_runs, description)
    parser.add_argument(
        "first",
        type=parse_named_path,
        metavar="[NAME=]RUN",
        help="TREC run file, or directory with run.txt",
    )
    parser.add_argument(
        "second",
        type=parse_named_path,
        metavar="[NAME=]RUN",
        help="run to compare with the first one",
    )
    cli.add_path(
        parser,
        "--qrels",
        metavar="FILE",
        help=f"{QRELS_HELP}; adds differences of measures, with tests",
    )
    cli.add_options(parser, "order")
    add_output(
        parser,
        "output directory of topics.csv, moves.csv (ranks of moved documents) and, with --qrels, measures.csv",
    )

    description = "compare the runs of a directory by Jaccard index and rank correlation"
    parser = commands.add("overlap", _compare_runs, description, aliases=["analyse"])
    parser.add_argument(
        "runs",
        type=cli.parse_path,
        metavar="RUN_DIR",
        help="directory with <team>-<system>.txt runs",
    )
    cli.add_options(parser, "order")
    add_output(parser, "output directory of tables and heat maps (default: RUN_DIR/analysis)")

    description = (
        "write a self-contained HTML report on the runs of a directory, or on the published figures"
    )
    parser = commands.add("report", _write_report, description)
    help_text = "directory with <team>-<system>.txt runs and run.txt (a copy of one of them); required without --published"
    parser.add_argument("runs", type=cli.parse_path, metavar="RUN_DIR", nargs="?", help=help_text)
    cli.add_path(
        parser, "--qrels", metavar="FILE", help=f"{QRELS_HELP}; required without --published"
    )
    help_text = "compare the figures of the rebuilt publications with ours instead"
    parser.add_argument("--published", action="store_true", help=help_text)
    cli.add_options(parser, "inputs", "input_run", "order", "checkpoint_dir", "cache_dir", "device")
    add_output(parser, "report file (default: RUN_DIR/report.html, or published.html)", "FILE")

    commands.add(
        "docs", _update_docs, "update the generated sections of the documents", aliases=["readme"]
    )


def _evaluate(args: argparse.Namespace) -> None:
    from aragorn.io.dataset import Dataset
    from aragorn.io.runs import read_run

    from aragorn_training.evaluation import tables
    from aragorn_training.evaluation.evaluate import evaluate_run
    from aragorn_training.evaluation.exclusion import exclude_documents, read_docnos
    from aragorn_training.evaluation.overlap import compute_overlap
    from aragorn_training.evaluation.qrels import read_qrels

    docnos = set(Dataset(args.collection).documents["docno"]) if args.collection else None
    qrels_files, run_files = (
        index_files_by_name(args.qrels, "qrels"),
        index_files_by_name(args.runs, "run"),
    )
    qrels_by_name = {name: read_qrels(file, docnos) for name, file in qrels_files.items()}
    runs = {name: read_run(file, args.order) for name, file in run_files.items()}
    if args.exclude_ids:
        excluded = read_docnos(args.exclude_ids)
        qrels_by_name = {
            name: exclude_documents(qrels, excluded, name) for name, qrels in qrels_by_name.items()
        }
        runs = {name: exclude_documents(run, excluded, name) for name, run in runs.items()}
    overlaps = [
        compute_overlap(run, qrels, (name, label), (run_files[name], qrels_files[label]))
        for label, qrels in qrels_by_name.items()
        for name, run in runs.items()
    ]
    values = {
        label: {name: evaluate_run(run, qrels) for name, run in runs.items()}
        for label, qrels in qrels_by_name.items()
    }
    significance = tables.tabulate_significance(values, args.baseline) if args.baseline else None
    if args.output:
        tables.write_tables(args.output, values, overlaps, significance)
    print(tables.format_evaluation(values, overlaps, significance, args.baseline))


def _compare_two_runs(args: argparse.Namespace) -> None:
    from aragorn.io.runs import find_run, read_run
    from aragorn.storage.atomic_files import create_directory

    from aragorn_training.evaluation.comparison import (
        compare_measures,
        compare_rankings,
        evaluate_common_topics,
    )
    from aragorn_training.evaluation.evaluate import HEADLINE_MEASURES
    from aragorn_training.evaluation.overlap import compute_overlap
    from aragorn_training.evaluation.qrels import read_qrels
    from aragorn_training.evaluation.tables import write_csv

    (name_a, file_a), (name_b, file_b) = args.first, args.second
    names = (str(file_a), str(file_b)) if name_a == name_b else (name_a, name_b)
    text = "".join(
        f"{file}: {find_run(file).name} is compared\n" for file in (file_a, file_b) if file.is_dir()
    )
    first, second = read_run(file_a, args.order), read_run(file_b, args.order)
    comparison = compare_rankings(first, second, names)
    tables = {"topics": comparison.topics, "moves": comparison.moves.set_index(["qid", "docno"])}
    text += comparison.format_summary()
    if args.qrels:
        qrels = read_qrels(args.qrels)
        for run, name, file in ((first, names[0], file_a), (second, names[1], file_b)):
            shared_rows = run[run["qid"].isin(comparison.topics.index)]
            compute_overlap(shared_rows, qrels, (name, args.qrels.name), (file, args.qrels))
        values_a, values_b = evaluate_common_topics(first, second, qrels)
        tables["measures"] = compare_measures(values_a, values_b)
        tables["topics"] = comparison.topics.join(
            (values_b - values_a)[[*HEADLINE_MEASURES]].add_prefix("Δ ")
        )
    changed = tables["topics"][comparison.topics["first_rank"].notna()]
    if len(changed):
        text += "\n\n" + changed.to_string(
            formatters={"first_rank": "{:.0f}".format},
            float_format="{:z.3f}".format,
            na_rep="–",  # noqa: RUF001 a dash
        )
    if args.qrels:
        text += f"\n\n{tables['measures'].to_string(float_format='{:z.4f}'.format, na_rep='–')}"  # noqa: RUF001 a dash
        text += f"\n\n{COMPARISON_LEGEND.format(*names)}"
    if args.output:
        create_directory(args.output)
        for name, table in tables.items():
            write_csv(args.output / f"{name}.csv", table, 6, index=True)
    print(text + _compare_other_runs(file_a, file_b))


def _compare_other_runs(first: Path, second: Path) -> str:
    """Return lines that say which runs of two directories besides the compared ones have equal
    bytes; "" for files."""
    from aragorn.output.run_directory import list_other_runs

    if not (first.is_dir() and second.is_dir()):
        return ""
    runs_a, runs_b = (
        {name: path / name for name in list_other_runs(path)} for path in (first, second)
    )
    is_equal = {
        name: filecmp.cmp(runs_a[name], runs_b[name], shallow=False)
        for name in runs_a
        if name in runs_b
    }
    groups = {
        "identical": [name for name in is_equal if is_equal[name]],
        "different": [name for name in is_equal if not is_equal[name]],
        f"only in {first}": [name for name in runs_a if name not in runs_b],
        f"only in {second}": [name for name in runs_b if name not in runs_a],
    }
    return "".join(
        f"\nother runs, {label}: {', '.join(names)}" for label, names in groups.items() if names
    )


def _compare_runs(args: argparse.Namespace) -> None:
    from aragorn_training.evaluation.similarity import compare_runs

    for name, table in compare_runs(
        args.runs, args.output or args.runs / "analysis", args.order
    ).items():
        print(f"{name}\n{table.to_string(float_format=lambda value: f'{value:.2f}', na_rep='')}\n")


def _write_report(args: argparse.Namespace) -> None:
    from aragorn_training.report.published import write_published
    from aragorn_training.report.report import write_report

    if args.published:
        return write_published(args.output or Path("published.html"))
    if not (args.runs and args.qrels):
        raise UsageError("report: RUN_DIR and --qrels are required without --published")
    with open_execution(args, args.cache_dir, args.runs) as execution:
        return write_report(
            args.runs, args.qrels, execution, args.output or args.runs / "report.html", args.order
        )


def _update_docs(args: argparse.Namespace) -> None:
    from aragorn_training.report.published import write_published
    from aragorn_training.report.readme import update_readmes

    update_readmes()
    write_published()
