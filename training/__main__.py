"""Command line: `python -m training VERB`; tables go to stdout, words for people to stderr."""

from __future__ import annotations

if __name__ == "__main__":  # first of all: until then Ctrl-C ends in a traceback
    from submission.interrupted import hear

    hear()

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from submission import command
from submission.command import (
    Verbs,
    add_checkpoints,
    add_device,
    add_input,
    add_input_run,
    add_processes,
    add_work,
    folder,
    whole_number,
)
from submission.paths import CHECKPOINTS
from training.paths import MEASURED

if TYPE_CHECKING:
    from submission.systems.execution import Execution

MEASURES = ("nDCG@5 all", "nDCG@5 judged", "MAP all")  # those of `tune`
AUGMENTED, STUDENTS, QUALITY, ENRICHMENTS, LENGTHS = (
    MEASURED.with_name(f"{name}.csv") for name in ("augmented", "students", "quality", "enrichments", "lengths")
)
SEED = whole_number(0, 2**32 - 1)
COUNT = whole_number(1, 2**31)


def main(arguments: list[str] | None = None) -> int:
    """Run a verb; the exit code."""
    return command.run(_parser(), arguments)


def _parser() -> argparse.ArgumentParser:
    verbs = Verbs("training", __doc__)

    verb = verbs.add("prepare", _prepare, "corpus → training and validation tables with distant labels")
    verb.add_argument("-i", "--input", type=folder, required=True, metavar="DIR", help="directory with the args.me corpus")
    verb.add_argument("-o", "--output", type=folder, required=True, metavar="WORK", help="working directory for the tables")
    verb.add_argument("--sample", type=SEED, default=0, metavar="N", help="only N random arguments; 0: all")
    verb.add_argument("--seed", type=SEED, default=0, metavar="N", help="of samples and split")
    what = "also unrelated premises that a search finds, for recipes with `unrelated`"
    verb.add_argument("--unrelated", choices=("dirichlet",), help=what)
    verb.add_argument("--overwrite", action="store_true", help="replace the tables of another input or setting")

    verb = verbs.add("prepare-passages", _prepare_passages, "corpus → passages and the words of theirs that matter (DeepCT)")
    verb.add_argument("-i", "--input", type=folder, required=True, metavar="DIR", help="directory with the args.me corpus")
    verb.add_argument("-o", "--output", type=folder, required=True, metavar="WORK", help="working directory for the table")
    what = "repeatable; TREC qrels, whose documents a recipe may leave out"
    verb.add_argument("--qrels", type=folder, action="append", default=[], metavar="FILE", help=what)
    what = "repeatable; a TREC run, whose first 50 documents of each topic a recipe may leave out too"
    verb.add_argument("--run", type=folder, action="append", default=[], metavar="FILE", dest="runs", help=what)
    verb.add_argument("--overwrite", action="store_true", help="replace the table of other data")

    verb = verbs.add("embed", _embed, "word vectors, trained on the premises or read from a file")
    verb.add_argument("work", type=folder, metavar="WORK", help="what `prepare` wrote")
    verb.add_argument(
        "-o", "--output", type=folder, metavar="DIR", help="where to write (default: WORK/vectors, but see --written)"
    )
    verb.add_argument("--vectors", type=folder, metavar="FILE", help="read GloVe or word2vec vectors instead of training")
    verb.add_argument("--dimensions", type=COUNT, default=300, metavar="N", help="of a vector")
    verb.add_argument("--minimum-frequency", type=COUNT, default=5, metavar="N", help="of a word in the premises")
    verb.add_argument("--epochs", type=COUNT, default=5, metavar="N", help="passes over the premises")
    verb.add_argument("--seed", type=SEED, default=0, metavar="N", help="of the vectors")
    what = "of words as a tagger reads them, by this method, into WORK/vectors-METHOD"
    verb.add_argument("--written", choices=["word2vec", "fasttext"], metavar="METHOD", help=what)
    verb.add_argument("--overwrite", action="store_true", help="replace vectors made otherwise")

    verb = verbs.add("fit", _fit, "train a network by a recipe; goes on where it was stopped")
    verb.add_argument("recipe", nargs="?", metavar="RECIPE", help="a name in training/recipes, or a .toml file")
    verb.add_argument("--all", action="store_true", help="the recipes of all systems, each a process of its own, one a GPU")
    verb.add_argument("--work", type=folder, required=True, metavar="WORK", help="what `prepare` wrote")
    verb.add_argument("--vectors", type=folder, metavar="DIR", help="what `embed` wrote (default: where it writes)")
    verb.add_argument("-o", "--output", type=folder, metavar="DIR", help="checkpoint (default: WORK/checkpoints/RECIPE)")
    add_device(verb)
    verb.add_argument("--restart", action="store_true", help="forget an earlier run of this recipe")

    verb = verbs.add("aggregate", _aggregate, "the networks' checkpoints → the ensemble, fitted on validation pairs")
    verb.add_argument("system", nargs="?", default="ensemble", metavar="SYSTEM", help="one that fuses (default: ensemble)")
    verb.add_argument("--work", type=folder, required=True, metavar="WORK", help="what `prepare` wrote")
    add_checkpoints(verb)
    verb.add_argument("-o", "--output", type=folder, metavar="DIR", help="where it goes (default: in WORK/checkpoints)")
    add_device(verb)

    verb = verbs.add("tune", _tune, "a grid of parameters over judged topics → a lexical system's checkpoint")
    verb.add_argument("grid", metavar="GRID", help="a name in training/grids, or a .toml file")
    what = "TREC qrels, -2 counts as 0; one: five folds over its topics; several: each is a fold"
    verb.add_argument("--qrels", type=folder, action="append", required=True, metavar="FILE", help=what)
    add_input(verb)
    verb.add_argument("--measure", choices=MEASURES, default=MEASURES[0], help="by whose mean points are compared")
    verb.add_argument(
        "--work", type=folder, metavar="DIR", help="what is finished is kept there (default: a temporary directory)"
    )
    add_checkpoints(verb)
    add_device(verb)
    verb.add_argument("-o", "--output", type=folder, metavar="DIR", help="the checkpoint (default: checkpoints/GRID)")

    verb = verbs.add("lengths", _lengths, "how long documents are once taggers have reduced them, beside the thesis' table")
    verb.add_argument("taggers", nargs="+", metavar="NAME", help="a tagger's checkpoint")
    add_input(verb)
    verb.add_argument("--work", type=folder, required=True, metavar="WORK", help="what is finished is kept there")
    add_checkpoints(verb)
    add_device(verb)
    verb.add_argument("-o", "--output", type=folder, default=LENGTHS, metavar="FILE", help="the table, as CSV")

    verb = verbs.add("compare-enrichments", _compare_enrichments, "enrichers × models, tuned alike, against plain texts")
    verb.add_argument("enrichments", nargs="+", metavar="NAME", help="the checkpoint of an enricher")
    what = "TREC qrels, -2 counts as 0; one: five folds over its topics; several: each is a fold"
    verb.add_argument("--qrels", type=folder, action="append", required=True, metavar="FILE", help=what)
    add_input(verb)
    verb.add_argument("--measure", choices=MEASURES, default=MEASURES[0], help="by whose mean points are compared")
    what = "a grid of one model; repeatable (default: those of the four systems over whole arguments)"
    verb.add_argument("--grid", action="append", metavar="GRID", dest="grids", help=what)
    verb.add_argument("--work", type=folder, required=True, metavar="WORK", help="what is finished is kept there")
    add_checkpoints(verb)
    add_device(verb)
    verb.add_argument("-o", "--output", type=folder, default=ENRICHMENTS, metavar="FILE", help="the table, as CSV")

    verb = verbs.add("fuse", _fuse, "a learned fusion's weights by judged topics → its checkpoint, and what each feature adds")
    verb.add_argument("recipe", metavar="FUSION", help="a name in training/fusions, or a .toml file")
    what = "TREC qrels, -2 counts as 0; a second one, e.g. quality=FILE: the labels are a mixture of both"
    verb.add_argument("--qrels", type=_named, action="append", required=True, metavar="[NAME=]FILE", help=what)
    add_input(verb)
    verb.add_argument("--work", type=folder, required=True, metavar="WORK", help="what is finished is kept there")
    add_checkpoints(verb)
    verb.add_argument("-o", "--output", type=folder, metavar="DIR", help="the checkpoint (default: checkpoints/FUSION)")
    verb.add_argument("--tables", type=folder, default=MEASURED.parent, metavar="DIR", help="where the tables go, as CSV")
    add_device(verb)

    verb = verbs.add(
        "prepare-distilled", _prepare_distilled, "titles of debates → a system's scores for them, which a network may learn"
    )
    add_input(verb)
    what = "an XML file with topics that no title may be either, as it may be none of the input's; repeatable"
    verb.add_argument("--topics", type=folder, action="append", default=[], metavar="FILE", help=what)
    verb.add_argument("--system", default="fusion", metavar="SYSTEM", help="the teacher")
    verb.add_argument("--titles", type=COUNT, default=1000, metavar="N", help="at most")
    verb.add_argument("--documents", type=whole_number(2, 1000), default=24, metavar="N", help="of a title")
    verb.add_argument("--seed", type=SEED, default=0, metavar="N", help="of the titles and documents that are drawn")
    what = "working directory for the table; what is finished is kept there"
    verb.add_argument("--work", type=folder, required=True, metavar="WORK", help=what)
    add_checkpoints(verb)
    add_device(verb)
    verb.add_argument("--overwrite", action="store_true", help="replace the table of other titles or of another teacher")

    verb = verbs.add("augment", _augment, "Augmented SBERT on its paper's data: the paper's table, beside the paper's figures")
    what = "with bws/ and mrpc/, each as it is published"
    verb.add_argument("--similarity", type=folder, required=True, metavar="DIR", help=what)
    verb.add_argument("--work", type=folder, required=True, metavar="WORK", help="what is finished is kept there")
    verb.add_argument("--repetitions", type=COUNT, default=3, metavar="N", help="each with other seeds")
    verb.add_argument("--task", action="append", metavar="NAME", help="this one; repeatable (default: all)")
    verb.add_argument("--encoder", default="all-MiniLM-L6-v2", metavar="NAME", help="where teacher and student start")
    verb.add_argument("--seed", type=SEED, default=0, metavar="N", help="of splits, samples and networks")
    add_device(verb)
    add_processes(verb)
    what = "the table, as CSV; its rows of other tasks stay"
    verb.add_argument("-o", "--output", type=folder, default=AUGMENTED, metavar="FILE", help=what)

    verb = verbs.add("students", _students, "Augmented SBERT on args.me: students by three losses, on gold, silver and both")
    what = "what `prepare` wrote; what is finished is kept there"
    verb.add_argument("--work", type=folder, required=True, metavar="WORK", help=what)
    what = "one with [student]; its loss and pairs are varied (default: sbert)"
    verb.add_argument("--recipe", default="sbert", metavar="RECIPE", help=what)
    add_device(verb)
    verb.add_argument("-o", "--output", type=folder, default=STUDENTS, metavar="FILE", help="the table, as CSV")

    verb = verbs.add("prepare-quality", _prepare_quality, "published lists of arguments by quality → tables of one form")
    what = "with some of ukp-conv-arg-rank/, ibm-argq-5.3k/, webis-argquality-20/, each as it is published"
    verb.add_argument("data", type=folder, metavar="DIR", help=what)
    verb.add_argument("--work", type=folder, required=True, metavar="WORK", help="working directory for the tables")
    verb.add_argument("--overwrite", action="store_true", help="replace the tables of other data")

    verb = verbs.add("prepare-tagging", _prepare_tagging, "published documents whose words are tagged → tables")
    what = "with es.txt and wd.txt, persuasive essays and web discourse, as TARGER's authors publish them"
    verb.add_argument("data", type=folder, metavar="DIR", help=what)
    verb.add_argument("--work", type=folder, required=True, metavar="WORK", help="working directory for the tables")
    verb.add_argument("--overwrite", action="store_true", help="replace the tables of other data")

    verb = verbs.add(
        "evaluate-quality", _evaluate_quality, "quality networks on debates and data sets that they were not shown"
    )
    verb.add_argument("--work", type=folder, required=True, metavar="WORK", help="what `prepare-quality` wrote")
    verb.add_argument("--recipe", default="tfr_bert", metavar="RECIPE", help="a name in training/recipes, or a .toml file")
    verb.add_argument("--seeds", type=COUNT, default=3, metavar="N", help="of networks")
    verb.add_argument("--part", action="append", metavar="NAME", help="only this one; repeatable (default: all)")
    add_device(verb)
    add_processes(verb)
    verb.add_argument(
        "-o", "--output", type=folder, default=QUALITY, metavar="FILE", help="the table, as CSV; beside it a picture"
    )

    verb = verbs.add("tune-quality", _tune_quality, "how many documents a system re-orders by quality, and how much")
    verb.add_argument("system", metavar="SYSTEM", help="one that re-orders")
    verb.add_argument("--qrels", type=folder, required=True, metavar="FILE", help="TREC qrels of relevance, -2 counts as 0")
    add_input(verb)
    verb.add_argument("--work", type=folder, required=True, metavar="WORK", help="what `prepare-quality` wrote")
    add_checkpoints(verb)
    add_device(verb)
    verb.add_argument("-o", "--output", type=folder, metavar="DIR", help="the checkpoint (default: in checkpoints/)")

    verb = verbs.add("reproduce", _reproduce, "make a checkpoint anew and compare its metrics: OK, near or FAIL")
    verb.add_argument("recipe", metavar="NAME", help="a recipe whose checkpoint is there, or ensemble")
    verb.add_argument(
        "-i", "--input", type=folder, required=True, metavar="DIR", help="the corpus, or the lists, that it learned from"
    )
    verb.add_argument("--work", type=folder, required=True, metavar="WORK", help="working directory; what is there is used")
    add_checkpoints(verb)
    add_device(verb)

    verb = verbs.add("analyse", _analyse, "how alike the runs of a directory are: Jaccard, Spearman, heat maps")
    verb.add_argument("runs", type=folder, metavar="RUN_DIR", help="with <team>-<system>.txt runs")
    verb.add_argument("-o", "--output", type=folder, metavar="DIR", help="tables and heat maps (default: RUN_DIR/analysis)")

    verbs.add("readme", _readme, "write the parts of the README that are generated: systems, commands, results")

    verb = verbs.add("report", _report, "report.html on the runs of a directory: one file, without network and scripts")
    verb.add_argument("runs", type=folder, metavar="RUN_DIR", help="with <team>-<system>.txt runs and run.txt, one of them")
    verb.add_argument("--qrels", type=folder, required=True, metavar="FILE", help="TREC qrels; -2 counts as 0")
    add_input(verb)
    add_input_run(verb)
    add_checkpoints(verb)
    add_work(verb)
    add_device(verb)
    verb.add_argument("-o", "--output", type=folder, metavar="FILE", help="the report (default: RUN_DIR/report.html)")

    verb = verbs.add("evaluate", _evaluate, "measures of runs: unjudged documents as 0 (all) and dropped (judged)")
    what = "TREC qrels, -2 counts as 0; repeatable, e.g. relevance=FILE and quality=FILE"
    verb.add_argument("--qrels", type=_named, action="append", required=True, metavar="[NAME=]FILE", help=what)
    verb.add_argument("--collection", type=folder, metavar="DIR", help="restrict the qrels to the documents of this input")
    verb.add_argument("--baseline", metavar="RUN", help="test the others against this run (its file's name, no ending)")
    verb.add_argument(
        "-o", "--output", type=folder, metavar="DIR", help="means with intervals, values per topic, tests; as CSV"
    )
    verb.add_argument("runs", type=folder, nargs="+", metavar="RUN", help="TREC run files")
    return verbs.parser


