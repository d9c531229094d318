"""Measurements whose tables the README shows: networks and enrichments beside published figures."""

from __future__ import annotations

import argparse

from submission.command import Verbs, add_checkpoints, add_device, add_input, add_processes, folder
from training.commands.shared import COUNT, MEASURES, QRELS, SEED, add_data, add_work, by_name, computing, named
from training.paths import MEASURED

AUGMENTED, STUDENTS, QUALITY, ENRICHMENTS, LENGTHS = (
    MEASURED.with_name(f"{name}.csv") for name in ("augmented", "students", "quality", "enrichments", "lengths")
)


def add(verbs: Verbs) -> None:
    """Add `study` with its studies."""
    studies = verbs.group("study", "measure ways of training or indexing: tables beside published figures", "NAME")
    verb = studies.add("enrichments", _enrichments, "enrichers × models, tuned alike, against plain texts")
    verb.add_argument("enrichments", nargs="+", metavar="NAME", help="the checkpoint of an enricher")
    what = f"{QRELS}; one: five folds over its topics; several: each is a fold"
    verb.add_argument("--qrels", type=named, action="append", required=True, metavar="[NAME=]FILE", help=what)
    add_input(verb)
    verb.add_argument("--measure", choices=MEASURES, default=MEASURES[0], help="by whose mean points are compared")
    what = "a grid of one model; repeatable (default: those of the four systems over whole arguments)"
    verb.add_argument("--grid", action="append", metavar="GRID", dest="grids", help=what)
    add_work(verb, "what is finished is kept there")
    add_checkpoints(verb)
    add_device(verb)
    verb.add_argument("-o", "--output", type=folder, default=ENRICHMENTS, metavar="FILE", help="the table, as CSV")

    verb = studies.add("lengths", _lengths, "how long documents are once taggers have reduced them, beside the thesis' table")
    verb.add_argument("taggers", nargs="+", metavar="NAME", help="a tagger's checkpoint")
    add_input(verb)
    add_work(verb, "what is finished is kept there")
    add_checkpoints(verb)
    add_device(verb)
    verb.add_argument("-o", "--output", type=folder, default=LENGTHS, metavar="FILE", help="the table, as CSV")

    verb = studies.add(
        "augmented-sbert",
        _augmented_sbert,
        "Augmented SBERT on its paper's data: the paper's table, beside the paper's figures",
    )
    what = "with bws/ and mrpc/, each as it is published"
    add_data(verb, what)
    add_work(verb, "what is finished is kept there")
    verb.add_argument("--repetitions", type=COUNT, default=3, metavar="N", help="each with other seeds")
    verb.add_argument("--task", action="append", metavar="NAME", help="this one; repeatable (default: all)")
    verb.add_argument("--encoder", default="all-MiniLM-L6-v2", metavar="NAME", help="where students start; a name or a folder")
    what = "where teachers start; a name or a folder, as `prepare encoder` writes one (default: where students do)"
    verb.add_argument("--teacher", metavar="NAME", help=what)
    verb.add_argument("--seed", type=SEED, default=0, metavar="N", help="of splits, samples and networks")
    add_device(verb)
    add_processes(verb)
    what = (
        "the table, as CSV; its rows of other tasks stay (default: augmented.csv or augmented_TEACHER.csv in training/measured)"
    )
    verb.add_argument("-o", "--output", type=folder, metavar="FILE", help=what)

    verb = studies.add("students", _students, "Augmented SBERT on args.me: students by three losses, on gold, silver and both")
    add_work(verb, "working directory with what `prepare pairs` wrote; what is finished is kept there")
    what = "one with [student]; its loss and pairs are varied (default: sbert)"
    verb.add_argument("--recipe", default="sbert", metavar="RECIPE", help=what)
    add_device(verb)
    verb.add_argument("-o", "--output", type=folder, default=STUDENTS, metavar="FILE", help="the table, as CSV")

    verb = studies.add(
        "argument-quality", _argument_quality, "quality networks on debates and data sets that they were not shown"
    )
    add_work(verb, "working directory with what `prepare lists` wrote")
    verb.add_argument("--recipe", default="tfr_bert", metavar="RECIPE", help="a name in training/recipes, or a .toml file")
    verb.add_argument("--seeds", type=COUNT, default=3, metavar="N", help="of networks")
    verb.add_argument("--part", action="append", metavar="NAME", help="only this one; repeatable (default: all)")
    add_device(verb)
    add_processes(verb)
    what = "the table, as CSV; its rows of other parts stay; beside it a picture of these"
    verb.add_argument("-o", "--output", type=folder, default=QUALITY, metavar="FILE", help=what)


