"""Plot run time against the numbers of topics, of candidates per topic, and of arguments in the corpus."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.ticker import NullFormatter

from submission.inference.ranker_checkpoint import load_checkpoint
from submission.models.ranker import LatentRanker
from submission.models.rankers import get_ranker_class, list_rankers
from submission.paths import CHECKPOINT_DIR
from submission.systems.catalogue import CONCLUSION_BM25
from tests.benchmarks.benchmark import time_call
from tests.benchmarks.synthetic_inputs import open_execution, write_sample
from tests.benchmarks.word_networks import load_candidates, score_with_empty_cache

RERANKERS = sorted(
    (name for name in list_rankers() if (CHECKPOINT_DIR / name).is_dir()),
    key=lambda name: get_ranker_class(name).token_unit != "words",
)  # word networks first
SHARES = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1)  # of the corpus
CANDIDATES = {"words": (16, 64, 256, 1024), "pieces": (16, 64)}  # few for BERT, which scores about 25 pairs per second
STAGES = {
    "read": "documents",
    "BM25 index": "conclusion index",
    "BM25, all topics": "conclusion retrieval",
    "hashes": "hashes",
}

Curves = dict[str, list[tuple[float, float]]]  # name → points (size, seconds)


def plot(
    directory: Path,
    full_size_dir: Path,
    file: Path,
    names: Sequence[str] = RERANKERS,
    shares: Sequence[float] = SHARES,
    candidate_counts: dict[str, tuple[int, ...]] = CANDIDATES,
) -> dict[str, Curves]:
    """Measure times, print slopes, save a plot with a panel each for topics, candidates and arguments, and return the curves.

    Topics and candidates are varied on the input `directory`; for arguments, shares of the corpus in `full_size_dir` are used.
    """
    by_topics, by_candidates = _scale_networks(directory, names, candidate_counts)
    panels = {
        "topics": by_topics,
        "candidates of one topic": by_candidates,
        "arguments in the corpus": _scale_corpus(full_size_dir, shares),
    }
    figure, axes = plt.subplots(1, 3, figsize=(15, 4.6), sharey=True, constrained_layout=True)
    for (label, curves), axis in zip(panels.items(), axes, strict=True):
        for name, points in curves.items():
            axis.loglog(*zip(*points, strict=True), marker="o", markersize=4, linewidth=1.4, label=name)
            print(f"{label}: {name} {points[-1][1]:.2f} s at {points[-1][0]:,}, slope {fit_slope(points):.2f}")
        sizes = sorted({size for points in curves.values() for size, _ in points})
        axis.set_xticks(sizes, labels=[f"{size:,}" for size in sizes])
        axis.xaxis.set_minor_formatter(NullFormatter())
        axis.set_xlabel(label)
        axis.grid(alpha=0.3, which="both", linewidth=0.4)
        axis.legend(fontsize=8, frameon=False)
    axes[0].set_ylabel("seconds")
    figure.savefig(file, dpi=110)
    plt.close(figure)
    return panels


def _scale_networks(directory: Path, names: Sequence[str], counts: dict[str, tuple[int, ...]]) -> tuple[Curves, Curves]:
    """Time word networks on increasing numbers of topics, and all networks on `counts` numbers of candidates for one topic."""
    by_topics, by_candidates = Curves(), Curves()
    for name in names:
        checkpoint = load_checkpoint(CHECKPOINT_DIR / name)
        if isinstance(checkpoint.network, LatentRanker):
            continue
        candidates, ids = load_candidates(directory, checkpoint.tokeniser)
        qids, docnos, unit = list(ids.queries), list(ids.premises), checkpoint.network.token_unit
        topic_counts = sorted({max(1, len(qids) * eighths // 8) for eighths in (1, 2, 4, 8)}) if unit == "words" else []
        topics = [(n, candidates[candidates["qid"].isin(qids[:n])].reset_index(drop=True)) for n in topic_counts]
        lists = [pd.DataFrame({"qid": qids[0], "docno": docnos[:n]}) for n in counts[unit]]
        score = partial(score_with_empty_cache, tokens=ids, checkpoint=checkpoint)
        if topics:
            by_topics[name] = [(n, time_call(partial(score, sample))) for n, sample in topics]
        by_candidates[name] = [(len(sample), time_call(partial(score, sample))) for sample in lists]
    return by_topics, by_candidates


def _scale_corpus(directory: Path, shares: Sequence[float]) -> Curves:
    """Time the stages before scoring on random shares of the corpus."""
    curves: Curves = defaultdict(list)
    for share in shares:
        with tempfile.TemporaryDirectory() as folder, open_execution(write_sample(directory, Path(folder), share)) as execution:
            execution.get_ranking(CONCLUSION_BM25)
            for name, stage in STAGES.items():
                curves[name].append((execution.documents.document_count, execution.stopwatch.seconds[stage]))
    return curves


def fit_slope(points: list[tuple[float, float]]) -> float:
    """Fit a line to a curve in the log-log plot and return its slope, which is 1 if time is linear in size."""
    size, seconds = np.log(np.array(points)).T
    return float(np.polyfit(size, seconds, 1)[0])
