"""Benchmark of the speed and the nDCG@5 of a BERT network on the CPU in bfloat16 and int8, against float32.

`rank --precision` supports bfloat16 but not int8.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pandas as pd
import torch
from torch import nn

from submission.data.dataset import Dataset
from submission.inference.device import choose_precision
from submission.inference.pair_scoring import score_documents
from submission.inference.ranker_checkpoint import RankerCheckpoint, load_checkpoint
from submission.paths import CHECKPOINT_DIR
from submission.progress import track
from submission.rankings import rank_by_score, truncate_rankings
from submission.storage.artifact_store import ArtifactStore
from tests.benchmarks.benchmark import Result
from tests.benchmarks.word_networks import load_candidates
from training.evaluation.evaluate import HEADLINE_MEASURES, evaluate_run
from training.evaluation.qrels import read_qrels

RANKER = "vanilla_bert"
CPU = torch.device("cpu")


def measure(directory: Path, qrels: Path) -> list[Result]:
    """Measure the speed and the nDCG@5 of each precision; for int8, the linear layers are dynamically quantised.

    Raises:
        UsageError: If the processor does not support bfloat16.
    """
    checkpoint, dataset = load_checkpoint(CHECKPOINT_DIR / RANKER), Dataset(directory)
    candidates, ids = load_candidates(directory, checkpoint.tokeniser)
    checkpoints = {
        "bfloat16": replace(checkpoint, precision=choose_precision("bfloat16", CPU)),
        "dynamic int8": replace(checkpoint, network=_quantise(checkpoint)),
        "float32": checkpoint,
    }
    times: dict[str, list[float]] = {name: [] for name in checkpoints}
    scores: dict[str, list[pd.DataFrame]] = {name: [] for name in checkpoints}
    topic_candidates = [topic.reset_index(drop=True) for _, topic in candidates.groupby("qid", sort=False)]
    for topic in track(topic_candidates, f"{RANKER} precision", "topics"):
        for name, variant in checkpoints.items():
            with tempfile.TemporaryDirectory() as folder:
                start = time.perf_counter()
                topic_scores = score_documents(topic, ids, variant, CPU, ArtifactStore(Path(folder), {}))
                times[name].append(time.perf_counter() - start)
                scores[name].append(topic.assign(score=topic_scores))
    seconds = {name: sum(values) for name, values in times.items()}
    judgments = read_qrels(qrels, set(dataset.documents["docno"]))
    cells = {
        name: f"{len(candidates) / seconds[name]:.1f} pairs/s, {_format_measures(scores[name], dataset.topics, judgments)}"
        for name in checkpoints
    }
    return [
        Result(
            name, f"{RANKER}: {len(candidates):,} pairs, CPU, {name}", "float32", cells[name], cells["float32"],
            seconds["float32"] / seconds[name], None, {side: times[side] for side in (name, "float32")},
        )
        for name in ("bfloat16", "dynamic int8")
    ]  # fmt: skip


def _quantise(checkpoint: RankerCheckpoint) -> nn.Module:
    """Return a copy of the network with linear layers dynamically quantised to int8."""
    ranker = deepcopy(checkpoint.network)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated in favour of torchao
        ranker.encoder.bert = torch.ao.quantization.quantize_dynamic(ranker.encoder.bert, {nn.Linear}, dtype=torch.qint8)
    return ranker


def _format_measures(scores: list[pd.DataFrame], topics: pd.DataFrame, judgments: pd.DataFrame) -> str:
    run = truncate_rankings(rank_by_score(pd.concat(scores, ignore_index=True), topics), 100)
    means = evaluate_run(run.assign(tag="precision"), judgments)[list(HEADLINE_MEASURES)].mean()
    return ", ".join(f"{measure} {value:.3f}" for measure, value in means.items())
