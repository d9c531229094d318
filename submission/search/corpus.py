"""Corpora: the documents of a directory or data frame, without topics."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from pathlib import Path

import pandas as pd

from submission.data.args_me import ArgsMeReader, find_corpus_files
from submission.data.collection import MIN_PREMISE_WORDS
from submission.data.dataset import Dataset, DatasetReader
from submission.data.tirex import TirexReader
from submission.storage.hashing import combine_hashes, hash_input_files
from submission.timing import Stopwatch

EMPTY_TOPICS = pd.DataFrame({"qid": [], "query": []}, dtype=object)


class Corpus(Dataset):
    """Documents without topics or a supplied ranking; every query searches all of them."""

    def __init__(self, reader: DatasetReader, directory: Path) -> None:
        """Create a corpus; the directory is used for display only."""
        self.reader, self.directory, self.description = reader, directory, reader.format_name
        self.stopwatch, self.ranking_file, self.topics = Stopwatch(), None, EMPTY_TOPICS

    @classmethod
    def from_directory(cls, directory: Path) -> Corpus:
        """Create a corpus from an input directory, ignoring its topics, if any."""
        return cls(TirexReader(directory) if TirexReader.matches(directory) else _CorpusReader(directory), directory)

    @classmethod
    def from_frame(cls, documents: pd.DataFrame) -> Corpus:
        """Create a corpus from a frame `docno conclusion premise`."""
        return _FrameCorpus(_FrameReader(documents), Path("arguments"))

    @cached_property
    def file_hashes(self) -> dict[str, str]:
        """SHA-256 of each corpus file by name."""
        with self.stopwatch.stage("hashes"):
            return hash_input_files(self.reader.corpus_files)

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the documents."""
        return self.corpus_fingerprint

    def supplied_ranking(self, find_unknown: Callable[[Iterable[str]], set[str]]) -> None:
        return None

    @property
    def args_me_files(self) -> list[Path]:
        """Files of an args.me corpus; [] for other formats."""
        return self.reader.corpus_files if isinstance(self.reader, _CorpusReader) else []


class _CorpusReader(ArgsMeReader):
    """A reader of an args.me corpus that ignores topics."""

    def __init__(self, directory: Path) -> None:
        self.topic_files: list[Path] = []
        self.corpus_files = find_corpus_files(directory)

    def read_topics(self) -> tuple[pd.DataFrame, list[str]]:
        return EMPTY_TOPICS, []


class _FrameReader:
    """A reader of a frame `docno conclusion premise`."""

    format_name = "data frame"
    rerank_file: Path | None = None
    min_premise_words = MIN_PREMISE_WORDS

    def __init__(self, documents: pd.DataFrame) -> None:
        self.topic_files: list[Path] = []
        self.corpus_files: list[Path] = []
        self._documents = documents

    def read_topics(self) -> tuple[pd.DataFrame, list[str]]:
        return EMPTY_TOPICS, []

    def read_documents(self) -> tuple[pd.DataFrame, list[str]]:
        return self._documents, []

    def iter_batches(self) -> Iterator[pd.DataFrame]:
        yield self._documents

    def read_candidates(self) -> None:
        return None


class _FrameCorpus(Corpus):
    """A corpus from a frame, identified by its content."""

    @cached_property
    def corpus_fingerprint(self) -> str:
        """Fingerprint of all ids and texts."""
        texts = "\0".join(text for column in self.documents for text in self.documents[column])
        return combine_hashes({"documents": hashlib.sha256(texts.encode(errors="surrogatepass")).hexdigest()})
