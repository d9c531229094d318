"""BM25 of topics over the conclusions of a full-size corpus against rank-bm25 itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rank_bm25 import BM25Okapi

from submission.retrieval.conclusion_bm25 import MAX_CONCLUSIONS, ConclusionIndex
from submission.text.normalisation import normalise
from tests.benchmarks.benchmark import Benchmark
from tests.benchmarks.synthetic_inputs import execution


def bm25(directory: Path) -> Benchmark:
    """Both sides give the same conclusions and scores, which is checked here."""
    with execution(directory) as running:
        queries, index = running.topics["query"].tolist(), ConclusionIndex.build(running.documents.read_conclusions())
    reference = BM25Okapi([conclusion.split() for conclusion in index.conclusions])

    def baseline() -> list[list[tuple[int, float]]]:
        lists = []
        for query in queries:
            scores = reference.get_scores(normalise(query).split())
            order = np.argsort(-scores, kind="stable")[:MAX_CONCLUSIONS]
            lists.append([(int(number), float(scores[number])) for number in order if scores[number] > 0])
        return lists

    def ours() -> list[list[tuple[int, float]]]:
        return [index.find_top_conclusions(query) for query in queries]

    if ours() != baseline():
        raise AssertionError("other conclusions or scores than rank-bm25's")
    against = "rank-bm25's get_scores and argsort"
    return Benchmark("bm25", against, "topics", len(queries), ours, baseline)
