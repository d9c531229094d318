"""Define the subcommands `study NAME`, which compare training or indexing methods with published
results."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from aragorn.cli import Commands, add_options, add_path, integer_between, parse_path

from aragorn_training.cli import options

if TYPE_CHECKING:
    import pandas as pd

CACHE_HELP = "working directory, which caches finished results"
SBERT_PARTS = ("bws_cross", "bws_in", "mrpc")
SBERT_SWEEPS = (
    "gold",
    "single_seed",
    "bm25_k",
    "semantic_k",
    "random_ratio",
    "kde_ratio",
    "gold_pairs",
    "step_fraction",
)
QUALITY_PARTS = (
    "ukp",
    "ukp_16_folds",
    "ukp_32_folds",
    "ibm",
    "ukp_transfer",
    "ibm_transfer",
    "ukp+ibm_to_webis",
)


def add_parsers(commands: Commands) -> None:
    """Add the parsers of `study` and of each study."""
    studies = commands.add_group("study", "reproduce published experiments", "NAME")
    _add_collection(studies)
    _add_enrichments(studies)
    _add_lengths(studies)
    _add_rank_changes(studies)
    _add_passages(studies)
    _add_augmented_sbert(studies)
    _add_augmented_sbert_sweeps(studies)
    _add_students(studies)
    _add_argument_quality(studies)
    _add_data(studies)
    _add_trials(studies)
    _add_results(studies)
    _add_similarity(studies)
    _add_networks(studies)


def _add_collection(studies: Commands) -> None:
    parser = studies.add(
        "collection",
        _count_collection,
        "count arguments, unconfirmed texts and judged documents by portal",
    )
    options.add_inputs(parser, "args.me corpus; repeatable")
    help_text = f"{options.QRELS_HELP}; repeatable, e.g. 2020=FILE and 2021=FILE"
    parse = options.parse_named_path
    parser.add_argument(
        "--qrels", type=parse, action="append", required=True, metavar="[NAME=]FILE", help=help_text
    )
    help_text = "file of docnos, one per line, whose texts may differ from args.me (default: none)"
    add_path(parser, "--unconfirmed-ids", metavar="FILE", help=help_text)
    options.add_work_dir(parser, "directory of results/collection.csv", required=False)
    options.add_output(parser, "result CSV (default: WORK_DIR/results/collection.csv)", "FILE")


def _add_enrichments(studies: Commands) -> None:
    parser = studies.add(
        "enrichments",
        _compare_enrichments,
        "compare enriched with unenriched documents under several retrieval models",
    )
    parser.add_argument(
        "enrichments", nargs="+", metavar="NAME", help="name of an enricher's checkpoint"
    )
    options.add_fold_qrels(parser)
    options.add_measure(parser)
    help_text = "grid of a retrieval model to tune; repeatable (default: grids of the four full-text systems)"
    parser.add_argument("--grid", action="append", metavar="GRID", dest="grids", help=help_text)
    _add_input_and_output(parser, "enrichment")


def _add_lengths(studies: Commands) -> None:
    parser = studies.add(
        "lengths", _compare_lengths, "compare document lengths before and after enrichment"
    )
    parser.add_argument(
        "enrichments", nargs="+", metavar="NAME", help="name of an enricher's checkpoint"
    )
    _add_input_and_output(parser, "tagged_document_lengths")


def _add_rank_changes(studies: Commands) -> None:
    description = "compare ranks and query term frequencies of a topic's documents before and after an enrichment"
    parser = studies.add("rank-changes", _tabulate_rank_changes, description)
    parser.add_argument("enrichment", metavar="NAME", help="name of an enricher's checkpoint")
    parser.add_argument(
        "--topic",
        default="1",
        metavar="QID",
        help="topic (default: 1, that of Hollatz 2022, section 5.2)",
    )
    add_path(parser, "--qrels", required=True, metavar="FILE", help=options.QRELS_HELP)
    _add_input_and_output(parser, "rank_changes")


def _add_passages(studies: Commands) -> None:
    parser = studies.add(
        "passages",
        _count_passages,
        "count DeepCT's passages without a relevant word by kept arguments",
    )
    options.add_input(parser, "directory with the args.me corpus")
    options.add_work_dir(parser, "working directory with passages prepared with qrels and runs")
    options.add_output(parser, "result CSV (default: WORK_DIR/results/passages.csv)", "FILE")


def _add_augmented_sbert(studies: Commands) -> None:
    parser = studies.add(
        "augmented-sbert",
        _run_sbert_study,
        "replicate Thakur et al. 2021 (Augmented SBERT) on BWS and MRPC",
    )
    _add_parts(parser, SBERT_PARTS)
    help_text = "result CSV; rows of other parts are kept (default: augmented_sbert[_TEACHER].csv in WORK_DIR/results)"
    _add_sbert_options(parser, help_text)


def _add_augmented_sbert_sweeps(studies: Commands) -> None:
    description = "vary settings of Augmented SBERT, as in tables 5 and 9 to 12 and figures 1 and 6 of Thakur et al. 2021"
    parser = studies.add("augmented-sbert-sweeps", _run_sbert_sweeps, description)
    help_text = "setting to vary; repeatable (default: all)"
    parser.add_argument(
        "--sweep", action="append", choices=SBERT_SWEEPS, dest="sweeps", help=help_text
    )
    help_text = "result CSV; rows of other sweeps are kept (default: WORK_DIR/results/augmented_sbert_sweeps.csv)"
    _add_sbert_options(parser, help_text)


def _add_sbert_options(parser: argparse.ArgumentParser, output_help: str) -> None:
    options.add_input(parser, "directory with bws/ and mrpc/, as published")
    options.add_work_dir(parser, CACHE_HELP)
    help_text = "number of repetitions with different seeds"
    parser.add_argument(
        "--repetitions", type=options.positive_int, default=3, metavar="N", help=help_text
    )
    help_text = "initial bi-encoder: name or directory"
    parser.add_argument(
        "--student", "--encoder", default="all-MiniLM-L6-v2", metavar="NAME", help=help_text
    )
    help_text = "initial cross-encoder: name, or directory written by `prepare encoder` (default: the encoder of --student)"
    parser.add_argument("--teacher", metavar="NAME", help=help_text)
    options.add_seed(parser, "random seed of splits, samples and networks")
    _add_device_and_processes(parser)
    options.add_output(parser, output_help, "FILE")


def _add_students(studies: Commands) -> None:
    parser = studies.add(
        "students",
        _compare_students,
        "compare losses and training pairs of Augmented SBERT on args.me",
    )
    options.add_work_dir(
        parser, "working directory prepared by `prepare pairs`; caches finished results"
    )
    help_text = "recipe with an [augmented_sbert] table; loss and training pairs are varied"
    parser.add_argument("--recipe", default="sbert", metavar="RECIPE", help=help_text)
    add_options(parser, "device")
    options.add_output(
        parser, "result CSV (default: WORK_DIR/results/augmented_sbert_students.csv)", "FILE"
    )


def _add_argument_quality(studies: Commands) -> None:
    parser = studies.add(
        "argument-quality",
        _run_quality_study,
        "evaluate TFR-BERT by cross-validation and on other data sets",
    )
    options.add_work_dir(
        parser, "working directory prepared by `prepare quality`; caches finished results"
    )
    help_text = "recipe name in training/aragorn_training/configs/recipes, or .toml file"
    parser.add_argument("--recipe", default="tfr_bert", metavar="RECIPE", help=help_text)
    _add_parts(parser, QUALITY_PARTS)
    help_text = "number of seeds per network"
    parser.add_argument(
        "--repetitions",
        "--seeds",
        type=options.positive_int,
        default=3,
        metavar="N",
        help=help_text,
    )
    _add_device_and_processes(parser)
    help_text = "result CSV; rows of other parts are kept; a scatter plot is written next to it"
    options.add_output(
        parser, f"{help_text} (default: WORK_DIR/results/argument_quality.csv)", "FILE"
    )


def _add_data(studies: Commands) -> None:
    description = "describe the data of Thakur et al. 2021 and Favreau et al. 2022: sizes, lengths, labels, overlap"
    parser = studies.add("data", _describe_data, description)
    options.add_input(parser, "directory with bws/ and mrpc/, as published")
    options.add_work_dir(parser, "working directory prepared by `prepare quality`")
    options.add_seed(parser, "random seed of splits and of shuffled pairs")
    options.add_output(
        parser, "result CSV (default: WORK_DIR/results/publication_data.csv)", "FILE"
    )


def _add_trials(studies: Commands) -> None:
    parser = studies.add(
        "trials", _run_trials, "train variants of recipes and tabulate their learning curves"
    )
    parser.add_argument(
        "plan", metavar="PLAN", help="name of a plan in training/aragorn_training/configs/plans"
    )
    options.add_work_dir(
        parser, "working directory prepared for the recipes; interrupted trials resume"
    )
    help_text = "number of seeds per trial"
    parser.add_argument(
        "--repetitions",
        "--seeds",
        type=options.positive_int,
        default=1,
        metavar="N",
        help=help_text,
    )
    _add_device_and_processes(parser)
    options.add_output(
        parser,
        "result CSV, written after each trial (default: WORK_DIR/results/trials_PLAN.csv)",
        "FILE",
    )


def _add_results(studies: Commands) -> None:
    description = "tabulate all systems: nested cross-validation on the year of tuning, held-out results on test years"
    parser = studies.add("results", _tabulate_results, description)
    options.add_inputs(parser, "topics of the tuning year, and the corpus; repeatable")
    metavar = ("YEAR", "QRELS", "RUN_DIR")
    help_text = "year whose topics tune systems, its qrels, and the runs of untuned systems"
    parser.add_argument("--tuning", nargs=3, required=True, metavar=metavar, help=help_text)
    help_text = "year that tunes nothing, its qrels, and the runs of all systems; repeatable"
    parser.add_argument(
        "--test",
        nargs=3,
        action="append",
        required=True,
        metavar=metavar,
        dest="tests",
        help=help_text,
    )
    help_text = "system to tabulate; repeatable (default: all; always with dirichlet)"
    parser.add_argument("--system", action="append", metavar="NAME", dest="systems", help=help_text)
    parser.add_argument(
        "--fusion",
        default="fusion",
        metavar="FUSION",
        help="recipe of the system fusion (default: fusion)",
    )
    help_text = (
        "file of docnos, one per line, to exclude from runs and qrels; "
        "writes systems_excluded.csv without nested results"
    )
    add_path(parser, "--exclude-ids", metavar="FILE", help=help_text)
    options.add_work_dir(
        parser, "working directory prepared by `prepare quality`; caches finished results"
    )
    add_options(parser, "checkpoint_dir", "device")
    options.add_output(parser, "directory of systems*.csv (default: WORK_DIR/results)")


def _add_similarity(studies: Commands) -> None:
    parser = studies.add(
        "similarity",
        _compare_similarities,
        "compare similarities of conclusions, by which negatives are sampled",
    )
    options.add_inputs(parser, "args.me corpus; repeatable")
    options.add_work_dir(parser, "working directory with vectors/, prepared by `prepare vectors`")
    help_text = (
        "term whose conclusions are related; repeatable (default: abortion, as in Entezari 2020)"
    )
    parser.add_argument("--term", action="append", dest="terms", metavar="TERM", help=help_text)
    options.add_seed(parser, "random seed of the unrelated conclusions")
    options.add_output(
        parser, "result CSV (default: WORK_DIR/results/conclusion_similarity.csv)", "FILE"
    )


def _add_networks(studies: Commands) -> None:
    description = (
        "describe corpus, candidates and rankings of the networks as in Entezari 2020, with plots"
    )
    parser = studies.add("networks", _describe_networks, description)
    options.add_inputs(parser, "topics and args.me corpus; repeatable")
    options.add_work_dir(parser, "working directory prepared by `prepare pairs`")
    add_path(
        parser,
        "--runs",
        required=True,
        metavar="DIR",
        help="directory with <team>-<system>.txt runs of the topics",
    )
    add_path(parser, "--qrels", required=True, metavar="FILE", help=options.QRELS_HELP)
    add_options(parser, "checkpoint_dir")
    options.add_output(
        parser,
        "result CSV; plots are written next to it (default: WORK_DIR/results/networks.csv)",
        "FILE",
    )


def _add_input_and_output(parser: argparse.ArgumentParser, name: str) -> None:
    options.add_inputs(parser, "topics and corpus; repeatable")
    options.add_work_dir(parser, CACHE_HELP)
    add_options(parser, "checkpoint_dir", "device", "precision")
    options.add_output(parser, f"result CSV (default: WORK_DIR/results/{name}.csv)", "FILE")


def _add_parts(parser: argparse.ArgumentParser, parts: tuple[str, ...]) -> None:
    help_text = "part of the study to run; repeatable (default: all)"
    parser.add_argument(
        "--part", "--task", action="append", choices=parts, dest="parts", help=help_text
    )


def _add_device_and_processes(parser: argparse.ArgumentParser) -> None:
    add_options(parser, "device")
    help_text = "number of networks trained in parallel, one thread each (default: number of cores; 1 on a GPU)"
    parser.add_argument("--processes", type=integer_between(1, 1024), metavar="N", help=help_text)


def _count_collection(args: argparse.Namespace) -> None:
    from aragorn_training.evaluation.exclusion import read_docnos
    from aragorn_training.evaluation.qrels import read_qrels
    from aragorn_training.studies.collection import tabulate_collection

    output = options.prepare_result_file(args, "collection.csv")
    qrels_by_name = {
        name: read_qrels(file)
        for name, file in options.index_files_by_name(args.qrels, "qrels").items()
    }
    unconfirmed = read_docnos(args.unconfirmed_ids) if args.unconfirmed_ids else set[str]()
    _write_and_print(
        output, tabulate_collection(args.inputs, unconfirmed, qrels_by_name), 0, "%.0f"
    )


def _compare_enrichments(args: argparse.Namespace) -> None:
    from aragorn_training.studies.enrichments import MODEL_GRIDS, compare_enrichments

    qrels, output = (
        options.index_files_by_name(args.qrels, "qrels"),
        options.prepare_result_file(args, "enrichment.csv"),
    )
    with options.open_execution(args, args.work_dir, output.parent) as execution:
        table = compare_enrichments(
            args.enrichments, args.grids or MODEL_GRIDS, qrels, execution, args.measure
        )
    _write_and_print(output, table, 6, "%.4f")


def _compare_lengths(args: argparse.Namespace) -> None:
    from aragorn_training.studies.document_lengths import tabulate_lengths

    output = options.prepare_result_file(args, "tagged_document_lengths.csv")
    with options.open_execution(args, args.work_dir, output.parent) as execution:
        table = tabulate_lengths(args.enrichments, execution)
    _write_and_print(output, table, 2, "%.0f")


def _tabulate_rank_changes(args: argparse.Namespace) -> None:
    from aragorn_training.evaluation.qrels import read_qrels
    from aragorn_training.studies.rank_changes import tabulate_rank_changes

    qrels, output = read_qrels(args.qrels), options.prepare_result_file(args, "rank_changes.csv")
    with options.open_execution(args, args.work_dir, output.parent) as execution:
        table = tabulate_rank_changes(args.enrichment, args.topic, qrels, execution)
    _write_and_print(output, table, 0, "%.0f")


def _count_passages(args: argparse.Namespace) -> None:
    from aragorn_training.studies.passages import count_passages

    output = options.prepare_result_file(args, "passages.csv")
    _write_and_print(output, count_passages(args.input_dir, args.work_dir), 1, "%.1f")


def _run_sbert_study(args: argparse.Namespace) -> None:
    from aragorn.inference.pretrained import PretrainedEncoder

    from aragorn_training.studies.augmented_sbert.study import run_study

    suffix = f"_{PretrainedEncoder(args.teacher).folder.name}" if args.teacher else ""
    results = _run_sbert(
        args, run_study, f"augmented_sbert{suffix}.csv", "task", args.parts, SBERT_PARTS
    )
    columns = ["task", "network", "test", "dev", "silver_pairs", "seconds"]
    print(results[columns].to_string(index=False, float_format="%.2f", na_rep=""))


def _run_sbert_sweeps(args: argparse.Namespace) -> None:
    from aragorn_training.studies.augmented_sbert.sweeps import run_sweeps

    results = _run_sbert(
        args, run_sweeps, "augmented_sbert_sweeps.csv", "sweep", args.sweeps, SBERT_SWEEPS
    )
    print(results.to_string(index=False, float_format="%.2f", na_rep=""))


def _run_sbert(
    args: argparse.Namespace,
    run: Callable[..., pd.DataFrame],
    file_name: str,
    column: str,
    names: Sequence[str] | None,
    all_names: Sequence[str],
) -> pd.DataFrame:
    """Run the named parts of a study of Augmented SBERT (None: all), and update their rows in its
    CSV; return these rows."""
    from aragorn.inference.device import choose_device
    from aragorn.inference.pretrained import PretrainedEncoder
    from aragorn.storage.atomic_files import write_atomic
    from aragorn.storage.cache_directory import CacheDirectory

    from aragorn_training.evaluation.tables import merge_rows, read_rows_to_keep
    from aragorn_training.mapping import get_default_process_count
    from aragorn_training.studies.augmented_sbert.trial import TEACHER, TEACHER_CONFIGS, Settings

    student, teacher = (
        PretrainedEncoder(args.student),
        PretrainedEncoder(args.teacher or args.student),
    )
    output = options.prepare_result_file(args, file_name)
    device, names = choose_device(args.device), list(dict.fromkeys(names or all_names))
    # read first, to fail before hours of training
    previous_rows = read_rows_to_keep(output, column, names)
    with CacheDirectory(args.work_dir, output.parent) as cache:
        settings = Settings(
            teacher=TEACHER_CONFIGS.get(teacher.folder.name, TEACHER), seed=args.seed
        )
        processes = args.processes or get_default_process_count(device)
        results = run(
            args.input_dir,
            names,
            args.repetitions,
            settings,
            teacher,
            student,
            cache,
            device,
            processes,
        )
    write_atomic(output, merge_rows(results, previous_rows, column, list(all_names), 2))
    return results


def _compare_students(args: argparse.Namespace) -> None:
    from aragorn.errors import UsageError
    from aragorn.inference.device import choose_device

    from aragorn_training.data.work_directory import lock_work_directory
    from aragorn_training.sbert.students import compare_students
    from aragorn_training.tasks import load_recipe
    from aragorn_training.tasks.augmented_sbert import AugmentedSBERTSpec

    recipe, output = (
        load_recipe(args.recipe),
        options.prepare_result_file(args, "augmented_sbert_students.csv"),
    )
    if not isinstance(recipe.task, AugmentedSBERTSpec):
        raise UsageError(
            f"--recipe {args.recipe}: no [augmented_sbert] table; choose a recipe that has one"
        )
    with lock_work_directory(args.work_dir):
        table = compare_students(args.work_dir, recipe, recipe.task, choose_device(args.device))
    _write_and_print(output, table, 2, "%.2f")


def _run_quality_study(args: argparse.Namespace) -> None:
    from aragorn.inference.device import choose_device
    from aragorn.storage.atomic_files import write_atomic
    from aragorn.storage.cache_directory import CacheDirectory

    from aragorn_training.evaluation.tables import merge_rows, read_rows_to_keep
    from aragorn_training.mapping import get_default_process_count
    from aragorn_training.studies.argument_quality.study import (
        ROW_SETTINGS,
        list_replaced_settings,
        run_study,
    )
    from aragorn_training.studies.argument_quality.table import format_means
    from aragorn_training.tasks import load_recipe

    recipe, parts = load_recipe(args.recipe), list(dict.fromkeys(args.parts or QUALITY_PARTS))
    output = options.prepare_result_file(args, "argument_quality.csv")
    # before hours of training
    previous_rows = read_rows_to_keep(output, "setting", list_replaced_settings(parts))
    device = choose_device(args.device)
    processes = args.processes or get_default_process_count(device)
    with CacheDirectory(args.work_dir, output.parent) as cache:
        table, plot = run_study(parts, args.repetitions, recipe, cache.directory, device, processes)
    write_atomic(output, merge_rows(table, previous_rows, "setting", ROW_SETTINGS, 4))
    write_atomic(output.with_suffix(".png"), plot)
    print(format_means(table))


def _describe_data(args: argparse.Namespace) -> None:
    from aragorn_training.studies.publication_data import describe_data
    from aragorn_training.tasks import load_recipe

    output = options.prepare_result_file(args, "publication_data.csv")
    _write_and_print(
        output,
        describe_data(args.input_dir, args.work_dir, load_recipe("tfr_bert"), args.seed),
        4,
        "%.4g",
    )


def _compare_similarities(args: argparse.Namespace) -> None:
    from aragorn_training.data.word_vectors import get_default_folder_name
    from aragorn_training.studies.conclusion_similarity import compare_similarity_measures

    output = options.prepare_result_file(args, "conclusion_similarity.csv")
    vectors = args.work_dir / get_default_folder_name(None)
    table = compare_similarity_measures(args.inputs, vectors, args.terms or ["abortion"], args.seed)
    _write_and_print(output, table, 4, "%.3f")


def _describe_networks(args: argparse.Namespace) -> None:
    from aragorn.storage.atomic_files import write_atomic

    from aragorn_training.evaluation.qrels import read_qrels
    from aragorn_training.evaluation.tables import write_csv
    from aragorn_training.studies.networks import describe_networks

    output = options.prepare_result_file(args, "networks.csv")
    table, plots = describe_networks(
        args.inputs, args.work_dir, args.runs, read_qrels(args.qrels), args.checkpoint_dir
    )
    for name, plot in plots.items():
        write_atomic(output.with_name(f"{output.stem}_{name}.png"), plot)
    write_csv(output, table, 4)


def _run_trials(args: argparse.Namespace) -> None:
    from aragorn.inference.device import choose_device

    from aragorn_training.cli.trials import load_plan, run_trials
    from aragorn_training.evaluation.tables import write_csv
    from aragorn_training.mapping import get_default_process_count

    trials, output = (
        load_plan(args.plan, args.repetitions),
        options.prepare_result_file(args, f"trials_{args.plan}.csv"),
    )
    device = choose_device(args.device)
    for table in run_trials(
        trials, args.work_dir, device, args.processes or get_default_process_count(device)
    ):
        write_csv(output, table, 6)


def _tabulate_results(args: argparse.Namespace) -> None:
    from aragorn.storage.atomic_files import create_directory
    from aragorn.systems.catalogue import SYSTEMS, get_system

    from aragorn_training.evaluation.exclusion import read_docnos
    from aragorn_training.evaluation.tables import write_csv
    from aragorn_training.fusion.recipe import read_recipe
    from aragorn_training.report.system_table import BASELINE
    from aragorn_training.studies.nested import NestedTuning
    from aragorn_training.studies.system_results import JudgedYear, tabulate_results
    from aragorn_training.tuning.grid import load_judged_topics

    tuning, *tests = (
        JudgedYear(year, parse_path(qrels), parse_path(runs))
        for year, qrels, runs in [args.tuning, *args.tests]
    )
    selected_names = {BASELINE, *(get_system(name).name for name in args.systems or SYSTEMS)}
    names, recipe = [name for name in SYSTEMS if name in selected_names], read_recipe(args.fusion)
    output = options.get_output(args, "results")
    create_directory(output)
    with options.open_execution(args, args.work_dir, output) as execution:
        nested = NestedTuning(
            load_judged_topics({tuning.year: tuning.qrels}, execution), recipe, execution
        )
        excluded = read_docnos(args.exclude_ids) if args.exclude_ids else set[str]()
        for name, table in tabulate_results(
            tuning, tests, names, nested, execution, excluded
        ).items():
            write_csv(output / f"{name}.csv", table, 6)


def _write_and_print(file: Path, table: pd.DataFrame, digits: int, float_format: str) -> None:
    from aragorn_training.evaluation.tables import write_csv

    write_csv(file, table, digits)
    print(table.to_string(index=False, float_format=float_format, na_rep=""))
