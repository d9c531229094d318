"""Word vectors for word networks and taggers: trained on the premises, or read from a GloVe or word2vec file."""

from __future__ import annotations

import logging
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow.parquet as pq
import safetensors
import safetensors.numpy

from submission.disk.code import code_fingerprint
from submission.disk.fingerprint import input_hashes
from submission.disk.kept import Kept
from submission.errors import InputError
from submission.text.normalise import query_words
from submission.text.vocabulary import Vocabulary
from submission.text.written import forms
from training.data.seeds import Stream, generator
from training.data.work import made, write_text

if TYPE_CHECKING:  # gensim takes two seconds, and most who read vectors make none
    from gensim.models.keyedvectors import KeyedVectors

log = logging.getLogger(__name__)

VOCABULARY, VECTORS = "vocabulary.txt", "vectors.safetensors"
LONGEST = 10_000  # words: gensim cuts longer texts
SUBWORDS = 200_000  # vectors that fastText's subwords share: gensim's default takes 2,000,000, as 0.8 GB

Method = Literal["word2vec", "fasttext"]


@dataclass(frozen=True)
class VectorSettings:
    """The flags of `prepare vectors`."""

    dimensions: int = 300
    minimum_frequency: int = 5
    epochs: int = 5
    seed: int = 0
    written: Method | None = None  # of words as a tagger reads them, by this method; None: of normalised ones, by word2vec

    @property
    def table(self) -> str:
        """The name of the table that has the premises."""
        return f"train.{'pieces' if self.written else 'words'}.parquet"

    @property
    def told(self) -> dict[str, object]:
        """Return the settings that are set, for the record of the vectors."""
        return {name: value for name, value in asdict(self).items() if value is not None}


class Premises:
    """The training premises, each a list of words; read from disk again at each pass."""

    def __init__(self, work: Path, settings: VectorSettings) -> None:
        self._file, self._words = work / settings.table, forms if settings.written else str.split

    def __iter__(self) -> Iterator[list[str]]:
        for batch in pq.ParquetFile(self._file).iter_batches(2_000, columns=["premise"]):
            for text in batch["premise"].to_pylist():
                yield self._words(text)[:LONGEST]


def embed(work: Path, directory: Path, settings: VectorSettings, file: Path | None, overwrite: bool = False) -> None:
    """Write vocabulary.txt and vectors.safetensors (`vectors`, terms × dimensions, float32) into a directory.

    The vocabulary is the words that occur often enough in the training premises, most frequent first. A word that a vectors
    file does not have gets a random vector of the others' spread.

    Args:
        work: what `prepare pairs` wrote.
        directory: where to write.
        settings: dimensions, minimum frequency, epochs (of training), seed, words and method.
        file: vectors to read instead of training: word2vec binary (.bin), word2vec text or GloVe text.
        overwrite: replace vectors made with other settings.

    Raises:
        InputError: no prepared work; a vectors file that is damaged or of other dimensions.
        OutputError: it cannot be written.
    """
    tables = made(work).files.get(settings.table)
    if tables is None:
        raise InputError(f"{work}: holds no tables; `python -m training prepare pairs -i INPUT --work {work}` makes them")
    source = input_hashes([file])[file.name] if file else "none"
    decided_by = {"tables": tables.xxh3, "code": code_fingerprint(__name__), **settings.told, "vectors file": source}
    output = Kept(directory, decided_by, overwrite)
    premises = Premises(work, settings)
    counts = Counter(word for words in premises for word in words)
    frequent = [word for word, count in counts.items() if count >= settings.minimum_frequency]
    if not frequent:
        raise InputError(f"no word occurs {settings.minimum_frequency} times in {work}; lower --minimum-frequency")
    vocabulary = Vocabulary(sorted(frequent, key=lambda word: (-counts[word], word)))
    _report(work, vocabulary, counts, forms if settings.written else query_words)

    def write(path: Path) -> None:
        vectors = _read(file, settings.dimensions) if file else _train(premises, settings)
        path.write_bytes(safetensors.numpy.save({"vectors": _table(vocabulary, vectors, settings)}))

    output.make([VECTORS], write)
    output.make([VOCABULARY], partial(write_text, vocabulary.dumps()))


