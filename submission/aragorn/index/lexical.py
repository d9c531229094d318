"""Index the texts of a collection, or the terms that a tagger assigns to them, and search it."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from aragorn.index.inverted import InvertedIndex, TermCounter, Token, write_index
from aragorn.index.weighting import RM3, Hits, Model, Query, build_query, expand_query, search
from aragorn.progress import track
from aragorn.text.index_terms import (
    END_OF_TEXT,
    Fields,
    Stemmer,
    TermAnalyser,
    select_texts,
    split_tokens,
)
from aragorn.threads import count_cpu_cores

if TYPE_CHECKING:
    import pandas as pd
    from scipy.sparse import csr_array

    from aragorn.inference.enrichment import FrequencyLoader  # imports torch

VERSION = 1  # of the frequencies in an index

BLOCK_SIZE = 16384  # documents whose terms are counted together
SPLIT_SIZE = 256  # documents that are split into tokens together


class IndexSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Text fields and stemmer of a term index."""

    fields: Fields = "conclusion premise"
    stemmer: Stemmer = "porter"


class LexicalParameters(msgspec.Struct, frozen=True, dict=True, forbid_unknown_fields=True):
    """Parameters of a lexical system, tuned on qrels and stored as a checkpoint.

    Files: config.json, metrics.json, provenance.json (hashes), README.md.
    """

    version: str  # version of the code that tuned them
    index: IndexSettings
    model: Model
    expansion: RM3 | None
    # tagger checkpoint whose terms are indexed instead of the words of the texts
    enrichment: str | None = None

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the parameters that affect rankings, except the enrichment, which has its own."""
        return hashlib.sha256(
            msgspec.json.encode((self.index, self.model, self.expansion), order="sorted")
        ).hexdigest()

    def describe(self) -> str:
        model = type(self.model).__name__
        text = f"{model}: {_format_fields(self.model)}; stemmer {self.index.stemmer}"
        if self.enrichment is not None:
            text += f"; terms of {self.enrichment}"
        if self.expansion is not None:
            text += f"; RM3: {_format_fields(self.expansion)}"
        return text


def _format_fields(settings: msgspec.Struct) -> str:
    return ", ".join(f"{name} {value}" for name, value in msgspec.structs.asdict(settings).items())


class TermIndex(InvertedIndex):
    """Inverted index of a collection; documents are numbered by ascending docno."""

    def __init__(self, directory: Path, settings: IndexSettings) -> None:
        super().__init__(directory)
        self.analyser = TermAnalyser(settings.stemmer)
        self._fields = settings.fields

    def analyse_query(self, text: str) -> list[str]:
        """Return the index terms of a query in text order, with repetitions."""
        return self.analyser.analyse(text)

    def parse_query(self, text: str, model: Model, expansion: RM3 | None) -> Query:
        """Parse a topic title into a query, expanded if `expansion` is not None."""
        query = build_query(self.analyse_query(text))
        return query if expansion is None else expand_query(self, query, model, expansion)

    def count_terms(self, documents: pd.DataFrame) -> list[Counter[str]]:
        """Count the terms of documents `conclusion premise`, which need not be indexed."""
        texts = select_texts(documents, self._fields)
        return [Counter(self.analyser.analyse(text)) for text in texts]

    def count_enriched_terms(self, words: Mapping[str, int]) -> Counter[str]:
        """Count the terms of a document from the word frequencies that a tagger assigns to it."""
        counts: Counter[str] = Counter()
        for word, frequency in words.items():
            for term in self.analyser.analyse(word):
                counts[term] += frequency
        return counts


def build_term_index(
    directory: Path,
    docnos: list[str],
    load_documents: Callable[[list[str]], pd.DataFrame],
    settings: IndexSettings,
    load_frequencies: FrequencyLoader | None = None,
) -> None:
    """Build the index of a collection in an existing directory.

    `load_documents` loads `docno conclusion premise` by docnos, which are ascending;
    `load_frequencies` loads the word frequencies to index; None: index the words of the texts.
    """
    analyser = TermAnalyser(settings.stemmer)
    counter = TermCounter(analyser.analyse if load_frequencies else analyser.__getitem__)

    def count_block(start: int) -> csr_array:
        end = start + BLOCK_SIZE
        if load_frequencies is None:
            texts = select_texts(load_documents(docnos[start:end]), settings.fields)
            starts = range(0, len(texts), SPLIT_SIZE)  # which bounds memory
            tokens = (split_tokens(texts[first : first + SPLIT_SIZE]) for first in starts)
            return counter.count(chain.from_iterable(tokens))
        documents = load_frequencies(start, end)
        words: Iterable[Token] = chain.from_iterable((*words, END_OF_TEXT) for words in documents)
        frequencies = chain.from_iterable((*words.values(), 1) for words in documents)
        return counter.count(words, np.fromiter(frequencies, np.int32))

    starts = range(0, len(docnos), BLOCK_SIZE)
    sizes = [len(docnos[start : start + BLOCK_SIZE]) for start in starts]
    blocks = map(count_block, track(starts, "term index", "documents", sizes))
    write_index(directory, blocks, counter.term_numbers)


def search_all(
    index: TermIndex,
    texts: Sequence[str],
    model: Model,
    expansion: RM3 | None,
    depth: int,
    label: str,
) -> list[Hits]:
    """Search for topic titles in parallel threads; return the hits of each title."""

    def search_text(text: str) -> Hits:
        return search(index, index.parse_query(text, model, expansion), model, depth)

    with ThreadPoolExecutor(count_cpu_cores()) as pool:
        results = pool.map(search_text, texts)
        return [next(results) for _ in track(texts, label, "topics")]