def _named(text: str) -> tuple[str, Path]:
    name, equals, file = text.rpartition("=")
    return (name, Path(file)) if equals else (Path(text).stem, Path(text))


# What a verb needs is imported when it is called: torch, gensim and matplotlib take seconds, and --help needs nothing.


@contextmanager
def _execution(options: argparse.Namespace, output: Path) -> Iterator[Execution]:
    """What systems are computed with, from a verb's flags; `output`, a directory, is where the verb writes."""
    from submission.disk.work import Work
    from submission.input.directory import Input
    from submission.scoring.device import choose_device
    from submission.systems.execution import Execution
    from submission.systems.remembered import Checkpoints

    source = Input(options.input, getattr(options, "input_run", None))
    checkpoints = Checkpoints(options.checkpoints)
    with Work(options.work, output) as work:
        yield Execution(source, checkpoints, choose_device(options.device), work)


def _prepare(options: argparse.Namespace) -> None:
    from submission.disk.files import make_directory
    from training.data.prepare import TableSettings, prepare
    from training.data.work import held

    make_directory(options.output)
    with held(options.output):
        settings = TableSettings(options.seed, options.sample, options.unrelated)
        prepare(options.input, options.output, settings, options.overwrite)


def _prepare_passages(options: argparse.Namespace) -> None:
    from submission.disk.files import make_directory
    from training.data.work import held
    from training.deepct.prepare import prepare_passages

    make_directory(options.output)
    with held(options.output):
        table = prepare_passages(options.input, options.output, options.qrels, options.runs, options.overwrite)
    print("passages without a word that matters, in percent, beside the thesis'")
    print(table.to_string(index=False, float_format="%.1f"))