def folder_of(written: Method | None) -> str:
    """Return the default folder of vectors in a working directory."""
    return f"vectors-{written}" if written else "vectors"


def load(directory: Path) -> tuple[Vocabulary, np.ndarray]:
    """The vocabulary and its vectors (terms, dimensions). Raises InputError where `prepare vectors` has not been run."""
    try:
        return Vocabulary.load(directory / VOCABULARY), safetensors.numpy.load_file(directory / VECTORS)["vectors"]
    except (OSError, ValueError, KeyError, safetensors.SafetensorError) as error:
        verb = "`python -m training prepare vectors --work WORK`"
        raise InputError(f"{directory}: no word vectors ({error}); {verb} makes them") from None


def require_vectors(directory: Path, work: Path, written: Method | None, dimensions: int) -> None:
    """Raise InputError, which names the verb, where `prepare vectors` has written no vectors into a directory."""
    if not (directory / VECTORS).is_file():
        flags = f" --written {written}" if written else ""
        flags += f" --dimensions {dimensions}" if dimensions != VectorSettings().dimensions else ""
        raise InputError(f"{directory}: no word vectors; `python -m training prepare vectors --work {work}{flags}` makes them")


def _train(premises: Premises, settings: VectorSettings) -> KeyedVectors:
    from gensim.models import FastText, Word2Vec

    make = partial(FastText, bucket=SUBWORDS) if settings.written == "fasttext" else Word2Vec
    model = make(
        vector_size=settings.dimensions,
        min_count=settings.minimum_frequency,
        window=5,
        sg=1,
        negative=5,
        seed=settings.seed,
        workers=1,  # more than one makes the order of updates, and so the vectors, a matter of chance
        hashfxn=_hash,
    )
    model.build_vocab(premises)
    model.train(premises, total_examples=model.corpus_count, epochs=settings.epochs, report_delay=30)  # gensim logs progress
    return model.wv


def _hash(text: str) -> int:
    return zlib.crc32(text.encode())  # Python's own hash differs from process to process


def _read(file: Path, dimensions: int) -> KeyedVectors:
    from gensim.models.keyedvectors import KeyedVectors

    try:
        with file.open("rb") as stream:
            first = stream.readline().split()
        binary = file.suffix == ".bin"
        headless = not binary and len(first) != 2  # GloVe's text form has no header
        vectors = KeyedVectors.load_word2vec_format(str(file), binary=binary, no_header=headless)
    except (OSError, ValueError, TypeError, MemoryError, EOFError) as error:
        raise InputError(
            f"{file}: not a word2vec or GloVe file ({error}); word2vec's binary form must be named *.bin"
        ) from None
    if vectors.vector_size != dimensions:
        raise InputError(f"{file}: vectors of {vectors.vector_size} dimensions, expected {dimensions}; give --dimensions")
    return vectors


def _table(vocabulary: Vocabulary, vectors: KeyedVectors, settings: VectorSettings) -> np.ndarray:
    found = [term in vectors.key_to_index for term in vocabulary.terms]
    known = vectors.vectors[[vectors.key_to_index[t] for t, is_known in zip(vocabulary.terms, found, strict=True) if is_known]]
    if not len(known):
        raise InputError("the vectors have no word of the vocabulary; are they of English, lower-cased words?")
    rng = generator(settings.seed, Stream.VECTORS)
    table = rng.normal(0, known.std(), (len(found), settings.dimensions)).astype(np.float32)
    table[found] = known
    log.info("vectors: %d of %d terms have one, the others a random one", len(known), len(found))
    return table


def _report(work: Path, vocabulary: Vocabulary, counts: Counter[str], words_of: Callable[[str], list[str]]) -> None:
    terms = set(vocabulary.terms)
    covered = sum(counts[term] for term in terms) / sum(counts.values())
    queries = pq.read_table(work / "validation.words.parquet", columns=["conclusion"])["conclusion"].to_pylist()
    words = [word for query in sorted(set(queries)) for word in words_of(query)]
    known = sum(word in terms for word in words) / len(words)
    log.info("vocabulary: %d of %d distinct words, %.1f %% of all in premises, %.1f %% of those in validation queries",
             len(terms), len(counts), 100 * covered, 100 * known)  # fmt: skip
