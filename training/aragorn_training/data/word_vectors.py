"""Prepare and load word vectors, trained on the premises or read from a GloVe or word2vec file."""

from __future__ import annotations

import logging
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import safetensors
import safetensors.numpy

from aragorn.errors import InputError
from aragorn.options import option
from aragorn.progress import track_weighted
from aragorn.storage.archives import hash_input_files
from aragorn.storage.atomic_files import open_regular
from aragorn.storage.recorded_files import RecordedFiles
from aragorn.text.surface_tokens import find_token_spans, normalise_token
from aragorn.text.tokenisers import Vocabulary
from aragorn.versions import describe_versions
from aragorn_training.data.split import RandomStream, create_generator
from aragorn_training.data.work_directory import (
    build_not_found_error,
    iter_rows,
    open_folder,
    read_prepared_manifest,
)
from aragorn_training.options import (
    PrepareOptions,
    SeedOptions,
    output_option,
    parse_positive_int,
)

VERSION = 1  # of the vectors of the same tables
COMPUTES_WITH = (
    "aragorn.text.normalisation",
    "aragorn.text.surface_tokens",
    "aragorn.text.tokenisers",
    "gensim",
    "numpy",
)

if TYPE_CHECKING:  # importing gensim takes two seconds
    from gensim.models.keyedvectors import KeyedVectors

log = logging.getLogger(__name__)

VOCABULARY_FILE = "vocabulary.txt"
VECTORS_FILE = "vectors.safetensors"
MAX_WORDS_PER_TEXT = 10_000  # gensim truncates longer texts
FASTTEXT_BUCKETS = 200_000  # fastText hash buckets; gensim's default of 2,000,000 takes 0.8 GB
DIMENSIONS = 300  # by default
EPOCHS = 5  # by default
SURFACE_EPOCHS = 20  # by default, for vectors of surface tokens

VectorMethod = Literal["word2vec", "fasttext"]


@dataclass(frozen=True, kw_only=True)
class Options(SeedOptions, PrepareOptions):
    """Options of `prepare vectors`."""

    from_file: Path | None = option(
        None, metavar="FILE", help="file of GloVe or word2vec vectors to read instead of training"
    )
    output: Path | None = output_option(
        "output directory (default: WORK_DIR/vectors; "
        "with --surface-tokens: WORK_DIR/vectors-METHOD)"
    )
    dimensions: int = option(
        DIMENSIONS, parse=parse_positive_int, help="number of dimensions of the vectors"
    )
    minimum_frequency: int = option(
        5, parse=parse_positive_int, help="minimum word frequency in the premises"
    )
    epochs: int | None = option(
        None,
        parse=parse_positive_int,
        help="number of training epochs (default: 5; with --surface-tokens: 20)",
    )
    surface_tokens: VectorMethod | None = option(
        None,
        help="method to train vectors of unnormalised tokens, for TARGER (default: normalised "
        "words)",
    )

    @property
    def n_epochs(self) -> int:
        """Number of training epochs."""
        return self.epochs or (SURFACE_EPOCHS if self.surface_tokens else EPOCHS)


class PremiseTokens:
    """Tokenised training premises, read on each pass and cut after MAX_WORDS_PER_TEXT words."""

    def __init__(self, work_dir: Path, surface_method: VectorMethod | None) -> None:
        self._file = work_dir / get_premise_table(surface_method)
        self._tokenise = split_surface_tokens if surface_method else str.split

    def __iter__(self) -> Iterator[list[str]]:
        for row in iter_rows(self._file, ["premise"], self._file.parent):
            yield self._tokenise(row["premise"])[:MAX_WORDS_PER_TEXT]


def get_premise_table(surface_method: VectorMethod | None) -> str:
    """Return the name of the table whose premises have surface tokens, or normalised words."""
    return f"train.{'pieces' if surface_method else 'words'}.parquet"


def prepare_vectors(options: Options) -> None:
    """Build word vectors, trained on the premises or read from a file.

    Writes vocabulary.txt, and vectors.safetensors with one tensor, `vectors` (terms, dimensions)
    float32. The vocabulary holds the words that the training premises contain at least
    `minimum_frequency` times, most frequent first. The file is word2vec (*.bin or text) or GloVe
    text; words missing from it get random vectors with the standard deviation of those read.
    """
    work_dir = options.work_dir
    method = options.surface_tokens
    tables = read_prepared_manifest(work_dir).files.get(get_premise_table(method))
    if tables is None:
        raise build_not_found_error(work_dir / get_premise_table(method), work_dir, "pairs")
    file = options.from_file
    [file_hash] = hash_input_files([file]).values() if file else ["none"]
    cache_key = {
        "tables": tables.xxh3,
        "version": describe_versions(__name__),
        "dimensions": options.dimensions,
        "minimum_frequency": options.minimum_frequency,
        "epochs": options.n_epochs,
        "seed": options.seed,
        **({"surface_method": method} if method else {}),
        "vectors_file": file_hash,
    }
    folder = options.output or work_dir / get_default_folder_name(method)
    with open_folder(folder, work_dir):
        output = RecordedFiles(folder, cache_key, options.overwrite)
        premises = PremiseTokens(work_dir, method)
        vocabulary = _build_vocabulary(premises, options)

        def write(path: Path) -> None:
            vectors = (
                _read_vectors_file(file, options.dimensions)
                if file
                else _train_vectors(premises, options)
            )
            table = _build_vector_table(vocabulary, vectors, options)
            path.write_bytes(safetensors.numpy.save({"vectors": table}))

        output.build([VECTORS_FILE], write)
        content = vocabulary.to_text().encode()
        output.build([VOCABULARY_FILE], lambda path: path.write_bytes(content))


