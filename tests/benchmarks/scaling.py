"""Plot time against the numbers of topics, candidates and arguments."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from matplotlib.ticker import NullFormatter

from submission.inference.pair_scoring import score_documents
from submission.inference.ranker_checkpoint import RankerCheckpoint, load_checkpoint
from submission.models.ranker import LatentRanker
from submission.models.rankers import list_rankers
from submission.paths import CHECKPOINT_DIR
from submission.storage.artifact_store import ArtifactStore
from submission.systems.catalogue import CONCLUSION_BM25
from tests.benchmarks.synthetic_inputs import open_execution, write_sample
from tests.benchmarks.word_networks import TokenIds, load_candidates

CPU = torch.device("cpu")
SHARES = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1)
CANDIDATES = (16, 64, 256, 1024)
BERT_CANDIDATES = (16, 64)  # few, since BERT scores about 25 pairs per second

Curves = dict[str, list[tuple[float, float]]]  # name → points (size, seconds)


def plot(directory: Path, full_size_dir: Path, file: Path) -> dict[str, Curves]:
    """Measure times, save a plot with one panel per kind of size, and return the curves of the panels.

    Args:
        directory: Input for the panels of topics and candidates.
        full_size_dir: Input for the panel of arguments.
        file: PNG file.
    """
    panels = {
        "topics": _scale_topics(directory),
        "candidates of one topic": _scale_candidates(directory),
        "arguments in the corpus": _scale_corpus(full_size_dir),
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


def _scale_topics(directory: Path) -> Curves:
    """Time the scoring of the candidates of an eighth, a quarter, a half and all of the topics."""
    curves = Curves()
    for name, checkpoint in _load_networks("words").items():
        candidates, ids = load_candidates(directory, checkpoint.tokeniser)
        qids = list(ids.queries)
        for n in sorted({max(1, len(qids) * eighths // 8) for eighths in (1, 2, 4, 8)}):
            sample = candidates[candidates["qid"].isin(qids[:n])].reset_index(drop=True)
            curves.setdefault(name, []).append((n, _time_scoring(sample, ids, checkpoint)))
    return curves


def _scale_candidates(directory: Path) -> Curves:
    """Time the scoring of increasing numbers of candidates for one topic."""
    curves = Curves()
    for name, checkpoint in (_load_networks("words") | _load_networks("pieces")).items():
        _, ids = load_candidates(directory, checkpoint.tokeniser)
        qid, docnos = next(iter(ids.queries)), list(ids.premises)
        for n in CANDIDATES if checkpoint.network.token_unit == "words" else BERT_CANDIDATES:
            sample = pd.DataFrame({"qid": qid, "docno": docnos[:n]})
            curves.setdefault(name, []).append((len(sample), _time_scoring(sample, ids, checkpoint)))
    return curves


def _scale_corpus(directory: Path) -> Curves:
    """Time the stages before scoring on samples of the corpus."""
    curves = Curves()
    for share in SHARES:
        with tempfile.TemporaryDirectory() as folder, open_execution(write_sample(directory, Path(folder), share)) as execution:
            execution.get_ranking(CONCLUSION_BM25)
            size, stages = execution.documents.size, execution.stopwatch.seconds
        for name, stage in (
            ("read", "documents"),
            ("BM25 index", "conclusion index"),
            ("BM25, all topics", "conclusion retrieval"),
            ("hashes", "hashes"),
        ):
            curves.setdefault(name, []).append((size, stages[stage]))
    return curves


def _time_scoring(candidates: pd.DataFrame, ids: TokenIds, checkpoint: RankerCheckpoint) -> float:
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        score_documents(candidates, ids, checkpoint, CPU, ArtifactStore(Path(folder), {}))
        return time.perf_counter() - start


def _load_networks(unit: str) -> dict[str, RankerCheckpoint]:
    """Load the checkpoints of the re-ranking networks by token unit: "words" or "pieces"."""
    checkpoints = {name: load_checkpoint(CHECKPOINT_DIR / name) for name in list_rankers() if (CHECKPOINT_DIR / name).is_dir()}
    return {
        name: checkpoint
        for name, checkpoint in checkpoints.items()
        if checkpoint.network.token_unit == unit and not isinstance(checkpoint.network, LatentRanker)
    }


def fit_slope(points: list[tuple[float, float]]) -> float:
    """Fit a line to a curve in the log-log plot and return the slope, which is 1 for linear time."""
    size, seconds = np.log(np.array(points)).T
    return float(np.polyfit(size, seconds, 1)[0])
