"""Plot time against the numbers of topics, candidates and arguments."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.ticker import NullFormatter

from submission.inference.ranker_checkpoint import RankerCheckpoint, load_checkpoint
from submission.models.ranker import LatentRanker
from submission.models.rankers import get_ranker_class, list_rankers
from submission.paths import CHECKPOINT_DIR
from submission.systems.catalogue import CONCLUSION_BM25
from tests.benchmarks.benchmark import time_call
from tests.benchmarks.synthetic_inputs import open_execution, write_sample
from tests.benchmarks.word_networks import TokenIds, load_candidates, score_without_cache

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
    """Measure times, save a plot with one panel per kind of size, and return the curves of the panels.

    Args:
        directory: Input for the panels of topics and candidates.
        full_size_dir: Input for the panel of arguments.
        file: PNG file.
        names: Names of the re-ranking networks.
        shares: Shares of the corpus.
        candidate_counts: Numbers of candidates of one topic, by token unit.
    """
    checkpoints = {name: load_checkpoint(CHECKPOINT_DIR / name) for name in names}
    checkpoints = {name: item for name, item in checkpoints.items() if not isinstance(item.network, LatentRanker)}
    panels = {
        "topics": _scale_topics(directory, checkpoints),
        "candidates of one topic": _scale_candidates(directory, checkpoints, candidate_counts),
        "arguments in the corpus": _scale_corpus(full_size_dir, shares),
    }
    figure, axes = plt.subplots(1, 3, figsize=(15, 4.6), sharey=True, constrained_layout=True)
    for (label, curves), axis in zip(panels.items(), axes, strict=True):
        for name, points in curves.items():
            axis.loglog(*zip(*points, strict=True), marker="o", markersize=4, linewidth=1.4, label=name)
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


def _scale_topics(directory: Path, checkpoints: dict[str, RankerCheckpoint]) -> Curves:
    """Time the scoring of the candidates of an eighth, a quarter, a half and all of the topics by word networks."""
    curves = Curves()
    for name, checkpoint in checkpoints.items():
        if checkpoint.network.token_unit == "words":
            candidates, ids = load_candidates(directory, checkpoint.tokeniser)
            qids = list(ids.queries)
            for n in sorted({max(1, len(qids) * eighths // 8) for eighths in (1, 2, 4, 8)}):
                sample = candidates[candidates["qid"].isin(qids[:n])].reset_index(drop=True)
                curves.setdefault(name, []).append((n, _time_scoring(sample, ids, checkpoint)))
    return curves


def _scale_candidates(directory: Path, checkpoints: dict[str, RankerCheckpoint], counts: dict[str, tuple[int, ...]]) -> Curves:
    """Time the scoring of increasing numbers of candidates for one topic."""
    curves = Curves()
    for name, checkpoint in checkpoints.items():
        _, ids = load_candidates(directory, checkpoint.tokeniser)
        qid, docnos = next(iter(ids.queries)), list(ids.premises)
        for n in counts[checkpoint.network.token_unit]:
            sample = pd.DataFrame({"qid": qid, "docno": docnos[:n]})
            curves.setdefault(name, []).append((len(sample), _time_scoring(sample, ids, checkpoint)))
    return curves


def _scale_corpus(directory: Path, shares: Sequence[float]) -> Curves:
    """Time the stages before scoring on samples of the corpus."""
    curves = Curves()
    for share in shares:
        with tempfile.TemporaryDirectory() as folder, open_execution(write_sample(directory, Path(folder), share)) as execution:
            execution.get_ranking(CONCLUSION_BM25)
            for name, stage in STAGES.items():
                curves.setdefault(name, []).append((execution.documents.size, execution.stopwatch.seconds[stage]))
    return curves


def _time_scoring(candidates: pd.DataFrame, ids: TokenIds, checkpoint: RankerCheckpoint) -> float:
    return time_call(lambda: score_without_cache(candidates, ids, checkpoint))


def fit_slope(points: list[tuple[float, float]]) -> float:
    """Fit a line to a curve in the log-log plot and return the slope, which is 1 for linear time."""
    size, seconds = np.log(np.array(points)).T
    return float(np.polyfit(size, seconds, 1)[0])
