"""Benchmark of a BERT network's speed and nDCG@5 in bfloat16 and int8, against float32.

`rank --precision` supports bfloat16 but not int8.
"""

from __future__ import annotations

import warnings
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path

import pandas as pd
import torch
from torch import nn

from submission.data.dataset import Dataset
from submission.engine.base import CPU
from submission.errors import UsageError
from submission.inference.device import choose_precision
from submission.inference.ranker_checkpoint import load_checkpoint
from submission.paths import CHECKPOINT_DIR
from submission.progress import track
from submission.rankings import rank_by_score, truncate_rankings
from tests.benchmarks.benchmark import Result, Seconds, time_call
from tests.benchmarks.word_networks import load_candidates, score_without_cache
from training.evaluation.evaluate import HEADLINE_MEASURES, evaluate_run
from training.evaluation.qrels import read_qrels

RANKER = "vanilla_bert"


def measure_ranker(directory: Path, qrels: Path | None, topic_count: int | None = None) -> list[Result]:
    """Measure the speed and the nDCG@5 of each precision; for int8, the linear layers are dynamically quantised.

    Raises:
        UsageError: If no qrels are given or the processor does not support bfloat16.
    """
    if not qrels:
        raise UsageError("add --qrels FILE")
    checkpoint, dataset = load_checkpoint(CHECKPOINT_DIR / RANKER), Dataset(directory)
    candidates, ids = load_candidates(directory, checkpoint.tokeniser)
    checkpoints = {
        "bfloat16": replace(checkpoint, precision=choose_precision("bfloat16", CPU)),
        "dynamic int8": replace(checkpoint, network=_quantise(checkpoint.network)),
        "float32": checkpoint,
    }
    times: Seconds = {name: [] for name in checkpoints}
    scored = {name: list[pd.DataFrame]() for name in checkpoints}

    def score(topic: pd.DataFrame, name: str) -> None:
        scored[name].append(topic.assign(score=score_without_cache(topic, ids, checkpoints[name])))

    topics = [topic.reset_index(drop=True) for _, topic in candidates.groupby("qid", sort=False)][:topic_count]
    for topic in track(topics, f"{RANKER} precision", "topics"):
        for name in checkpoints:
            times[name].append(time_call(partial(score, topic, name)))
    judgments, pair_count = read_qrels(qrels, set(dataset.documents["docno"])), sum(map(len, topics))
    seconds, cells = {name: sum(values) for name, values in times.items()}, {}
    for name, frames in scored.items():
        run = truncate_rankings(rank_by_score(pd.concat(frames, ignore_index=True), dataset.topics), 100)
        means = evaluate_run(run.assign(tag="precision"), judgments)[list(HEADLINE_MEASURES)].mean()
        measures = ", ".join(f"{measure} {value:.3f}" for measure, value in means.items())
        cells[name] = f"{pair_count / seconds[name]:.1f} pairs/s, {measures}"
    return [
        Result(
            name, f"{RANKER}: {pair_count:,} pairs, CPU, {name}", "float32", cells[name], cells["float32"],
            seconds["float32"] / seconds[name], None, {side: times[side] for side in (name, "float32")},
        )
        for name in ("bfloat16", "dynamic int8")
    ]  # fmt: skip


def _quantise(network: nn.Module) -> nn.Module:
    """Return a copy of a network with linear layers dynamically quantised to int8."""
    ranker = deepcopy(network)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated in favour of torchao
        ranker.encoder.bert = torch.ao.quantization.quantize_dynamic(ranker.encoder.bert, {nn.Linear}, dtype=torch.qint8)
    return ranker
