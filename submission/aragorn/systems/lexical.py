"""Retrieve full arguments, or the terms that an enrichment assigns to them, with a term index."""

from __future__ import annotations

import hashlib
import logging
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from aragorn.errors import CheckpointError, abbreviate
from aragorn.explanation import Explanation, Row
from aragorn.index.inverted import InvertedIndex, Statistics, TermCounter, Token, write_index
from aragorn.index.weighting import (
    RM3,
    Hits,
    Model,
    Query,
    build_query,
    compute_term_contributions,
    expand_query,
    search,
)
from aragorn.io.collection import Fields, select_texts
from aragorn.pipeline.retrieval import Retrieval, Stage
from aragorn.pipeline.session import CheckpointStore, Collection
from aragorn.progress import track
from aragorn.rankings import MAX_DEPTH, build_rankings
from aragorn.systems.enrichment import Enrichment
from aragorn.text.index_terms import END_OF_TEXT, Stemmer, TermAnalyser, split_tokens
from aragorn.threads import count_cpu_cores
from aragorn.versions import describe_versions

if TYPE_CHECKING:
    import pandas as pd
    from scipy.sparse import csr_array

    from aragorn.inference.enrichment import FrequencyLoader  # imports torch

log = logging.getLogger(__name__)

VERSION = 1  # of the frequencies in an index
COMPUTES_WITH = ("aragorn.index.weighting", "aragorn.io.collection")

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


def get_term_index(
    collection: Collection, settings: IndexSettings, enrichment: Enrichment | None
) -> TermIndex:
    """Return the index of the terms of a collection, which may be empty, or of an enrichment."""

    def describe() -> str:
        terms = "" if enrichment is None else enrichment.describe_results(collection.session)
        return f"{describe_versions(__name__)} {settings!r} {terms}"

    def build(directory: Path) -> None:
        documents = collection.documents
        docnos = documents.collection_docnos
        load_frequencies = None
        if enrichment is not None:
            load_frequencies = enrichment.enrich_collection(collection, settings.fields)
        build_term_index(directory, docnos, documents.read_texts, settings, load_frequencies)

    def open_index(directory: Path) -> TermIndex:
        return TermIndex(directory, settings)

    name = "terms" if enrichment is None else f"terms-{enrichment.checkpoint}"
    key = (settings, enrichment)
    return collection.get_index(name, "term index", key, describe, build, open_index)


