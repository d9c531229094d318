"""Run studies that compare training or indexing methods with published results."""

from __future__ import annotations

import argparse

from submission.cli import Commands, add_checkpoints, add_device, add_input, add_processes
from training.cli.options import (
    SELECTION_MEASURES,
    add_data_argument,
    add_fold_qrels,
    add_output,
    add_work_argument,
    open_execution,
    positive_int,
    seed,
    unique_names,
)
from training.paths import RESULTS

AUGMENTED, STUDENTS, QUALITY, ENRICHMENTS, LENGTHS = (
    RESULTS / f"{name}.csv"
    for name in ("augmented_sbert", "augmented_sbert_students", "argument_quality", "enrichment", "tagged_document_lengths")
)
WORK = "working directory; caches finished results"


def add_parsers(commands: Commands) -> None:
    """Add the parser of `study` and its studies."""
    studies = commands.group("study", "reproduce published experiments", "NAME")
    _add_enrichments(studies)
    _add_lengths(studies)
    _add_augmented_sbert(studies)
    _add_students(studies)
    _add_argument_quality(studies)


def _add_enrichments(studies: Commands) -> None:
    parser = studies.add("enrichments", _enrichments, "compare enrichers with unmodified text across retrieval models")
    parser.add_argument("enrichments", nargs="+", metavar="NAME", help="enricher checkpoint")
    add_fold_qrels(parser)
    add_input(parser)
    parser.add_argument(
        "--measure", choices=SELECTION_MEASURES, default=SELECTION_MEASURES[0], help="measure to optimise (mean over topics)"
    )
    help_text = "grid to tune, of one retrieval model; repeatable (default: the four full-text systems)"
    parser.add_argument("--grid", action="append", metavar="GRID", dest="grids", help=help_text)
    add_work_argument(parser, WORK)
    add_checkpoints(parser)
    add_device(parser)
    add_output(parser, "result CSV", "FILE", ENRICHMENTS)


def _add_lengths(studies: Commands) -> None:
    parser = studies.add("lengths", _lengths, "document lengths after TARGER filtering")
    parser.add_argument("taggers", nargs="+", metavar="NAME", help="tagger checkpoint")
    add_input(parser)
    add_work_argument(parser, WORK)
    add_checkpoints(parser)
    add_device(parser)
    add_output(parser, "result CSV", "FILE", LENGTHS)


def _add_augmented_sbert(studies: Commands) -> None:
    parser = studies.add("augmented-sbert", _augmented_sbert, "replicate Thakur et al. 2021 (Augmented SBERT) on BWS and MRPC")
    add_data_argument(parser, "directory with bws/ and mrpc/, as published")
    add_work_argument(parser, WORK)
    parser.add_argument(
        "--repetitions", type=positive_int, default=3, metavar="N", help="number of repetitions with different seeds"
    )
    parser.add_argument("--task", action="append", metavar="NAME", help="run only this task; repeatable (default: all)")
    parser.add_argument("--encoder", default="all-MiniLM-L6-v2", metavar="NAME", help="initial bi-encoder; name or directory")
    help_text = "initial cross-encoder; name, or directory written by `prepare encoder` (default: the same as --encoder)"
    parser.add_argument("--teacher", metavar="NAME", help=help_text)
    parser.add_argument("--seed", type=seed, default=0, metavar="N", help="random seed of splits, samples and networks")
    add_device(parser)
    add_processes(parser)
    help_text = "result CSV; rows of other tasks are kept (default: augmented_sbert[_TEACHER].csv in training/results)"
    add_output(parser, help_text, "FILE")


def _add_students(studies: Commands) -> None:
    parser = studies.add("students", _students, "Augmented SBERT on args.me: losses × training pairs")
    add_work_argument(parser, "working directory prepared by `prepare pairs`; caches finished results")
    help_text = "recipe with [augmented_sbert]; loss and training pairs are varied"
    parser.add_argument("--recipe", default="sbert", metavar="RECIPE", help=help_text)
    add_device(parser)
    add_output(parser, "result CSV", "FILE", STUDENTS)


def _add_argument_quality(studies: Commands) -> None:
    parser = studies.add("argument-quality", _argument_quality, "cross-validated and cross-data-set evaluation of TFR-BERT")
    add_work_argument(parser, "working directory prepared by `prepare lists`; caches finished results")
    parser.add_argument(
        "--recipe", default="tfr_bert", metavar="RECIPE", help="recipe name in training/configs/recipes, or .toml file"
    )
    parser.add_argument(
        "--seeds", type=positive_int, default=3, metavar="N", help="number of networks per cell, with different seeds"
    )
    parser.add_argument("--part", action="append", metavar="NAME", help="run only this part; repeatable (default: all)")
    add_device(parser)
    add_processes(parser)
    help_text = "result CSV; rows of other parts are kept; a scatter plot is written next to it"
    add_output(parser, help_text, "FILE", QUALITY)


