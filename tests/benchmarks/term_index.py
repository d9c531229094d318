"""Benchmarks of the term index of a full-size corpus: build rate against bm25s, size, load time and search speed."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import bm25s

from submission.rankings import MAX_DEPTH
from submission.retrieval.fields import select_texts
from submission.retrieval.lexical import RM3, Dirichlet, search_all
from submission.retrieval.term_index import IndexSettings, TermIndex, load_or_build_term_index
from submission.storage.artifact_store import ArtifactStore
from tests.benchmarks.benchmark import Result
from tests.benchmarks.synthetic_inputs import open_execution

MODEL, EXPANSION = Dirichlet(), RM3()
TARGET_RATE, EXPANSION_TARGET_RATE = 200, 30  # target topics per second, without and with RM3
ROUNDS = 3


def measure(directory: Path, work_dir: Path) -> list[Result]:
    """Measure build rate, size, load time and search speed.

    Both implementations index texts in memory without stop words; only the term index is also written to disk.
    """
    settings = IndexSettings(stemmer="none")  # settings of the shipped checkpoints
    with open_execution(directory) as execution:
        queries, docnos = execution.topics["query"].tolist(), execution.documents.searchable_docnos
        collection = execution.documents.read_texts(docnos).set_index("docno", drop=False)
    texts, index_dir = select_texts(collection, settings.fields), work_dir / "term-index"

    def load_or_build() -> TermIndex:
        return load_or_build_term_index(docnos, lambda batch: collection.loc[batch], settings, ArtifactStore(index_dir, {}))

    def baseline() -> None:
        bm25s.BM25().index(bm25s.tokenize(texts, stopwords="en", show_progress=False), show_progress=False)

    build_seconds = _time(load_or_build)
    load_seconds = min(_time(load_or_build) for _ in range(ROUNDS))
    index = load_or_build()
    size = sum(file.stat().st_size for file in index_dir.iterdir()) / 1e9

    def measure_search_speed(expansion: RM3 | None) -> float:
        seconds = [
            _time(lambda: search_all(index, queries, MODEL, expansion, MAX_DEPTH, "topics"))
            for _ in range(ROUNDS + 1)  # the first round reads the index from disk
        ]
        return len(queries) / min(seconds)

    speeds = measure_search_speed(None), measure_search_speed(EXPANSION)
    # The baseline is timed last, since its memory use slows the other measurements.
    build_times = {"ours": build_seconds, "baseline": _time(baseline)}
    task = f"term index of {len(texts):,} arguments"
    rates = [f"{len(texts) / value:,.0f} documents/s" for value in build_times.values()]
    times = {side: [value] for side, value in build_times.items()}
    return [
        Result("term index", task, "bm25s' tokens and index", *rates, build_times["baseline"] / build_times["ours"], 2, times),
        Result("term index size", f"{task}: size", "target", f"{size:.2f} GB", "1 GB", 1 / size, 1),
        Result("term index load", f"{task}: load", "target", f"{load_seconds:.2f} s", "1 s", 1 / load_seconds, 1),
        *(
            Result(name, f"{task}: {name}", "target", f"{speed:,.0f} topics/s", f"{target} topics/s", speed / target, 1)
            for name, speed, target in zip(
                ("Dirichlet", "Dirichlet + RM3"), speeds, (TARGET_RATE, EXPANSION_TARGET_RATE), strict=True
            )
        ),
    ]


def _time(function: Callable[[], object]) -> float:
    """Return the seconds of a call."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start
