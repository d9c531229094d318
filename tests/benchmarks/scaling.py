"""Plot run time against the numbers of topics, candidates per topic, and arguments."""

import tempfile
from collections import defaultdict
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.ticker import NullFormatter

from aragorn.inference.checkpoint import load_checkpoint
from aragorn.models.network import LatentRanker
from aragorn.paths import CHECKPOINT_DIR
from aragorn.systems.catalogue import CONCLUSION_BM25
from aragorn_training.evaluation.plots import create_figure, render_png
from tests.benchmarks.benchmark import time_call
from tests.benchmarks.rank import NETWORKS
from tests.benchmarks.synthetic_inputs import write_json_lines
from tests.benchmarks.word_networks import load_candidates, score_with_empty_cache
from tests.conftest import open_retrieval

SHARES = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1)  # of the topics and of the corpus
# few for BERT, which scores about 25 pairs per second
CANDIDATES = {"words": (16, 64, 256, 1024), "pieces": (16, 64)}
STAGES = {
    "read": "documents", "BM25 index": "conclusion index", "BM25, all topics": "conclusion retrieval", "hashes": "hashes",
}  # fmt: skip
MARKERS = "osD^vP"  # like the dashes, for readers in grey
DASHES = ("-", "--", ":", "-.")
# curves: name → points (size, seconds)


def plot(directory, full_size_dir, file, names=NETWORKS):
    """Measure times, print slopes in the log-log plot, and save a plot with a panel each for
    topics, candidates and arguments.

    Topics and candidates are varied on the input `directory`; for arguments, shares of the corpus
    in `full_size_dir` are used.
    """
    by_topics, by_candidates = time_networks(directory, names)
    panels = {
        "topics": by_topics,
        "candidates of one topic": by_candidates,
        "arguments in the corpus": time_stages(full_size_dir),
    }
    file.write_bytes(draw(panels))


def draw(panels):
    """Draw a panel of curves for each kind of size, print their slopes, and return a PNG file."""
    figure = create_figure(15, 5.2)
    axes = figure.subplots(1, len(panels), sharey=True)
    for (label, curves), axis in zip(panels.items(), axes, strict=True):
        for name, points in curves.items():
            sizes, seconds = np.array(points).T
            position = [*NETWORKS, *STAGES].index(name)
            marker = MARKERS[position % len(MARKERS)]
            style = {"marker": marker, "linestyle": DASHES[position % len(DASHES)]}
            axis.loglog(sizes, seconds, color=f"C{position}", markersize=5, label=name, **style)
            slope = np.polyfit(*np.log([sizes, seconds]), 1)[0]  # 1 if time is linear in size
            print(f"{label}: {name} {seconds[-1]:.2f} s at {sizes[-1]:,.0f}, slope {slope:.2f}")
        ticks = sorted({size for points in curves.values() for size, _ in points})
        labels = [f"{size:,}" if size < 10_000 else f"{size / 1000:.0f}k" for size in ticks]
        axis.set_xticks(ticks, labels)
        axis.xaxis.set_minor_formatter(NullFormatter())
        axis.set(xlabel=label)
        axis.grid(alpha=0.3, which="both", linewidth=0.4)
        position = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.13), "ncols": 3}
        axis.legend(**position, fontsize=9, frameon=False)
    axes[0].set_ylabel("seconds")
    return render_png(figure)


def time_networks(directory, names):
    """Time networks on more and more topics (word networks) and candidates of one topic (all)."""
    by_topics = {}
    by_candidates = {}
    for name in names:
        checkpoint = load_checkpoint(CHECKPOINT_DIR / name)
        if isinstance(checkpoint.network, LatentRanker):
            continue
        pairs, ids = load_candidates(directory, checkpoint.tokeniser)
        score = partial(score_with_empty_cache, tokens=ids, checkpoint=checkpoint)
        qids = pairs["qid"].unique()
        if checkpoint.network.token_unit == "words":
            samples = {
                n: pairs[pairs["qid"].isin(qids[:n])]
                for n in (int(len(qids) * share) or 1 for share in SHARES)
            }
            by_topics[name] = [
                (n, time_call(partial(score, sample))) for n, sample in samples.items()
            ]
        candidates = pairs.drop_duplicates("docno").assign(qid=qids[0])
        lists = [candidates.head(n) for n in CANDIDATES[checkpoint.network.token_unit]]
        by_candidates[name] = [(len(sample), time_call(partial(score, sample))) for sample in lists]
    return by_topics, by_candidates


def time_stages(directory):
    """Time the stages before scoring on random shares of the corpus."""
    curves = defaultdict(list)
    for share in SHARES:
        with tempfile.TemporaryDirectory() as folder:
            sample = write_json_lines(directory, Path(folder) / "input", share)
            with open_retrieval(sample) as retrieval:
                retrieval.rank(CONCLUSION_BM25)
                size = retrieval.collection.documents.n_documents
                seconds = retrieval.collection.stopwatch.seconds
                for name, stage in STAGES.items():
                    curves[name].append((size, seconds[stage]))
    return curves
