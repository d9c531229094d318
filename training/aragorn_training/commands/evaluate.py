"""Define the commands `evaluate`, `compare`, `overlap` and `report`, which take runs, and `docs`,
which updates documents."""

import logging
import sys
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent
from typing import Literal

from aragorn.errors import InputError, UsageError, escape_name, escape_unprintable, suggest
from aragorn.options import argument, option
from aragorn_training.options import (
    QRELS_HELP,
    CheckpointOptions,
    DefaultInputOptions,
    NamedPath,
    NamedQrelsOptions,
    OrderOptions,
    index_files_by_name,
    output_option,
    parse_named_path,
    qrels_option,
)

log = logging.getLogger(__name__)

COMPARISON_LEGEND = """a: {}, b: {}
difference: mean of b - a over n topics, with its 95 % bootstrap interval from low to high
p: paired two-sided randomisation test, not corrected; if p ≥ .05, the difference may be chance
better, worse, tied: numbers of topics on which b is better than a, worse, and equal"""
EVALUATION_LEGEND = (
    "best first by {}, where topics without a value count as 0; means are over the n topics with a "
    "value; bold, if shown: best mean; brackets: 95 % bootstrap interval"
)
TEST_LEGEND = (
    "\n▲ ▼: significantly better or worse than {} (two-sided paired randomisation test, Holm over "
    "the runs, p < .05)"
)
RUN_HELP = "TREC run file, or directory with run.txt"


