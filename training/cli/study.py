"""Run studies that compare training or indexing methods with published results."""

from __future__ import annotations

import argparse

from submission.cli import Verbs, add_checkpoints, add_device, add_input, add_processes
from training.cli.options import COUNT, MEASURES, SEED, add_data, add_fold_qrels, add_output, add_work, by_name, computing
from training.paths import MEASURED

AUGMENTED, STUDENTS, QUALITY, ENRICHMENTS, LENGTHS = (
    MEASURED.with_name(f"{name}.csv") for name in ("augmented", "students", "quality", "enrichments", "lengths")
)
WORK = "working directory; caches finished results"


def add(verbs: Verbs) -> None:
    """Add the parser of `study` and its studies."""
    studies = verbs.group("study", "reproduce published experiments", "NAME")
    _add_enrichments(studies)
    _add_lengths(studies)
    _add_augmented_sbert(studies)
    _add_students(studies)
    _add_argument_quality(studies)


def _add_enrichments(studies: Verbs) -> None:
    parser = studies.add("enrichments", _enrichments, "compare enrichers with unmodified text across retrieval models")
    parser.add_argument("enrichments", nargs="+", metavar="NAME", help="enricher checkpoint")
    add_fold_qrels(parser)
    add_input(parser)
    parser.add_argument("--measure", choices=MEASURES, default=MEASURES[0], help="measure to optimise (mean over topics)")
    help_text = "grid to tune, of one retrieval model; repeatable (default: the four full-text systems)"
    parser.add_argument("--grid", action="append", metavar="GRID", dest="grids", help=help_text)
    add_work(parser, WORK)
    add_checkpoints(parser)
    add_device(parser)
    add_output(parser, "result CSV", "FILE", ENRICHMENTS)


def _add_lengths(studies: Verbs) -> None:
    parser = studies.add("lengths", _lengths, "document lengths after TARGER filtering")
    parser.add_argument("taggers", nargs="+", metavar="NAME", help="tagger checkpoint")
    add_input(parser)
    add_work(parser, WORK)
    add_checkpoints(parser)
    add_device(parser)
    add_output(parser, "result CSV", "FILE", LENGTHS)


def _add_augmented_sbert(studies: Verbs) -> None:
    parser = studies.add("augmented-sbert", _augmented_sbert, "replicate Thakur et al. 2021 (Augmented SBERT) on BWS and MRPC")
    add_data(parser, "directory with bws/ and mrpc/, as published")
    add_work(parser, WORK)
    parser.add_argument("--repetitions", type=COUNT, default=3, metavar="N", help="number of repetitions with different seeds")
    parser.add_argument("--task", action="append", metavar="NAME", help="run only this task; repeatable (default: all)")
    parser.add_argument("--encoder", default="all-MiniLM-L6-v2", metavar="NAME", help="initial bi-encoder; name or directory")
    help_text = "initial cross-encoder; name, or directory written by `prepare encoder` (default: the same as --encoder)"
    parser.add_argument("--teacher", metavar="NAME", help=help_text)
    parser.add_argument("--seed", type=SEED, default=0, metavar="N", help="random seed of splits, samples and networks")
    add_device(parser)
    add_processes(parser)
    help_text = "result CSV; rows of other tasks are kept (default: augmented.csv or augmented_TEACHER.csv in training/results)"
    add_output(parser, help_text, "FILE")


def _add_students(studies: Verbs) -> None:
    parser = studies.add("students", _students, "Augmented SBERT on args.me: losses × training pairs")
    add_work(parser, "working directory prepared by `prepare pairs`; caches finished results")
    help_text = "recipe with [student]; loss and training pairs are varied"
    parser.add_argument("--recipe", default="sbert", metavar="RECIPE", help=help_text)
    add_device(parser)
    add_output(parser, "result CSV", "FILE", STUDENTS)


def _add_argument_quality(studies: Verbs) -> None:
    parser = studies.add("argument-quality", _argument_quality, "cross-validated and cross-data-set evaluation of TFR-BERT")
    add_work(parser, "working directory prepared by `prepare lists`; caches finished results")
    parser.add_argument(
        "--recipe", default="tfr_bert", metavar="RECIPE", help="recipe name in training/configs/recipes, or .toml file"
    )
    parser.add_argument("--seeds", type=COUNT, default=3, metavar="N", help="number of networks per cell, with different seeds")
    parser.add_argument("--part", action="append", metavar="NAME", help="run only this part; repeatable (default: all)")
    add_device(parser)
    add_processes(parser)
    help_text = "result CSV; rows of other parts are kept; a scatter plot is written next to it"
    add_output(parser, help_text, "FILE", QUALITY)


