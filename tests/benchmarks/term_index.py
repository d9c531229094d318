"""The term index of a full-size corpus: built against bm25s, its size, and how many topics a second it answers."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import bm25s

from submission.rankings import MAX_DEPTH
from submission.retrieval.fields import texts_of
from submission.retrieval.lexical import RM3, Dirichlet, search_all
from submission.retrieval.term_index import IndexSettings, TermIndex, load_or_build_term_index
from submission.storage.artifact_store import ArtifactStore
from tests.benchmarks.benchmark import Result
from tests.benchmarks.synthetic_inputs import execution

MODEL, EXPANSION = Dirichlet(), RM3()
TOPICS_ASKED, EXPANDED_ASKED = 200, 30  # a second
ROUNDS = 3  # of all topics


def terms(directory: Path, folder: Path) -> list[Result]:
    """Five lines. Both sides begin with the texts in memory and without stop words; ours ends on disk, and goes both ways."""
    settings = IndexSettings(stemmer="none")  # as shipped
    with execution(directory) as running:
        queries, docnos = running.topics["query"].tolist(), running.documents.searchable_docnos
        collected = running.documents.read_texts(docnos).set_index("docno", drop=False)
    texts, place = texts_of(collected, settings.fields), folder / "terms"

    def index_of() -> TermIndex:
        return load_or_build_term_index(docnos, lambda some: collected.loc[some], settings, ArtifactStore(place, {}))

    def baseline() -> None:
        bm25s.BM25().index(bm25s.tokenize(texts, stopwords="en", show_progress=False), show_progress=False)

    ours = _seconds(index_of)
    opened = min(_seconds(index_of) for _ in range(ROUNDS))
    index = index_of()
    size = sum(file.stat().st_size for file in place.iterdir()) / 1e9

    def answers(expansion: RM3 | None) -> float:
        works = [lambda: search_all(index, queries, MODEL, expansion, MAX_DEPTH, "topics")] * (
            ROUNDS + 1
        )  # the first: from the disk
        return len(queries) / min(map(_seconds, works))

    speeds = answers(None), answers(EXPANSION)
    built = {"ours": ours, "baseline": _seconds(baseline)}  # last: what it leaves in memory slows others down
    what = f"term index of {len(texts):,} arguments"
    rates = [f"{len(texts) / value:,.0f} documents/s" for value in built.values()]
    times = {side: [value] for side, value in built.items()}
    asked = "what is asked for"
    return [
        Result("terms", what, "bm25s' tokens and index", *rates, built["baseline"] / built["ours"], 2, times),
        Result("terms size", f"{what}: size", asked, f"{size:.2f} GB", "1 GB", 1 / size, 1),
        Result("terms opened", f"{what}: opened", asked, f"{opened:.2f} s", "1 s", 1 / opened, 1),
        *(
            Result(name, f"{name} over it", asked, f"{speed:,.0f} topics/s", f"{least} topics/s", speed / least, 1)
            for name, speed, least in zip(
                ("Dirichlet", "Dirichlet with RM3"), speeds, (TOPICS_ASKED, EXPANDED_ASKED), strict=True
            )
        ),
    ]


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