@dataclass(frozen=True)
class LexicalStage(Stage):
    """BM25 or Dirichlet-smoothed query likelihood, optionally with RM3 (Hollatz 2022).

    It searches full arguments or, with an enrichment, the terms assigned to them. The checkpoint
    contains model and parameters; `parameters` replace it.
    """

    version = 1
    family = "lexical"
    computes_with = (__name__,)
    parameters_type = LexicalParameters
    checkpoint: str
    enrichment: Enrichment | None = None
    parameters: LexicalParameters | None = None

    def get_dependencies(self) -> tuple[Enrichment, ...]:
        return () if self.enrichment is None else (self.enrichment,)

    def load_checkpoint(self, checkpoints: CheckpointStore) -> LexicalParameters:
        """Load the parameters; raise CheckpointError if they are for another enrichment."""
        if self.parameters is not None:
            return self.parameters
        parameters = checkpoints.load_config(self.checkpoint, LexicalParameters)
        enrichment = self.enrichment.checkpoint if self.enrichment else None
        if parameters.enrichment != enrichment:
            directory = checkpoints.directory / self.checkpoint
            cause = f"tuned for {_describe_terms(parameters.enrichment)}"
            fix = f"aragorn-training tune {self.checkpoint} -i INPUT --qrels QRELS -o {directory}"
            raise CheckpointError(
                f"{directory}: {cause}; expected {_describe_terms(enrichment)}; run `{fix}`"
            )
        return parameters

    def search(self, retrieval: Retrieval) -> pd.DataFrame:
        docnos = retrieval.collection.documents.searchable_docnos
        parameters = self.load_checkpoint(retrieval.session.checkpoints)
        results = search_all(
            self.get_index(retrieval.collection),
            retrieval.topics["query"].tolist(),
            parameters.model,
            parameters.expansion,
            MAX_DEPTH,
            self.checkpoint,
        )
        rows: list[tuple[str, str, float]] = []
        topics = retrieval.topics
        for qid, text, hits in zip(topics["qid"], topics["query"], results, strict=True):
            if not len(hits.documents):
                log.warning(
                    "topic %s (%s): no document contains a query term; its ranking is empty",
                    qid,
                    abbreviate(text),
                )
            hit_docnos = (docnos[row] for row in hits.documents.tolist())
            rows += zip(repeat(qid), hit_docnos, hits.scores.tolist())
        return build_rankings(rows)

    def build_index(self, collection: Collection) -> None:
        self.get_index(collection)

    def score(self, retrieval: Retrieval, pairs: pd.DataFrame) -> np.ndarray:
        """Score pairs with the model and collection statistics used for retrieval."""
        import pandas as pd

        queries = retrieval.topics.set_index("qid")["query"]
        scores = pd.Series(0.0, index=pairs.index)
        for qid, group in pairs.groupby("qid", sort=False):
            query = self.build_query(retrieval.collection, queries[qid])
            contributions, _, _ = self._compute_contributions(
                retrieval.collection, query, group["docno"].tolist()
            )
            scores[group.index] = contributions.sum(axis=0)
        return scores.to_numpy()

    def explain(self, retrieval: Retrieval, qid: str, docno: str) -> Explanation:
        """Break the score down by term; with an enrichment, add token weights or components."""
        collection = retrieval.collection
        text = retrieval.get_query(qid)
        query = self.build_query(collection, text)
        query_terms = set(self.get_index(collection).analyse_query(text))
        contributions, tf, statistics = self._compute_contributions(collection, query, [docno])
        rows = []
        for index, (term, weight) in enumerate(query.items()):
            source = "" if term in query_terms else ", expansion term"
            note = f"weight {weight:.4f}, tf {tf[index, 0]}, df {statistics.df[index]}{source}"
            rows.append(Row(contributions[index, 0].item(), term, note))
        session = retrieval.session
        summary = f"sum over query terms ({self.format_formula(session.checkpoints)})"
        explanation = Explanation(sum(row.value for row in rows), rows, summary)
        if self.enrichment is None:
            return explanation
        fields = self.load_checkpoint(session.checkpoints).index.fields
        document = collection.documents.read_texts({docno})
        if self.enrichment.load_checkpoint(session.checkpoints).network.component_types:
            text, components = self.enrichment.highlight(session, fields, document)
            return replace(explanation, text=text, components=components)
        weights = self.enrichment.get_token_weights(session, fields, document)
        return replace(explanation, breakdowns=weights)

    def format_formula(self, checkpoints: CheckpointStore) -> str:
        return self.load_checkpoint(checkpoints).describe()

    def build_query(self, collection: Collection, text: str) -> Query:
        """Build the weighted query of a topic title, with expansion if parameters have it."""
        parameters = self.load_checkpoint(collection.session.checkpoints)
        index = self.get_index(collection)
        return index.parse_query(text, parameters.model, parameters.expansion)

    def get_index(self, collection: Collection) -> TermIndex:
        settings = self.load_checkpoint(collection.session.checkpoints).index
        return get_term_index(collection, settings, self.enrichment)

    def count_terms(self, collection: Collection, docnos: Sequence[str]) -> list[Counter[str]]:
        """Return the term frequencies of documents, including those too short to be indexed."""
        index = self.get_index(collection)
        documents = collection.documents
        counts: dict[str, Counter[str]] = {}
        for docno in docnos:
            position = bisect_left(documents.collection_docnos, docno)
            if documents.collection_docnos[position : position + 1] == [docno]:
                terms, frequencies = index.get_document_terms(position)
                counts[docno] = Counter(dict(zip(terms, frequencies.tolist(), strict=True)))
        unindexed_documents = documents.read_texts(set(docnos) - counts.keys())
        if self.enrichment is None:
            unindexed_counts = index.count_terms(unindexed_documents)
        else:
            fields = self.load_checkpoint(collection.session.checkpoints).index.fields
            word_frequencies = self.enrichment.compute_word_frequencies(
                collection.session, fields, unindexed_documents
            )
            unindexed_counts = [
                index.count_enriched_terms(frequencies) for frequencies in word_frequencies
            ]
        counts |= dict(zip(unindexed_documents["docno"], unindexed_counts, strict=True))
        return [counts[docno] for docno in docnos]

    def _compute_contributions(
        self, collection: Collection, query: Query, docnos: Sequence[str]
    ) -> tuple[np.ndarray, np.ndarray, Statistics]:
        """Compute contributions and frequencies (terms, documents), and statistics."""
        model = self.load_checkpoint(collection.session.checkpoints).model
        counts = self.count_terms(collection, docnos)
        frequencies = [[count[term] for count in counts] for term in query]
        tf = np.array(frequencies, dtype=np.int64).reshape(len(query), len(docnos))
        dl = np.array([count.total() for count in counts])
        statistics = self.get_index(collection).get_statistics(list(query))
        return compute_term_contributions(query, model, statistics, tf, dl), tf, statistics


def _describe_terms(enrichment: str | None) -> str:
    return "the original texts" if enrichment is None else f"the terms of {enrichment}"