def _enrichments(options: argparse.Namespace) -> None:
    from submission.disk.files import make_directory, write_whole
    from training.enrichments import MODELS, compare

    qrels = by_name(options.qrels, "qrels")
    make_directory(options.output.parent)
    with computing(options, options.output.parent) as execution:
        table = compare(options.enrichments, options.grids or MODELS, qrels, execution, options.measure)
    write_whole(options.output, table.to_csv(index=False, float_format="%.6f", lineterminator="\n"))
    print(table.to_string(index=False, float_format="%.4f", na_rep=""))


def _lengths(options: argparse.Namespace) -> None:
    from submission.disk.files import make_directory, write_whole
    from training.tagging.lengths import lengths

    make_directory(options.output.parent)
    with computing(options, options.output.parent) as execution:
        table = lengths(options.taggers, execution)
    write_whole(options.output, table.to_csv(index=False, float_format="%.2f", lineterminator="\n"))
    print(table.to_string(index=False, float_format="%.0f", na_rep=""))


def _augmented_sbert(options: argparse.Namespace) -> None:
    from submission.disk.files import make_directory, write_whole
    from submission.disk.work import Work
    from submission.scoring.device import choose_device
    from submission.scoring.pretrained import Pretrained
    from training.augmented.gold import TASKS
    from training.augmented.table import table
    from training.augmented.trial import TEACHER, TEACHERS, Settings
    from training.measuring.rows import joined, other_rows
    from training.side_by_side import at_a_time

    student, teacher = Pretrained(options.encoder), Pretrained(options.teacher or options.encoder)
    of_teacher = f"_{teacher.folder.name}" if options.teacher else ""
    output = options.output or AUGMENTED.with_stem(f"{AUGMENTED.stem}{of_teacher}")
    make_directory(output.parent)
    device, tasks = choose_device(options.device), list(dict.fromkeys(options.task or TASKS))
    others = other_rows(output, "task", tasks)  # before anything else: hours go by until the table is written
    with Work(options.work, output.parent) as work:
        settings = Settings(teacher=TEACHERS.get(teacher.folder.name, TEACHER), seed=options.seed)
        processes = options.processes or at_a_time(device)
        found = table(options.input, tasks, options.repetitions, settings, teacher, student, work, device, processes)
    write_whole(output, joined(found, others, "task", list(TASKS), 2))
    shown = found[["task", "network", "test", "paper test", "dev", "silver", "seconds"]]
    print(shown.to_string(index=False, float_format="%.2f", na_rep=""))


def _students(options: argparse.Namespace) -> None:
    from submission.disk.files import make_directory, write_whole
    from submission.errors import UsageError
    from submission.scoring.device import choose_device
    from training.augmented.students import students
    from training.data.work import held
    from training.tasks import read_recipe
    from training.tasks.student import Student

    make_directory(options.output.parent)
    recipe = read_recipe(options.recipe)
    if not isinstance(recipe.task, Student):
        raise UsageError(f"the recipe of {recipe.ranker or recipe.enricher} has no [student]; take one that has")
    with held(options.work):
        found = students(options.work, recipe, recipe.task, choose_device(options.device))
    write_whole(options.output, found.to_csv(index=False, float_format="%.2f", lineterminator="\n"))
    print(found.to_string(index=False, float_format="%.2f", na_rep=""))


def _argument_quality(options: argparse.Namespace) -> None:
    from submission.disk.files import make_directory, write_whole
    from submission.disk.work import Work
    from submission.scoring.device import choose_device
    from training.measuring.rows import joined, other_rows
    from training.side_by_side import at_a_time
    from training.studies.argument_quality.evaluate import ROWS, evaluate, parts_of_rows
    from training.studies.argument_quality.protocol import PARTS
    from training.studies.argument_quality.table import shown
    from training.tasks import read_recipe

    make_directory(options.output.parent)
    recipe, parts = read_recipe(options.recipe), list(dict.fromkeys(options.part or PARTS))
    others = other_rows(options.output, "part", parts_of_rows(parts))  # before anything else: hours go by until it is written
    device = choose_device(options.device)
    with Work(options.work, options.output.parent) as work:
        found, picture = evaluate(parts, options.seeds, recipe, work.directory, device, options.processes or at_a_time(device))
    write_whole(options.output, joined(found, others, "part", ROWS, 4))
    write_whole(options.output.with_suffix(".png"), picture)
    print(shown(found))
