"""Benchmark of BM25 over the conclusions of a full-size corpus, against rank-bm25."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rank_bm25 import BM25Okapi

from submission.retrieval.conclusion_bm25 import MAX_CONCLUSIONS, ConclusionIndex
from submission.text.normalisation import normalise
from tests.benchmarks.benchmark import Benchmark
from tests.benchmarks.synthetic_inputs import open_execution


def build_benchmark(directory: Path) -> Benchmark:
    """Build the benchmark of retrieving the top conclusions for all topics.

    Raises:
        AssertionError: If the top conclusions or their scores differ from those of rank-bm25.
    """
    with open_execution(directory) as execution:
        queries = execution.topics["query"].tolist()
        index = ConclusionIndex.build(execution.documents.read_conclusions())
    reference = BM25Okapi([conclusion.split() for conclusion in index.conclusions])

    def baseline() -> list[list[tuple[int, float]]]:
        rankings = []
        for query in queries:
            scores = reference.get_scores(normalise(query).split())
            order = np.argsort(-scores, kind="stable")[:MAX_CONCLUSIONS]
            rankings.append([(int(row), float(scores[row])) for row in order if scores[row] > 0])
        return rankings

    def ours() -> list[list[tuple[int, float]]]:
        return [index.find_top_conclusions(query) for query in queries]

    if ours() != baseline():
        raise AssertionError("the top conclusions or their scores differ from those of rank-bm25")
    return Benchmark("bm25", "rank-bm25's get_scores and argsort", "topics", len(queries), ours, baseline)