def _embed(options: argparse.Namespace) -> None:
    from training.data.vectors import VectorSettings, embed, folder_of
    from training.data.work import held

    settings = VectorSettings(options.dimensions, options.minimum_frequency, options.epochs, options.seed, options.written)
    output = options.output or options.work / folder_of(settings.written)
    with held(options.work):
        embed(options.work, output, settings, options.vectors, options.overwrite)


def _fit(options: argparse.Namespace) -> None:
    from submission.errors import UsageError
    from submission.scoring.device import choose_device
    from training.data.vectors import folder_of
    from training.data.work import held_for
    from training.fitting.fit import fit
    from training.fitting.processes import processes
    from training.fitting.recipe import read_recipe
    from training.reproduce import task_of, teach_of

    if options.all:
        _fit_all(options)
        return
    if not options.recipe:
        raise UsageError("fit: expected a RECIPE, or --all")
    recipe, name = read_recipe(options.recipe), Path(options.recipe).stem
    output = options.output or options.work / "checkpoints" / name
    vectors = options.vectors or options.work / folder_of(recipe.tags.vectors if recipe.tags else None)
    device = choose_device(options.device)
    with processes(device) as own, nullcontext() if own.number else held_for(name, options.work):
        fit(name, recipe, task_of(recipe), options.work, vectors, output, device, options.restart, own, teach_of(recipe))