@dataclass(frozen=True, kw_only=True)
class CollectionOptions:
    """Collection that limits an evaluation."""

    collection: Path | None = option(
        None,
        metavar="INPUT",
        help="input whose collection limits the evaluation: judgments of documents that INPUT "
        "lacks are dropped, and from runs those that systems do not retrieve from INPUT",
    )

    def read_docnos(self) -> tuple[set[str] | None, set[str] | None]:
        """Return the docnos whose judgments count, and those that systems retrieve; None: all."""
        from aragorn_training.evaluation.overlap import read_collection

        return read_collection(self.collection) if self.collection else (None, None)


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(OrderOptions, CollectionOptions, NamedQrelsOptions):
    """Options of `evaluate`."""

    runs: tuple[NamedPath, ...] = argument(
        type=parse_named_path,
        metavar="[NAME=]RUN",
        help=f"{RUN_HELP}; NAME labels its results (default: file name without .txt, .gz etc.)",
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
    measures: tuple[str, ...] = option(
        (),
        "--measure",
        metavar="MEASURE",
        help="measure of ir_measures, e.g. nDCG@10 or 'P(rel=2)@5', or nDCG@5-touche; repeatable "
        "(default: nDCG@5 as Touché, of judged documents and of all, Bpref, Judged@5)",
    )
    all_measures: bool = option(False, help="print all measures that -o writes")
    format: Literal["table", "csv", "json", "latex", "markdown"] = option(
        "table", help="format of the printed table"
    )
    output: Path | None = output_option(
        "directory for means.csv, per_topic.csv and, with --baseline, significance.csv"
    )


@dataclass(frozen=True, kw_only=True)
class CompareOptions(OrderOptions, CollectionOptions):
    """Options of `compare`."""

    first: NamedPath = argument(
        type=parse_named_path, metavar="[NAME=]RUN", help="TREC run file, or directory of runs"
    )
    second: NamedPath = argument(
        type=parse_named_path, metavar="[NAME=]RUN", help="run, or directory, to compare with it"
    )
    qrels: Path | None = option(
        None, metavar="FILE", help=f"{QRELS_HELP}; adds differences of measures, with tests"
    )
    system: str | None = option(
        None, help="system whose runs in two directories are compared in detail"
    )
    output: Path | None = output_option(
        "output directory of topics.csv, moves.csv (ranks of moved documents) and, "
        "with --qrels, measures.csv"
    )


@dataclass(frozen=True, kw_only=True)
class OverlapOptions(OrderOptions):
    """Options of `overlap`."""

    runs: Path = argument(metavar="RUN_DIR", help="directory with <team>-<system>.txt runs")
    output: Path | None = output_option(
        "output directory of tables and heat maps (default: RUN_DIR/analysis)"
    )


@dataclass(frozen=True, kw_only=True)
class ReportOptions(CheckpointOptions, OrderOptions, DefaultInputOptions):
    """Options of `report`."""

    runs: tuple[Path, ...] = argument(
        default=(),
        metavar="RUN_DIR",
        help="directories with <team>-<system>.txt runs, of several teams, versions or years; "
        "required without --published",
    )
    qrels: tuple[NamedPath, ...] = qrels_option(
        f"{QRELS_HELP}; repeatable, e.g. 2020=FILE and 2021=FILE; the first orders the systems; "
        "required without --published",
        (),
    )
    baseline: str | None = option(
        None,
        parse=escape_name,
        help="system, <team>-<system> or DIR/<system> that the others are tested against "
        "(default: the one whose run equals run.txt)",
    )
    published: bool = option(
        False, help="compare the figures of the rebuilt publications with ours instead"
    )
    output: Path | None = output_option(
        "report file (default: report.html in the first RUN_DIR, or published.html)", "FILE"
    )


@dataclass(frozen=True, kw_only=True)
class NoOptions:
    """No options."""


def evaluate(options: EvaluateOptions) -> None:
    """Evaluate TREC runs against qrels, with confidence intervals and tests."""
    from aragorn.io.qrels import read_qrels
    from aragorn_training.evaluation import tables
    from aragorn_training.evaluation.evaluate import (
        ALL_MEASURES,
        COMPACT_MEASURES,
        evaluate_run,
        parse_measure,
    )
    from aragorn_training.evaluation.overlap import (
        compute_overlap,
        exclude_documents,
        format_overlaps,
        read_docnos,
        read_restricted_run,
    )

    shown = [parse_measure(name) for name in options.measures] or [*COMPACT_MEASURES]
    qrels_files = index_files_by_name(options.qrels, "qrels")
    run_files = index_files_by_name(options.runs, "run")
    docnos, retrievable = options.read_docnos()
    qrels_by_name = {name: read_qrels(file, docnos) for name, file in qrels_files.items()}
    runs = {
        name: read_restricted_run(file, options.order, retrievable)
        for name, file in run_files.items()
    }
    if options.exclude_ids:
        excluded = read_docnos(options.exclude_ids)
        for tables_by_name in (qrels_by_name, runs):
            for name, table in tables_by_name.items():
                tables_by_name[name] = exclude_documents(table, excluded, name)
    overlaps = [
        compute_overlap(run, qrels, (name, label), (run_files[name], qrels_files[label]))
        for label, qrels in qrels_by_name.items()
        for name, run in runs.items()
    ]
    measures = [*dict.fromkeys([*shown, *ALL_MEASURES])]
    shown = measures if options.all_measures else shown
    values = {
        label: {name: evaluate_run(run, qrels, measures) for name, run in runs.items()}
        for label, qrels in qrels_by_name.items()
    }
    means = tables.tabulate_means(values, overlaps)
    tests = tables.tabulate_significance(values, options.baseline) if options.baseline else None
    if options.output:
        tables.write_tables(options.output, means, values, tests)
    for line in format_overlaps(overlaps):
        log.info("%s", line)
    for line in tables.describe_tests(values, tests):
        log.warning("%s", line)
    is_terminal = options.format == "table" and sys.stdout.isatty()
    format_name = "terminal" if is_terminal else options.format
    print(tables.format_evaluation(means, tests, shown, format_name))
    if options.format not in ("csv", "json"):
        test_legend = TEST_LEGEND.format(options.baseline) if options.baseline else ""
        legend = f"{EVALUATION_LEGEND.format(shown[0])}{test_legend}"
        print("\n" + (indent(legend, "% ") if options.format == "latex" else legend))


def compare(options: CompareOptions) -> None:
    """Show how two runs differ in documents, ranks, scores and, with --qrels, measures; of two
    directories, how the runs of each system differ."""
    from aragorn_training.evaluation.comparison import compare_directories, find_runs

    name_a, first = options.first
    name_b, second = options.second
    names = (name_a, name_b)
    if name_a == name_b:
        names = (escape_name(str(first)), escape_name(str(second)))
    if not (first.is_dir() and second.is_dir()):
        for directory, path in ((first, second), (second, first)):
            if directory.is_dir() and not path.exists():
                raise InputError(f"{path}: not found; expected a run or a directory of runs")
        if options.system:
            raise UsageError("compare: --system applies to two directories; remove it")
        return _compare_in_detail(first, second, names, options)
    runs_a = find_runs(first)
    runs_b = find_runs(second)
    if not options.system:
        if options.qrels or options.output:
            raise UsageError("compare: --qrels and -o are for two runs; add --system NAME")
        _, retrievable = options.read_docnos()
        lines = compare_directories(runs_a, runs_b, names, options.order, retrievable)
        return print("\n".join(map(escape_unprintable, lines)))
    for name, runs in zip(names, (runs_a, runs_b), strict=True):
        if options.system not in runs:
            raise UsageError(f"{name}: no run of this system; {suggest(options.system, runs)}")
    return _compare_in_detail(runs_a[options.system], runs_b[options.system], names, options)


def _compare_in_detail(
    file_a: Path, file_b: Path, names: tuple[str, str], options: CompareOptions
) -> None:
    from aragorn.io.qrels import read_qrels
    from aragorn_training.evaluation.comparison import (
        compare_measures,
        compare_rankings,
        evaluate_common_topics,
    )
    from aragorn_training.evaluation.evaluate import HEADLINE_MEASURES
    from aragorn_training.evaluation.overlap import compute_overlap, read_restricted_run
    from aragorn_training.evaluation.tables import write_csvs
    from aragorn_training.formatting import DASH

    docnos, retrievable = options.read_docnos()
    first, second = (
        read_restricted_run(file, options.order, retrievable) for file in (file_a, file_b)
    )
    comparison = compare_rankings(first, second, names)
    tables = {"topics": comparison.topics, "moves": comparison.moves.set_index(["qid", "docno"])}
    text = comparison.format_summary()
    if options.qrels:
        qrels = read_qrels(options.qrels, docnos)
        for run, name, file in ((first, names[0], file_a), (second, names[1], file_b)):
            shared_rows = run[run["qid"].isin(comparison.topics.index)]
            compute_overlap(shared_rows, qrels, (name, options.qrels.name), (file, options.qrels))
        values_a, values_b = evaluate_common_topics(first, second, qrels)
        tables["measures"] = compare_measures(values_a, values_b)
        differences = (values_b - values_a)[[*HEADLINE_MEASURES]].add_prefix("Δ ")
        tables["topics"] = comparison.topics.join(differences)
    changed = tables["topics"][comparison.topics["first_rank"].notna()]
    if len(changed):
        text += "\n\n" + changed.to_string(
            formatters={"first_rank": "{:.0f}".format}, float_format="{:z.3f}".format, na_rep=DASH
        )
    if options.qrels:
        measures = tables["measures"].to_string(float_format="{:z.4f}".format, na_rep=DASH)
        text += f"\n\n{measures}\n\n{COMPARISON_LEGEND.format(*names)}"
    if options.output:
        write_csvs(options.output, tables)
    print("\n".join(map(escape_unprintable, text.split("\n"))))


def overlap(options: OverlapOptions) -> None:
    """Compare the top 100 of the runs of a directory by Jaccard index and rank correlation."""
    from aragorn_training.evaluation.similarity import compare_runs

    for name, table in compare_runs(
        options.runs, options.output or options.runs / "analysis", options.order
    ).items():
        print(f"{name}\n{table.to_string(float_format=lambda value: f'{value:.2f}', na_rep='')}\n")


def report(options: ReportOptions) -> None:
    """Write a self-contained HTML report on runs of directories, or on the published figures."""
    if options.published:
        from aragorn_training.report.published_pages import write_published

        return write_published(options.output or Path("published.html"))
    if not (options.runs and options.qrels):
        raise UsageError("report: RUN_DIR and --qrels are required without --published")
    from aragorn.io.dataset import Dataset
    from aragorn_training.report.report import write_report

    return write_report(
        options.runs,
        index_files_by_name(options.qrels, "qrels"),
        Dataset(*options.inputs),
        options.checkpoint_dir,
        options.output or options.runs[0] / "report.html",
        options.baseline,
        options.order,
    )


def docs(options: NoOptions) -> None:
    """Update the generated sections of the documents, and the plot of argument quality."""
    import pandas as pd

    from aragorn.storage.atomic_files import write_atomic
    from aragorn_training.evaluation.plots import PNG_SIGNATURE
    from aragorn_training.report.published import RESULTS
    from aragorn_training.report.published_pages import write_published
    from aragorn_training.report.sections import update_readmes
    from aragorn_training.studies.argument_quality.plot import plot_correlations

    update_readmes()
    write_published()
    results = pd.read_csv(RESULTS / "argument_quality.csv")
    picture = plot_correlations(results, "logistic")  # the loss of tfr_bert
    write_atomic(RESULTS / "argument_quality.png", picture, PNG_SIGNATURE)
