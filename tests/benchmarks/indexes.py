"""Benchmarks of a full-size corpus: BM25 over conclusions, term index, and dense search."""

import tempfile
from functools import partial
from pathlib import Path

import bm25s
import numpy as np
from rank_bm25 import BM25Okapi

from aragorn.cache import Cache, Parts
from aragorn.index.dense import DenseIndex
from aragorn.index.vectors import VectorStore, hash_text
from aragorn.index.weighting import RM3, Dirichlet
from aragorn.io.collection import select_texts
from aragorn.rankings import MAX_DEPTH
from aragorn.systems.conclusions import MAX_CONCLUSIONS, ConclusionIndex
from aragorn.systems.lexical import IndexSettings, TermIndex, build_term_index, search_all
from aragorn.text.normalisation import normalise
from tests.benchmarks.benchmark import Result, compare_with_target, time_call
from tests.conftest import open_retrieval

ROUNDS = 3
VECTORS, TOPICS = 322_000, 50  # sizes of the dense search


def measure_bm25(inputs):
    """Compare retrieving the top conclusions for all topics with rank-bm25.

    Raises:
        AssertionError: If the top conclusions or their scores differ from those of rank-bm25.
    """
    with open_retrieval(inputs.full_size) as retrieval:
        queries = retrieval.topics["query"].tolist()
        index = ConclusionIndex.build(retrieval.collection.documents.read_conclusions())
    reference = BM25Okapi([conclusion.split() for conclusion in index.conclusions])

    def ours():
        return [index.find_top_conclusions(query) for query in queries]

    def baseline():
        rankings = []
        for query in queries:
            scores = reference.get_scores(normalise(query).split())
            order = np.argsort(-scores, kind="stable")[:MAX_CONCLUSIONS]
            rankings.append([(int(row), float(scores[row])) for row in order if scores[row] > 0])
        return rankings

    if ours() != baseline():
        raise AssertionError("the top conclusions or their scores differ from those of rank-bm25")
    task = "BM25 of topics over the conclusions of a large corpus"
    baseline_name = "rank-bm25's get_scores and argsort"
    return inputs.compare(task, baseline_name, "topics", len(queries), ours, baseline, 50)


def measure_term_index(inputs):
    """Compare the term index's build rate with bm25s's, and its other costs with targets.

    Both index texts in memory without stop words; only the term index is also written to disk.
    """
    settings = IndexSettings(stemmer="none")  # settings of the shipped checkpoints
    with open_retrieval(inputs.full_size) as retrieval:
        queries = retrieval.topics["query"].tolist()
        docnos = retrieval.collection.documents.searchable_docnos
        texts_by_docno = retrieval.collection.documents.read_texts(docnos)
    collection = texts_by_docno.set_index("docno", drop=False)
    texts = select_texts(collection, settings.fields)
    (inputs.work_dir / "term-index").mkdir()
    cache = Cache(inputs.work_dir / "term-index")

    def build(folder):
        build_term_index(folder, docnos, lambda batch: collection.loc[batch], settings)

    def load_or_build():
        return TermIndex(cache.directory("terms", "", build), settings)

    def index_with_bm25s():
        tokens = bm25s.tokenize(texts, stopwords="en", show_progress=False)
        bm25s.BM25().index(tokens, show_progress=False)

    build_seconds = time_call(load_or_build)
    load_seconds = min(time_call(load_or_build) for _ in range(ROUNDS))
    index = load_or_build()
    task = f"term index of {len(texts):,} arguments"
    size = sum(file.stat().st_size for file in cache.path.rglob("*.*")) / 1e9
    searches = []
    for name, expansion, target in (("Dirichlet", None, 200), ("Dirichlet + RM3", RM3(), 30)):
        search = partial(search_all, index, queries, Dirichlet(), expansion, MAX_DEPTH, "topics")
        # the first round reads the index from disk
        rate = len(queries) / min(time_call(search) for _ in range(ROUNDS + 1))
        cells = f"{rate:,.0f} topics/s", f"{target} topics/s"
        searches.append(Result(f"{task}: {name}", "target", *cells, rate / target, 1))
    # timed last, since its memory use slows the other measurements
    baseline_seconds = time_call(index_with_bm25s)
    rates = [len(texts) / seconds for seconds in (build_seconds, baseline_seconds)]
    cells = [f"{rate:,.0f} documents/s" for rate in rates]
    return [
        Result(task, "bm25s' tokens and index", *cells, baseline_seconds / build_seconds, 2),
        compare_with_target(f"{task}: size", size, 1, "GB"),
        compare_with_target(f"{task}: load", load_seconds, 1, "s"),
        *searches,
    ]


def measure_dense_search():
    """Compare the shortest time of an exhaustive search over random vectors with a target."""
    rng = np.random.default_rng(0)
    vectors, queries = (rng.standard_normal((n, 384), dtype=np.float32) for n in (VECTORS, TOPICS))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    names = [f"{row:06}" for row in range(VECTORS)]
    with tempfile.TemporaryDirectory() as folder:
        store = VectorStore(Parts(Path(folder)), vectors.shape[1])
        keys = [hash_text("premise", name) for name in names]
        store.append(keys, vectors.astype(np.float16))
        rows = store.find(keys)  # maps the vectors
        index = DenseIndex(names, store.vectors, rows)
        times = [time_call(lambda: list(index.search(queries, MAX_DEPTH))) for _ in range(ROUNDS)]
    task = f"{TOPICS} topics against {VECTORS:,} vectors, top {MAX_DEPTH}"
    return compare_with_target(task, min(times), 3, "s")