def _fit_all(options: argparse.Namespace) -> None:
    import torch

    from submission.errors import UsageError
    from submission.scoring.device import choose_device
    from training.fitting.jobs import fit_all, recipes

    if options.recipe or options.output or "WORLD_SIZE" in os.environ:
        raise UsageError("fit --all: takes no RECIPE and no --output, and is not for torchrun")
    gpus = torch.cuda.device_count() if choose_device(options.device).type == "cuda" else 0
    flags = ["--device", options.device, *(["--vectors", str(options.vectors)] if options.vectors else [])]
    fit_all(recipes(), [*flags, *(["--restart"] if options.restart else [])], options.work, gpus)


def _aggregate(options: argparse.Namespace) -> None:
    from submission.scoring.device import choose_device
    from submission.systems.catalogue import find
    from submission.systems.remembered import Checkpoints
    from training.data.work import held
    from training.fitting.aggregate import aggregate

    system, checkpoints = find(options.system), Checkpoints(options.checkpoints)
    output = options.output or options.work / "checkpoints" / (system.stage.checkpoint or system.name)
    with held(options.work):
        aggregate(system, options.work, checkpoints, output, choose_device(options.device))


def _tune(options: argparse.Namespace) -> None:
    from training.tune import read_grid, tune

    grid, name = read_grid(options.grid), Path(options.grid).stem
    output = options.output or CHECKPOINTS / name
    with _execution(options, output.parent) as execution:
        table = tune(name, grid, options.qrels, execution, output, options.measure)
    print(table.sort_values(options.measure, ascending=False).head(10).to_string(index=False, float_format="%.4f"))