def _enrichments(options: argparse.Namespace) -> None:
    from submission.storage.atomic_files import create_directory
    from training.evaluation.tables import write_csv
    from training.studies.enrichments import MODEL_GRIDS, compare_enrichments

    qrels = unique_names(options.qrels, "qrels")
    create_directory(options.output.parent)
    with open_execution(options, options.output.parent) as execution:
        table = compare_enrichments(options.enrichments, options.grids or MODEL_GRIDS, qrels, execution, options.measure)
    write_csv(options.output, table, 6)
    print(table.to_string(index=False, float_format="%.4f", na_rep=""))


def _lengths(options: argparse.Namespace) -> None:
    from submission.storage.atomic_files import create_directory
    from training.evaluation.tables import write_csv
    from training.studies.document_lengths import document_lengths

    create_directory(options.output.parent)
    with open_execution(options, options.output.parent) as execution:
        table = document_lengths(options.taggers, execution)
    write_csv(options.output, table, 2)
    print(table.to_string(index=False, float_format="%.0f", na_rep=""))


def _augmented_sbert(options: argparse.Namespace) -> None:
    from submission.inference.device import choose_device
    from submission.inference.pretrained import PretrainedEncoder
    from submission.storage.atomic_files import create_directory, write_atomic
    from submission.storage.cache_directory import CacheDirectory
    from training.data.datasets.sentence_pairs import LOADERS
    from training.evaluation.tables import merge_rows, rows_to_keep
    from training.parallel import default_processes
    from training.studies.augmented_sbert.study import run_study
    from training.studies.augmented_sbert.trial import TEACHER, TEACHER_CONFIGS, Settings

    student, teacher = PretrainedEncoder(options.encoder), PretrainedEncoder(options.teacher or options.encoder)
    teacher_suffix = f"_{teacher.folder.name}" if options.teacher else ""
    output = options.output or AUGMENTED.with_stem(f"{AUGMENTED.stem}{teacher_suffix}")
    create_directory(output.parent)
    device, tasks = choose_device(options.device), list(dict.fromkeys(options.task or LOADERS))
    previous_rows = rows_to_keep(output, "task", tasks)  # read first: fail before hours of training
    with CacheDirectory(options.work_dir, output.parent) as work:
        settings = Settings(teacher=TEACHER_CONFIGS.get(teacher.folder.name, TEACHER), seed=options.seed)
        processes = options.processes or default_processes(device)
        results = run_study(options.input_dir, tasks, options.repetitions, settings, teacher, student, work, device, processes)
    write_atomic(output, merge_rows(results, previous_rows, "task", list(LOADERS), 2))
    columns = ["task", "network", "test", "published_test", "dev", "silver_pairs", "seconds"]
    print(results[columns].to_string(index=False, float_format="%.2f", na_rep=""))


def _students(options: argparse.Namespace) -> None:
    from submission.errors import UsageError
    from submission.inference.device import choose_device
    from submission.storage.atomic_files import create_directory
    from training.data.work_directory import lock_work_directory
    from training.evaluation.tables import write_csv
    from training.studies.students import evaluate_students
    from training.tasks import load_recipe
    from training.tasks.augmented_sbert import AugmentedSBERTSpec

    create_directory(options.output.parent)
    recipe = load_recipe(options.recipe)
    if not isinstance(recipe.task, AugmentedSBERTSpec):
        raise UsageError(
            f"recipe of {recipe.ranker or recipe.enricher}: no [augmented_sbert] table; choose a recipe that has one"
        )
    with lock_work_directory(options.work_dir):
        table = evaluate_students(options.work_dir, recipe, recipe.task, choose_device(options.device))
    write_csv(options.output, table, 2)
    print(table.to_string(index=False, float_format="%.2f", na_rep=""))


def _argument_quality(options: argparse.Namespace) -> None:
    from submission.inference.device import choose_device
    from submission.storage.atomic_files import create_directory, write_atomic
    from submission.storage.cache_directory import CacheDirectory
    from training.evaluation.tables import merge_rows, rows_to_keep
    from training.parallel import default_processes
    from training.studies.argument_quality.protocol import SETTINGS
    from training.studies.argument_quality.study import ROW_SETTINGS, row_settings, run_study
    from training.studies.argument_quality.table import format_means
    from training.tasks import load_recipe

    create_directory(options.output.parent)
    recipe, parts = load_recipe(options.recipe), list(dict.fromkeys(options.part or SETTINGS))
    previous_rows = rows_to_keep(options.output, "setting", row_settings(parts))  # read first: fail before hours of training
    device = choose_device(options.device)
    processes = options.processes or default_processes(device)
    with CacheDirectory(options.work_dir, options.output.parent) as work:
        table, plot = run_study(parts, options.seeds, recipe, work.directory, device, processes)
    write_atomic(options.output, merge_rows(table, previous_rows, "setting", ROW_SETTINGS, 4))
    write_atomic(options.output.with_suffix(".png"), plot)
    print(format_means(table))