def _build_vocabulary(premises: PremiseTokens, options: Options) -> Vocabulary:
    """Build the vocabulary; InputError if no word is frequent enough."""
    counts = Counter(word for words in premises for word in words)
    frequent_words = [word for word, count in counts.items() if count >= options.minimum_frequency]
    if not frequent_words:
        raise InputError(
            f"{options.work_dir}: no word has frequency {options.minimum_frequency} or more; lower "
            "--minimum-frequency"
        )
    vocabulary = Vocabulary(sorted(frequent_words, key=lambda word: (-counts[word], word)))
    log.info("Vocabulary: %d of %d distinct words", len(frequent_words), len(counts))
    return vocabulary


def split_surface_tokens(text: str) -> list[str]:
    """Split a text into normalised surface tokens."""
    return [normalise_token(text[start:end]) for start, end in find_token_spans(text)]


def get_default_folder_name(surface_method: VectorMethod | None) -> str:
    """Return the default name of the vectors' folder; None: vectors of normalised words."""
    return f"vectors-{surface_method}" if surface_method else "vectors"


def load_vectors(output_dir: Path) -> tuple[Vocabulary, np.ndarray]:
    """Load vocabulary and vectors (terms, dimensions) float32 of `prepare_vectors`."""
    try:
        vocabulary = Vocabulary.load(output_dir / VOCABULARY_FILE)
        return vocabulary, safetensors.numpy.load_file(output_dir / VECTORS_FILE)["vectors"]
    except (OSError, ValueError, KeyError, safetensors.SafetensorError) as error:
        fix = "run `aragorn-training prepare vectors --work-dir WORK_DIR`"
        raise InputError(f"{output_dir}: cannot load word vectors ({error}); {fix}") from None


def check_vectors(
    output_dir: Path, work_dir: Path, surface_method: VectorMethod | None, dimensions: int
) -> None:
    """Raise InputError with the command to run if `output_dir` has no word vectors."""
    if not (output_dir / VECTORS_FILE).is_file():
        flags = f" --surface-tokens {surface_method}" if surface_method else ""
        flags += f" --dimensions {dimensions}" if dimensions != DIMENSIONS else ""
        raise InputError(
            f"{output_dir}: no word vectors; run `aragorn-training prepare vectors --work-dir "
            f"{work_dir}{flags}`"
        )


def _train_vectors(premises: PremiseTokens, options: Options) -> KeyedVectors:
    from gensim.models import FastText, Word2Vec

    logging.getLogger("gensim").setLevel(logging.WARNING)  # its events are for its developers
    is_fasttext = options.surface_tokens == "fasttext"
    model_class = partial(FastText, bucket=FASTTEXT_BUCKETS) if is_fasttext else Word2Vec
    model = model_class(
        vector_size=options.dimensions,
        min_count=options.minimum_frequency,
        window=5,
        sg=1,
        negative=5,
        seed=options.seed,
        workers=1,  # more workers make training non-deterministic
        hashfxn=lambda text: zlib.crc32(text.encode()),  # Python's hash is randomised per process
    )
    model.build_vocab(premises)
    epochs = _Epochs(premises, model.corpus_count, options.n_epochs)
    model.train(epochs, total_examples=model.corpus_count, epochs=options.n_epochs)
    return model.wv


@dataclass
class _Epochs:
    """Tokenised premises; progress is reported for each pass, an epoch of training."""

    premises: PremiseTokens
    n_premises: int
    n_epochs: int
    epoch: int = 0

    def __iter__(self) -> Iterator[list[str]]:
        self.epoch += 1
        items = ((tokens, 1) for tokens in self.premises)
        label = f"word vectors, epoch {self.epoch} of {self.n_epochs}"
        yield from track_weighted(items, self.n_premises, label, "premises")


def _read_vectors_file(vectors_file: Path, dimensions: int) -> KeyedVectors:
    from gensim.models.keyedvectors import KeyedVectors

    try:
        with open_regular(vectors_file) as stream:
            header = stream.readline().split()
        is_binary = vectors_file.suffix == ".bin"
        has_no_header = not is_binary and len(header) != 2  # GloVe text files have no header
        vectors = KeyedVectors.load_word2vec_format(
            str(vectors_file), binary=is_binary, no_header=has_no_header
        )
    except (OSError, ValueError, TypeError, MemoryError, EOFError) as error:
        raise InputError(
            f"{vectors_file}: not a word2vec or GloVe file ({error}); rename a binary word2vec "
            "file to *.bin"
        ) from None
    size = vectors.vector_size
    if size != dimensions:
        raise InputError(
            f"{vectors_file}: vectors have {size} dimensions, expected {dimensions}; pass "
            f"--dimensions {size}"
        )
    return vectors


def _build_vector_table(
    vocabulary: Vocabulary, vectors: KeyedVectors, options: Options
) -> np.ndarray:
    rows = vectors.key_to_index
    is_known = [term in rows for term in vocabulary.terms]
    known_vectors = vectors.vectors[[rows[term] for term in vocabulary.terms if term in rows]]
    if not len(known_vectors):
        raise InputError(
            "--from-file: no word of the premises has a vector; use vectors of lower-cased English "
            "words"
        )
    rng = create_generator(options.seed, RandomStream.MISSING_VECTORS)
    size = (len(is_known), options.dimensions)
    table = rng.normal(0, known_vectors.std(), size).astype(np.float32)
    table[is_known] = known_vectors
    message = "Found vectors for %d of %d terms; vectors of the other terms are random"
    log.info(message, len(known_vectors), len(is_known))
    return table
