"""Define the commands `evaluate`, `compare`, `overlap` and `report`, which take runs, and `docs`,
which updates documents."""

import filecmp
from dataclasses import dataclass
from pathlib import Path

from aragorn.errors import UsageError, escape_name
from aragorn.options import argument, option
from aragorn_training.options import (
    QRELS_HELP,
    CheckpointOptions,
    DefaultInputOptions,
    DeviceOptions,
    NamedPath,
    NamedQrelsOptions,
    OrderOptions,
    index_files_by_name,
    parse_named_path,
)

COMPARISON_LEGEND = """a: {}, b: {}
difference: mean of b - a over n topics, with its 95 % bootstrap interval from low to high
p: paired two-sided randomisation test, not corrected for the number of measures; if p ≥ .05, the difference may be chance
better, worse, tied: numbers of topics on which b is better than a, worse, and equal"""


RUN_HELP = "TREC run file, or directory with run.txt"


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(OrderOptions, NamedQrelsOptions):
    """Options of `evaluate`."""

    runs: tuple[NamedPath, ...] = argument(
        type=parse_named_path,
        metavar="[NAME=]RUN",
        help=f"{RUN_HELP}; NAME labels its results (default: file name without .txt, .gz etc.)",
    )
    collection: Path | None = option(
        None, help="input directory; judgments of documents outside its corpus are ignored"
    )
    exclude_ids: Path | None = option(
        None,
        metavar="FILE",
        help="file of docnos, one per line, to exclude from runs and qrels, "
        "e.g. as written by `check --mismatched-ids`",
    )
    baseline: str | None = option(
        None, parse=escape_name, help="NAME of the run against which all other RUNs are tested"
    )
    output: Path | None = option(
        None,
        "-o",
        "--output",
        help="directory for means.csv, per_topic.csv and, with --baseline, significance.csv",
    )


@dataclass(frozen=True, kw_only=True)
class CompareOptions(OrderOptions):
    """Options of `compare`."""

    first: NamedPath = argument(type=parse_named_path, metavar="[NAME=]RUN", help=RUN_HELP)
    second: NamedPath = argument(
        type=parse_named_path, metavar="[NAME=]RUN", help="run to compare with the first one"
    )
    qrels: Path | None = option(
        None, metavar="FILE", help=f"{QRELS_HELP}; adds differences of measures, with tests"
    )
    output: Path | None = option(
        None,
        "-o",
        "--output",
        help="output directory of topics.csv, moves.csv (ranks of moved documents) and, "
        "with --qrels, measures.csv",
    )


@dataclass(frozen=True, kw_only=True)
class OverlapOptions(OrderOptions):
    """Options of `overlap`."""

    runs: Path = argument(metavar="RUN_DIR", help="directory with <team>-<system>.txt runs")
    output: Path | None = option(
        None,
        "-o",
        "--output",
        help="output directory of tables and heat maps (default: RUN_DIR/analysis)",
    )


@dataclass(frozen=True, kw_only=True)
class ReportOptions(DeviceOptions, CheckpointOptions, OrderOptions, DefaultInputOptions):
    """Options of `report`."""

    runs: Path | None = argument(
        default=None,
        metavar="RUN_DIR",
        help="directory with <team>-<system>.txt runs and run.txt (a copy of one of them); "
        "required without --published",
    )
    qrels: Path | None = option(
        None, metavar="FILE", help=f"{QRELS_HELP}; required without --published"
    )
    published: bool = option(
        False, help="compare the figures of the rebuilt publications with ours instead"
    )
    input_run: Path | None = option(
        None, variables=("inputRun",), metavar="PATH", help="TREC run that the runs re-rank"
    )
    cache_dir: Path | None = option(None, help="cache of `rank` (default: temporary directory)")
    output: Path | None = option(
        None,
        "-o",
        "--output",
        metavar="FILE",
        help="report file (default: RUN_DIR/report.html, or published.html)",
    )


@dataclass(frozen=True, kw_only=True)
class NoOptions:
    """No options."""