def _lengths(options: argparse.Namespace) -> None:
    from submission.disk.files import make_directory, write_whole
    from training.tagging.lengths import lengths

    make_directory(options.output.parent)
    with _execution(options, options.output.parent) as execution:
        table = lengths(options.taggers, execution)
    write_whole(options.output, table.to_csv(index=False, float_format="%.2f", lineterminator="\n"))
    print(table.to_string(index=False, float_format="%.0f", na_rep=""))


def _compare_enrichments(options: argparse.Namespace) -> None:
    from submission.disk.files import make_directory, write_whole
    from training.enrichments import MODELS, compare

    make_directory(options.output.parent)
    with _execution(options, options.output.parent) as execution:
        table = compare(options.enrichments, options.grids or MODELS, options.qrels, execution, options.measure)
    write_whole(options.output, table.to_csv(index=False, float_format="%.6f", lineterminator="\n"))
    print(table.to_string(index=False, float_format="%.4f", na_rep=""))


def _fuse(options: argparse.Namespace) -> None:
    from training.fuse import fuse
    from training.fusing.recipe import read_recipe
    from training.measuring.results import TESTED

    recipe, name = read_recipe(options.recipe), Path(options.recipe).stem
    output = options.output or CHECKPOINTS / name
    with _execution(options, output.parent) as execution:
        tables = fuse(name, recipe, options.qrels, execution, output, options.tables)
    for table in tables.values():
        shown = table[table["measure"].isin(TESTED)] if "measure" in table else table
        print(shown.to_string(index=False, float_format="%.4f"), end="\n\n")


