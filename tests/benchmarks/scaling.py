"""How time grows with topics, candidates and corpus: a plot."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from matplotlib.ticker import NullFormatter

from submission.inference.pair_scoring import score
from submission.inference.ranker_checkpoint import RankerCheckpoint, load_checkpoint
from submission.models.ranker import LatentRanker
from submission.models.rankers import names
from submission.paths import CHECKPOINT_DIR
from submission.storage.artifact_store import ArtifactStore
from submission.systems.catalogue import CONCLUSION_BM25
from tests.benchmarks.synthetic_inputs import execution, part_of
from tests.benchmarks.word_networks import Ids, candidates_of

CPU = torch.device("cpu")
SHARES = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1)
CANDIDATES = (16, 64, 256, 1024)
BERT_CANDIDATES = (16, 64)  # a second for 25

Curves = dict[str, list[tuple[float, float]]]  # by name: (size, seconds)


def draw(directory: Path, corpus: Path, file: Path) -> dict[str, Curves]:
    """Write a plot of three panels; the points.

    Args:
        directory: an input for topics and candidates.
        corpus: an input with a large corpus.
        file: the plot, .png.
    """
    panels = {
        "topics": _by_topics(directory),
        "candidates of one topic": _by_candidates(directory),
        "arguments in the corpus": _by_corpus(corpus),
    }
    figure, axes = plt.subplots(1, 3, figsize=(15, 4.6), sharey=True, constrained_layout=True)
    for (what, curves), axis in zip(panels.items(), axes, strict=True):
        for name, points in curves.items():
            axis.loglog(*zip(*points, strict=True), marker="o", markersize=4, linewidth=1.4, label=name)
        sizes = sorted({size for points in curves.values() for size, _ in points})
        axis.set_xticks(sizes, labels=[f"{size:,}" for size in sizes])
        axis.xaxis.set_minor_formatter(NullFormatter())
        axis.set_xlabel(what)
        axis.grid(alpha=0.3, which="both", linewidth=0.4)
        axis.legend(fontsize=8, frameon=False)
    axes[0].set_ylabel("seconds")
    figure.savefig(file, dpi=110)
    plt.close(figure)
    return panels


def _by_topics(directory: Path) -> Curves:
    """Scoring all candidates of so many topics."""
    curves = Curves()
    for name in _networks("words"):
        checkpoint = load_checkpoint(CHECKPOINT_DIR / name)
        candidates, ids = candidates_of(directory, checkpoint.tokeniser)
        qids = list(ids.of_topics)
        for number in sorted({max(1, len(qids) * part // 8) for part in (1, 2, 4, 8)}):
            chosen = candidates[candidates["qid"].isin(qids[:number])].reset_index(drop=True)
            curves.setdefault(name, []).append((number, _seconds(chosen, ids, checkpoint)))
    return curves


def _by_candidates(directory: Path) -> Curves:
    """Scoring so many documents of one topic."""
    curves = Curves()
    for name in [*_networks("words"), *_networks("pieces")]:
        checkpoint = load_checkpoint(CHECKPOINT_DIR / name)
        _, ids = candidates_of(directory, checkpoint.tokeniser)
        qid, docnos = next(iter(ids.of_topics)), list(ids.of_premises)
        for number in CANDIDATES if checkpoint.ranker.token_unit == "words" else BERT_CANDIDATES:
            chosen = pd.DataFrame({"qid": qid, "docno": docnos[:number]})
            curves.setdefault(name, []).append((len(chosen), _seconds(chosen, ids, checkpoint)))
    return curves


def _by_corpus(directory: Path) -> Curves:
    """Everything that is done with the corpus before scoring, at so many arguments."""
    curves = Curves()
    for share in SHARES:
        with tempfile.TemporaryDirectory() as folder, execution(part_of(directory, Path(folder), share)) as running:
            running.get_ranking(CONCLUSION_BM25)
            size, stages = running.documents.size, running.stopwatch.seconds
        for name, stage in (
            ("read", "documents"),
            ("BM25 index", "conclusion index"),
            ("BM25, all topics", "conclusion retrieval"),
            ("hashes", "hashes"),
        ):
            curves.setdefault(name, []).append((size, stages[stage]))
    return curves


def _seconds(candidates: pd.DataFrame, ids: Ids, checkpoint: RankerCheckpoint) -> float:
    """The time that scoring takes."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        score(candidates, ids, checkpoint, CPU, ArtifactStore(Path(folder), {}))
        return time.perf_counter() - start


def _networks(reads: str) -> list[str]:
    """Those with a checkpoint that score candidates by words, or by pieces."""
    found = []
    for name in names():
        if (CHECKPOINT_DIR / name).is_dir():
            ranker = load_checkpoint(CHECKPOINT_DIR / name).ranker
            if ranker.token_unit == reads and not isinstance(ranker, LatentRanker):
                found.append(name)
    return found


def steepness(points: list[tuple[float, float]]) -> float:
    """The slope of a curve in the plot: 1 is linear."""
    size, seconds = np.log(np.array(points)).T
    return float(np.polyfit(size, seconds, 1)[0])
