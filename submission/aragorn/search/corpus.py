"""Read an input or a data frame as a corpus, which is searched by queries instead of topics."""

import hashlib
import shlex
from collections.abc import Iterator
from copy import copy
from pathlib import Path
from typing import Self

import pandas as pd

from aragorn.io.dataset import Dataset
from aragorn.paths import PROGRAM
from aragorn.storage.hashing import combine_hashes
from aragorn.timing import Stopwatch


class Corpus(Dataset):
    """Documents without topics or an input run; every query searches all of them."""

    def __init__(self, *paths: Path) -> None:
        """Create a corpus from an input, ignoring its topics, if any."""
        super().__init__(*paths, has_topics=False)
        self.description = self.format_name
        self._omit_topics()

    @classmethod
    def from_paths(cls, *paths: Path) -> Self:
        """Create a corpus from an input, ignoring its topics, if any."""
        return cls(*paths)

    @classmethod
    def from_frame(cls, documents: pd.DataFrame) -> Self:
        """Create a corpus from a frame `docno conclusion premise`."""
        corpus = cls.__new__(cls)
        corpus.paths = (Path("arguments"),)
        corpus.name = "arguments"
        corpus.stopwatch = Stopwatch()
        corpus.description = corpus.format_name = "data frame"
        corpus.min_premise_words = 0  # the minimum length applies to args.me only
        corpus.is_tirex = False
        corpus.topic_files = []
        corpus.corpus_files = []
        corpus.documents = documents
        corpus._omit_topics()
        texts = (text for column in documents for text in documents[column])
        # both determine the collection
        content = "\0".join([str(corpus.min_premise_words), *texts])
        corpus.corpus_fingerprint = hashlib.sha256(
            content.encode(errors="surrogatepass")
        ).hexdigest()
        return corpus

    def _omit_topics(self) -> None:
        self.topics = pd.DataFrame({"qid": [], "query": []}, dtype=object)
        self.ranking_file = None
        self._run_file = None
        self._sorted_ranking = None

    def iter_batches(self) -> Iterator[pd.DataFrame]:
        """Yield the documents in batches, see `Dataset.iter_batches`."""
        return super().iter_batches() if self.corpus_files else iter([self.documents])

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
        return [] if self.is_tirex else self.corpus_files