def _prepare_distilled(options: argparse.Namespace) -> None:
    from submission.disk.work import Work
    from submission.scoring.device import choose_device
    from submission.systems.catalogue import find
    from submission.systems.execution import Execution
    from submission.systems.remembered import Checkpoints
    from training.distilling.prepare import TitleSettings, asked, prepare_distilled

    system, checkpoints = find(options.system), Checkpoints(options.checkpoints)
    settings = TitleSettings(options.titles, options.documents, options.seed)
    with Work(options.work, options.work) as work:
        source = asked(options.input, options.topics, settings)
        execution = Execution(source, checkpoints, choose_device(options.device), work)
        prepare_distilled(system, execution, options.topics, settings, options.work, options.overwrite)


def _augment(options: argparse.Namespace) -> None:
    from submission.disk.files import make_directory, write_whole
    from submission.disk.work import Work
    from submission.scoring.device import choose_device
    from training.augmented.gold import TASKS
    from training.augmented.table import joined, other_rows, table
    from training.augmented.trial import Settings
    from training.measuring.side_by_side import at_a_time

    make_directory(options.output.parent)
    device, tasks = choose_device(options.device), list(dict.fromkeys(options.task or TASKS))
    others = other_rows(options.output, tasks)  # before anything else: hours go by until the table is written
    with Work(options.work, options.output.parent) as work:
        settings, processes = Settings(seed=options.seed), options.processes or at_a_time(device)
        found = table(options.similarity, tasks, options.repetitions, settings, options.encoder, work, device, processes)
    write_whole(options.output, joined([found, *others]).to_csv(index=False, float_format="%.2f", lineterminator="\n"))
    shown = found[["task", "network", "test", "paper test", "dev", "silver", "seconds"]]
    print(shown.to_string(index=False, float_format="%.2f", na_rep=""))


