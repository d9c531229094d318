"""Command line: `python -m training VERB`; tables go to stdout, words for people to stderr."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from submission import command
from submission.data import Data
from submission.device import choose_device
from submission.ensemble import NAME as ENSEMBLE
from training import aggregate, analysis, embed, evaluate, fit, prepare, readme, report, reproduce, results
from training.recipe import read_recipe

EXIT_CODES = """exit codes: 0 done; 1 a mistake of the program; 2 usage; 3 input; 4 checkpoint; 5 output;
7 a network that does not learn or diverges; 8 a checkpoint that is not reproduced"""


def main(arguments: list[str] | None = None) -> int:
    """Run a verb; the exit code."""
    return command.run(_parser(), arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="training", description=__doc__, epilog=EXIT_CODES)
    verbs = parser.add_subparsers(required=True, metavar="VERB")

    verb = _verb(verbs, "prepare", _prepare, "corpus → training and validation tables with distant labels")
    verb.add_argument("-i", "--input", type=Path, required=True, metavar="DIR", help="directory with the args.me corpus")
    verb.add_argument("-o", "--output", type=Path, required=True, metavar="WORK", help="working directory for the tables")
    verb.add_argument("--sample", type=_natural, default=0, metavar="N", help="only N random arguments (0: all)")
    verb.add_argument("--seed", type=_natural, default=0, help="of samples and split")
    verb.add_argument("--overwrite", action="store_true", help="replace the tables of another input or setting")

    defaults = embed.Settings()
    verb = _verb(verbs, "embed", _embed, "word vectors, trained on the premises or read from a file")
    verb.add_argument("work", type=Path, metavar="WORK", help="what `prepare` wrote")
    verb.add_argument("-o", "--output", type=Path, metavar="DIR", help="where to write (default: WORK/vectors)")
    verb.add_argument("--vectors", type=Path, metavar="FILE", help="read GloVe or word2vec vectors instead of training")
    verb.add_argument("--method", choices=["word2vec", "fasttext"], default=defaults.method, help="how to train (skip-gram)")
    verb.add_argument("--dimensions", type=_positive, default=defaults.dimensions, help="of a vector")
    verb.add_argument(
        "--minimum-frequency", type=_positive, default=defaults.minimum_frequency, help="of a word in the premises"
    )
    verb.add_argument("--epochs", type=_positive, default=defaults.epochs, help="passes over the premises")
    verb.add_argument("--seed", type=_natural, default=defaults.seed, help="of the vectors")
    verb.add_argument("--overwrite", action="store_true", help="replace vectors made otherwise")

    verb = _verb(verbs, "fit", _fit, "train a network by a recipe; goes on where it was stopped")
    verb.add_argument("recipe", metavar="RECIPE", help="a name in training/recipes, or a .toml file")
    verb.add_argument("--work", type=Path, required=True, metavar="WORK", help="what `prepare` wrote")
    verb.add_argument("--vectors", type=Path, metavar="DIR", help="what `embed` wrote (default: WORK/vectors)")
    verb.add_argument("-o", "--output", type=Path, metavar="DIR", help="checkpoint (default: WORK/checkpoints/RECIPE)")
    verb.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto", help="auto: the GPU if there is one")
    verb.add_argument("--restart", action="store_true", help="forget an earlier run of this recipe")

    verb = _verb(verbs, "aggregate", _aggregate, "the networks' checkpoints → the ensemble, fitted on validation pairs")
    verb.add_argument("--work", type=Path, required=True, metavar="WORK", help="what `prepare` wrote")
    command.add_checkpoints(verb)
    verb.add_argument("-o", "--output", type=Path, metavar="DIR", help="the ensemble (default: WORK/checkpoints/ensemble)")
    verb.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto", help="auto: the GPU if there is one")

    verb = _verb(verbs, "reproduce", _reproduce, "make a checkpoint anew and compare its metrics: OK, near or FAIL")
    verb.add_argument("recipe", metavar="NAME", help="a recipe whose checkpoint is there, or ensemble")
    verb.add_argument("-i", "--input", type=Path, required=True, metavar="DIR", help="the corpus that it was trained on")
    verb.add_argument("--work", type=Path, required=True, metavar="WORK", help="working directory; what is there is used")
    command.add_checkpoints(verb)
    verb.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto", help="auto: the GPU if there is one")

    verb = _verb(verbs, "analyse", _analyse, "how alike the runs of a directory are: Jaccard, Spearman, heat maps")
    verb.add_argument("runs", type=Path, metavar="RUN_DIR", help="with <team>-<system>.txt runs")
    verb.add_argument("-o", "--output", type=Path, metavar="DIR", help="tables and heat maps (default: RUN_DIR/analysis)")

    verb = _verb(verbs, "results", _results, "write the README's table from training/measured and the checkpoints' metrics")

    verb = _verb(verbs, "report", _report, "report.html on the runs of a directory: one file, without network and scripts")
    verb.add_argument("runs", type=Path, metavar="RUN_DIR", help="with <team>-<system>.txt runs, bm25 among them")
    verb.add_argument("--qrels", type=Path, required=True, metavar="FILE", help="TREC qrels; -2 counts as 0")
    command.add_input(verb)
    command.add_input_run(verb)
    command.add_checkpoints(verb)
    verb.add_argument("-o", "--output", type=Path, metavar="FILE", help="(default: RUN_DIR/report.html)")

    verb = _verb(verbs, "evaluate", _evaluate, "measures of runs: unjudged documents as 0 (all) and dropped (judged)")
    _add_qrels(verb)
    verb.add_argument("--collection", type=Path, metavar="DIR", help="restrict the qrels to the documents of this input")
    verb.add_argument("--baseline", metavar="RUN", help="test the others against this run (its file's name, no ending)")
    verb.add_argument("-o", "--output", type=Path, metavar="DIR", help="means with intervals, values per topic, tests; as CSV")
    verb.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="TREC run files")
    return parser


def _add_qrels(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--qrels", type=_named, action="append", required=True, metavar="[NAME=]FILE",
                      help="TREC qrels, -2 counts as 0; repeatable, e.g. relevance=FILE and quality=FILE")  # fmt: skip


def _named(text: str) -> tuple[str, Path]:
    name, equals, file = text.rpartition("=")
    return (name, Path(file)) if equals else (Path(text).stem, Path(text))


def _verb(verbs: Any, name: str, run: Callable[[argparse.Namespace], None], what: str) -> argparse.ArgumentParser:
    verb: argparse.ArgumentParser = verbs.add_parser(
        name, help=what, description=what, epilog=EXIT_CODES, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    verb.set_defaults(verb=run)
    return verb


def _natural(text: str) -> int:
    if not text.isdecimal() or int(text) >= 2**32:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number from 0")
    return int(text)


def _positive(text: str) -> int:
    if _natural(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number from 1")
    return int(text)


def _prepare(options: argparse.Namespace) -> None:
    prepare.prepare(options.input, options.output, prepare.Settings(options.seed, options.sample), options.overwrite)


def _embed(options: argparse.Namespace) -> None:
    settings = embed.Settings(options.method, options.dimensions, options.minimum_frequency, options.epochs, options.seed)
    embed.embed(options.work, options.output or options.work / "vectors", settings, options.vectors, options.overwrite)


def _fit(options: argparse.Namespace) -> None:
    name = Path(options.recipe).stem
    output = options.output or options.work / "checkpoints" / name
    vectors = options.vectors or options.work / "vectors"
    fit.fit(name, read_recipe(options.recipe), options.work, vectors, output, choose_device(options.device), options.restart)


def _aggregate(options: argparse.Namespace) -> None:
    output = options.output or options.work / "checkpoints" / ENSEMBLE
    aggregate.aggregate(options.work, options.checkpoints, output, choose_device(options.device))


def _reproduce(options: argparse.Namespace) -> None:
    device = choose_device(options.device)
    table, weights = reproduce.reproduce(options.recipe, options.input, options.work, options.checkpoints, device)
    print(f"{table.to_string(float_format=lambda value: f'{value:.2f}')}\n{weights}")


def _analyse(options: argparse.Namespace) -> None:
    for name, table in analysis.analyse(options.runs, options.output or options.runs / "analysis").items():
        print(f"{name}\n{table.to_string(float_format=lambda value: f'{value:.2f}', na_rep='')}\n")


def _results(options: argparse.Namespace) -> None:
    readme.update()


def _report(options: argparse.Namespace) -> None:
    data, output = Data(options.input, options.input_run), options.output or options.runs / "report.html"
    report.report(options.runs, options.qrels, data, options.checkpoints, output)


def _evaluate(options: argparse.Namespace) -> None:
    docnos = set(Data(options.collection).documents["docno"]) if options.collection else None
    values = {name: evaluate.table(options.runs, evaluate.read_qrels(file, docnos)) for name, file in options.qrels}
    print(results.report(values, options.baseline, options.output))


if __name__ == "__main__":
    command.program(main)