def evaluate(options: EvaluateOptions) -> None:
    """Evaluate TREC runs against qrels, with confidence intervals and tests."""
    from aragorn.io.dataset import Dataset
    from aragorn.io.qrels import read_qrels
    from aragorn.io.runs import read_run
    from aragorn_training.evaluation import tables
    from aragorn_training.evaluation.evaluate import evaluate_run
    from aragorn_training.evaluation.overlap import compute_overlap, exclude_documents, read_docnos

    docnos = set(Dataset(options.collection).documents["docno"]) if options.collection else None
    qrels_files = index_files_by_name(options.qrels, "qrels")
    run_files = index_files_by_name(options.runs, "run")
    qrels_by_name = {name: read_qrels(file, docnos) for name, file in qrels_files.items()}
    runs = {name: read_run(file, options.order) for name, file in run_files.items()}
    if options.exclude_ids:
        excluded = read_docnos(options.exclude_ids)
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
    significance = (
        tables.tabulate_significance(values, options.baseline) if options.baseline else None
    )
    if options.output:
        tables.write_tables(options.output, values, overlaps, significance)
    print(tables.format_evaluation(values, overlaps, significance, options.baseline))


def compare(options: CompareOptions) -> None:
    """Show how two runs of the same topics differ: documents, ranks, scores and, with --qrels, measures."""
    from aragorn.io.qrels import read_qrels
    from aragorn.io.runs import find_run, read_run
    from aragorn.storage.atomic_files import create_directory
    from aragorn_training.evaluation.comparison import (
        compare_measures,
        compare_rankings,
        evaluate_common_topics,
    )
    from aragorn_training.evaluation.evaluate import HEADLINE_MEASURES
    from aragorn_training.evaluation.overlap import compute_overlap
    from aragorn_training.evaluation.tables import write_csv

    name_a, file_a = options.first
    name_b, file_b = options.second
    names = (
        (escape_name(str(file_a)), escape_name(str(file_b)))
        if name_a == name_b
        else (name_a, name_b)
    )
    text = "".join(
        escape_name(f"{file}: {find_run(file).name} is compared") + "\n"
        for file in (file_a, file_b)
        if file.is_dir()
    )
    first = read_run(file_a, options.order)
    second = read_run(file_b, options.order)
    comparison = compare_rankings(first, second, names)
    tables = {"topics": comparison.topics, "moves": comparison.moves.set_index(["qid", "docno"])}
    text += comparison.format_summary()
    if options.qrels:
        qrels = read_qrels(options.qrels)
        for run, name, file in ((first, names[0], file_a), (second, names[1], file_b)):
            shared_rows = run[run["qid"].isin(comparison.topics.index)]
            compute_overlap(shared_rows, qrels, (name, options.qrels.name), (file, options.qrels))
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
    if options.qrels:
        text += f"\n\n{tables['measures'].to_string(float_format='{:z.4f}'.format, na_rep='–')}"  # noqa: RUF001 a dash
        text += f"\n\n{COMPARISON_LEGEND.format(*names)}"
    if options.output:
        create_directory(options.output)
        for name, table in tables.items():
            write_csv(options.output / f"{name}.csv", table, 6, index=True)
    print(text + _compare_other_runs(file_a, file_b))


def _compare_other_runs(first: Path, second: Path) -> str:
    """Return lines that say which runs of two directories besides the compared ones have equal
    bytes; "" for files."""
    from aragorn.io.runs import list_other_runs

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
        "\n" + escape_name(f"other runs, {label}: {', '.join(names)}")
        for label, names in groups.items()
        if names
    )


def overlap(options: OverlapOptions) -> None:
    """Compare the runs of a directory by Jaccard index and rank correlation."""
    from aragorn_training.evaluation.similarity import compare_runs

    for name, table in compare_runs(
        options.runs, options.output or options.runs / "analysis", options.order
    ).items():
        print(f"{name}\n{table.to_string(float_format=lambda value: f'{value:.2f}', na_rep='')}\n")


def report(options: ReportOptions) -> None:
    """Write a self-contained HTML report on the runs of a directory, or on the published figures."""
    from aragorn_training.data.retrieval import open_retrieval
    from aragorn_training.report.published_pages import write_published
    from aragorn_training.report.report import write_report

    if options.published:
        return write_published(options.output or Path("published.html"))
    if not (options.runs and options.qrels):
        raise UsageError("report: RUN_DIR and --qrels are required without --published")
    with open_retrieval(options, options.cache_dir, options.runs) as retrieval:
        return write_report(
            options.runs,
            options.qrels,
            retrieval,
            options.output or options.runs / "report.html",
            options.order,
        )


def docs(options: NoOptions) -> None:
    """Update the generated sections of the documents."""
    from aragorn_training.report.published_pages import write_published
    from aragorn_training.report.sections import update_readmes

    update_readmes()
    write_published()