def _students(options: argparse.Namespace) -> None:
    from submission.disk.files import make_directory, write_whole
    from submission.scoring.device import choose_device
    from training.augmented.students import students
    from training.data.work import held
    from training.fitting.recipe import read_recipe

    make_directory(options.output.parent)
    with held(options.work):
        found = students(options.work, read_recipe(options.recipe), choose_device(options.device))
    write_whole(options.output, found.to_csv(index=False, float_format="%.2f", lineterminator="\n"))
    print(found.to_string(index=False, float_format="%.2f", na_rep=""))


def _prepare_quality(options: argparse.Namespace) -> None:
    from submission.disk.files import make_directory
    from training.data.work import held
    from training.quality.prepare import prepare_quality, there

    make_directory(options.work)
    with held(options.work):
        prepare_quality(options.data, there(options.data), options.work, options.overwrite)


def _prepare_tagging(options: argparse.Namespace) -> None:
    from submission.disk.files import make_directory
    from training.data.work import held
    from training.tagging.prepare import prepare_tagging

    make_directory(options.work)
    with held(options.work):
        prepare_tagging(options.data, options.work, options.overwrite)


def _evaluate_quality(options: argparse.Namespace) -> None:
    from submission.disk.files import make_directory, write_whole
    from submission.disk.work import Work
    from submission.scoring.device import choose_device
    from training.fitting.recipe import read_recipe
    from training.measuring.side_by_side import at_a_time
    from training.quality.evaluate import evaluate
    from training.quality.protocol import PARTS
    from training.quality.table import shown

    make_directory(options.output.parent)
    recipe, parts = read_recipe(options.recipe), list(dict.fromkeys(options.part or PARTS))
    device = choose_device(options.device)
    with Work(options.work, options.output.parent) as work:
        found, picture = evaluate(parts, options.seeds, recipe, work, device, options.processes or at_a_time(device))
    write_whole(options.output, found.to_csv(index=False, float_format="%.4f", lineterminator="\n"))
    write_whole(options.output.with_suffix(".png"), picture)
    print(shown(found))


def _tune_quality(options: argparse.Namespace) -> None:
    from submission.systems.catalogue import find
    from training.tune_quality import tune_quality

    system = find(options.system)
    output = options.output or CHECKPOINTS / (system.stage.checkpoint or system.name)
    with _execution(options, output.parent) as execution:
        table = tune_quality(system, options.qrels, execution, output)
    print(table.to_string(index=False, float_format="%.4f"))


def _reproduce(options: argparse.Namespace) -> None:
    from submission.disk.files import make_directory
    from submission.scoring.device import choose_device
    from training.data.work import held
    from training.reproduce import reproduce

    make_directory(options.work)
    with held(options.work):
        device = choose_device(options.device)
        table, weights = reproduce(options.recipe, options.input, options.work, options.checkpoints, device)
    print(f"{table.to_string(float_format=lambda value: f'{value:.2f}')}\n{weights}")


def _analyse(options: argparse.Namespace) -> None:
    from training.measuring.analysis import analyse

    for name, table in analyse(options.runs, options.output or options.runs / "analysis").items():
        print(f"{name}\n{table.to_string(float_format=lambda value: f'{value:.2f}', na_rep='')}\n")


def _readme(options: argparse.Namespace) -> None:
    from training.measuring.readme import update

    update()


def _report(options: argparse.Namespace) -> None:
    from training.measuring.report import report

    with _execution(options, options.runs) as execution:
        report(options.runs, options.qrels, execution, options.output or options.runs / "report.html")


def _evaluate(options: argparse.Namespace) -> None:
    from submission.input.directory import Input
    from training.measuring import evaluate, results

    docnos = set(Input(options.collection).documents["docno"]) if options.collection else None
    values = {name: evaluate.evaluate_files(options.runs, evaluate.read_qrels(file, docnos)) for name, file in options.qrels}
    print(results.report(values, options.baseline, options.output))


if __name__ == "__main__":
    sys.exit(main())
