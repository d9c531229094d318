"""Read an input or a data frame as a corpus, which is searched by queries instead of topics."""

import hashlib
import shlex
from collections.abc import Iterator
from copy import copy
from pathlib import Path
from typing import Self

import pandas as pd

from aragorn.io.args_me import ArgsMeReader
from aragorn.io.dataset import Dataset
from aragorn.io.readers import DatasetReader, open_reader
from aragorn.paths import PROGRAM
from aragorn.storage.hashing import combine_hashes
from aragorn.timing import Stopwatch


class Corpus(Dataset):
    """Documents without topics or a supplied ranking; every query searches all of them."""

    def __init__(self, reader: DatasetReader, *paths: Path) -> None:
        """Create a corpus from the documents of a reader; the paths are used for display only."""
        self.reader, self.description, self.paths, self.name = (
            reader,
            reader.format_name,
            paths,
            ", ".join(map(str, paths)),
        )
        self.stopwatch, self.topics = (
            Stopwatch(),
            pd.DataFrame({"qid": [], "query": []}, dtype=object),
        )
        self.ranking_file = self._run_file = self._sorted_ranking = None

    @classmethod
    def from_paths(cls, *paths: Path) -> Self:
        """Create a corpus from an input, ignoring its topics, if any."""
        return cls(open_reader(*paths, has_topics=False), *paths)

    @classmethod
    def from_frame(cls, documents: pd.DataFrame) -> Self:
        """Create a corpus from a frame `docno conclusion premise`."""
        corpus = cls(_FrameReader(documents), Path("arguments"))
        texts = (text for column in documents for text in documents[column])
        # both determine the collection
        content = "\0".join([str(corpus.reader.min_premise_words), *texts])
        corpus.corpus_fingerprint = hashlib.sha256(
            content.encode(errors="surrogatepass")
        ).hexdigest()
        return corpus

    def with_queries(self, topics: pd.DataFrame) -> Self:
        """Return a copy of this corpus that has queries `qid query` as topics."""
        corpus = copy(self)
        corpus.topics = topics
        # so that documents are hashed once, not once per query
        corpus.corpus_fingerprint = self.corpus_fingerprint
        return corpus

    @property
    def fingerprint(self) -> str:
        """Hash of documents and queries."""
        queries = "\n".join(
            map("\t".join, zip(self.topics["qid"], self.topics["query"], strict=True))
        )
        return combine_hashes({"documents": self.corpus_fingerprint, "questions": queries})

    @property
    def index_command(self) -> str:
        """Command that encodes all texts of the corpus in advance."""
        flags = [text for path in self.paths for text in ("-i", str(path))]
        return shlex.join([PROGRAM, "index", *flags, "--cache-dir", "DIR"])

    @property
    def args_me_files(self) -> list[Path]:
        """Files of an args.me corpus; [] for other formats."""
        return self.reader.corpus_files if isinstance(self.reader, ArgsMeReader) else []


class _FrameReader(ArgsMeReader):
    """Reader of a frame `docno conclusion premise`."""

    format_name = "data frame"
    min_premise_words = 0  # the minimum length applies to args.me only

    def __init__(self, documents: pd.DataFrame) -> None:
        self.topic_files, self.corpus_files, self._documents = [], [], documents

    def read_documents(self) -> tuple[pd.DataFrame, list[str]]:
        return self._documents, []

    def iter_batches(self) -> Iterator[pd.DataFrame]:
        yield self._documents