def _enrichments(options: argparse.Namespace) -> None:
    from submission.storage.atomic_files import make_directory
    from training.evaluation.tables import write_csv
    from training.studies.enrichments import MODELS, compare

    qrels = by_name(options.qrels, "qrels")
    make_directory(options.output.parent)
    with computing(options, options.output.parent) as execution:
        table = compare(options.enrichments, options.grids or MODELS, qrels, execution, options.measure)
    write_csv(options.output, table, 6)
    print(table.to_string(index=False, float_format="%.4f", na_rep=""))


def _lengths(options: argparse.Namespace) -> None:
    from submission.storage.atomic_files import make_directory
    from training.evaluation.tables import write_csv
    from training.studies.document_lengths import lengths

    make_directory(options.output.parent)
    with computing(options, options.output.parent) as execution:
        table = lengths(options.taggers, execution)
    write_csv(options.output, table, 2)
    print(table.to_string(index=False, float_format="%.0f", na_rep=""))


def _augmented_sbert(options: argparse.Namespace) -> None:
    from submission.inference.device import choose_device
    from submission.inference.pretrained import Pretrained
    from submission.storage.atomic_files import make_directory, write_whole
    from submission.storage.cache_directory import Work
    from training.data.datasets.sentence_pairs import TASKS
    from training.evaluation.tables import joined, other_rows
    from training.parallel import at_a_time
    from training.studies.augmented_sbert.study import table
    from training.studies.augmented_sbert.trial import TEACHER, TEACHERS, Settings

    student, teacher = Pretrained(options.encoder), Pretrained(options.teacher or options.encoder)
    teacher_suffix = f"_{teacher.folder.name}" if options.teacher else ""
    output = options.output or AUGMENTED.with_stem(f"{AUGMENTED.stem}{teacher_suffix}")
    make_directory(output.parent)
    device, tasks = choose_device(options.device), list(dict.fromkeys(options.task or TASKS))
    rows_to_keep = other_rows(output, "task", tasks)  # read first: fail before hours of training
    with Work(options.work, output.parent) as work:
        settings = Settings(teacher=TEACHERS.get(teacher.folder.name, TEACHER), seed=options.seed)
        processes = options.processes or at_a_time(device)
        results = table(options.input, tasks, options.repetitions, settings, teacher, student, work, device, processes)
    write_whole(output, joined(results, rows_to_keep, "task", list(TASKS), 2))
    columns = ["task", "network", "test", "paper test", "dev", "silver", "seconds"]
    print(results[columns].to_string(index=False, float_format="%.2f", na_rep=""))


def _students(options: argparse.Namespace) -> None:
    from submission.errors import UsageError
    from submission.inference.device import choose_device
    from submission.storage.atomic_files import make_directory
    from training.data.work_directory import held
    from training.evaluation.tables import write_csv
    from training.studies.students import evaluate_students
    from training.tasks import read_recipe
    from training.tasks.augmented_sbert import Student

    make_directory(options.output.parent)
    recipe = read_recipe(options.recipe)
    if not isinstance(recipe.task, Student):
        raise UsageError(f"recipe of {recipe.ranker or recipe.enricher}: no [student] table; choose a recipe that has one")
    with held(options.work):
        table = evaluate_students(options.work, recipe, recipe.task, choose_device(options.device))
    write_csv(options.output, table, 2)
    print(table.to_string(index=False, float_format="%.2f", na_rep=""))


def _argument_quality(options: argparse.Namespace) -> None:
    from submission.inference.device import choose_device
    from submission.storage.atomic_files import make_directory, write_whole
    from submission.storage.cache_directory import Work
    from training.evaluation.tables import joined, other_rows
    from training.parallel import at_a_time
    from training.studies.argument_quality.protocol import PARTS
    from training.studies.argument_quality.study import ROWS, evaluate, parts_of_rows
    from training.studies.argument_quality.table import shown
    from training.tasks import read_recipe

    make_directory(options.output.parent)
    recipe, parts = read_recipe(options.recipe), list(dict.fromkeys(options.part or PARTS))
    rows_to_keep = other_rows(options.output, "part", parts_of_rows(parts))  # read first: fail before hours of training
    device = choose_device(options.device)
    processes = options.processes or at_a_time(device)
    with Work(options.work, options.output.parent) as work:
        table, plot = evaluate(parts, options.seeds, recipe, work.directory, device, processes)
    write_whole(options.output, joined(table, rows_to_keep, "part", ROWS, 4))
    write_whole(options.output.with_suffix(".png"), plot)
    print(shown(table))
