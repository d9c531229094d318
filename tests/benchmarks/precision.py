"""Benchmarks of encoders in bfloat16, and of a BERT network's speed and nDCG@5 in bfloat16 and int8, against float32.

`rank --precision` supports bfloat16 but not int8.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pandas as pd
import torch
from torch import nn

from submission.data.dataset import Dataset
from submission.engine.base import CPU
from submission.inference.device import choose_precision, move_to_device
from submission.inference.enricher_checkpoint import load_enricher
from submission.inference.enrichment import enrich_texts
from submission.inference.ranker_checkpoint import RankerCheckpoint, load_checkpoint
from submission.models.rankers.sbert import SBERT
from submission.paths import CHECKPOINT_DIR
from submission.progress import track
from submission.rankings import rank_by_score, truncate_rankings
from submission.retrieval.dense import encode_texts
from tests.benchmarks.benchmark import Benchmark, Result, Seconds, time_call
from tests.benchmarks.synthetic_inputs import sample_premises
from tests.benchmarks.word_networks import load_candidates, score_without_cache
from training.evaluation.evaluate import HEADLINE_MEASURES, evaluate_run
from training.evaluation.qrels import read_qrels

RANKER = "vanilla_bert"


def build_encoder_benchmarks(directory: Path, max_documents: int = 200, max_premises: int = 512) -> list[Benchmark]:
    """Build the benchmarks of encoding documents with DeepCT and premises with SBERT in bfloat16, against float32.

    Raises:
        UsageError: If the processor does not support bfloat16.
    """
    bfloat16 = choose_precision("bfloat16", CPU)
    return [
        Benchmark(name, task, "float32", unit, len(texts), build_encoder(texts, bfloat16), build_encoder(texts, None), 2)
        for name, unit, texts, build_encoder in (
            ("deepct", "documents", sample_premises(directory, max_documents), _build_deepct_encoder),
            ("sbert", "premises", sample_premises(directory, max_premises), _build_sbert_encoder),
        )
        for task in [f"{name}: {unit} of a collection, CPU, bfloat16"]
    ]


def _build_deepct_encoder(texts: list[str], precision: torch.dtype | None) -> Callable[[], object]:
    checkpoint = replace(load_enricher(CHECKPOINT_DIR / "deepct"), precision=precision)
    return lambda: enrich_texts(texts, checkpoint, CPU)


def _build_sbert_encoder(texts: list[str], precision: torch.dtype | None) -> Callable[[], object]:
    checkpoint = load_checkpoint(CHECKPOINT_DIR / "sbert")
    ids = [checkpoint.tokeniser.encode_premise(text) for text in texts]
    ranker = move_to_device(checkpoint.network, CPU, precision)
    assert isinstance(ranker, SBERT)
    return lambda: encode_texts(ids, ranker, CPU, precision)


def measure_ranker(directory: Path, qrels: Path, topic_count: int | None = None) -> list[Result]:
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
    times: Seconds = {name: [] for name in checkpoints}
    rankings: dict[str, list[pd.DataFrame]] = {name: [] for name in checkpoints}
    topic_candidates = [topic.reset_index(drop=True) for _, topic in candidates.groupby("qid", sort=False)][:topic_count]
    for topic in track(topic_candidates, f"{RANKER} precision", "topics"):
        for name, variant in checkpoints.items():

            def score(topic: pd.DataFrame = topic, name: str = name, variant: RankerCheckpoint = variant) -> None:
                rankings[name].append(topic.assign(score=score_without_cache(topic, ids, variant)))

            times[name].append(time_call(score))
    judgments, pair_count = read_qrels(qrels, set(dataset.documents["docno"])), sum(map(len, topic_candidates))
    seconds = {name: sum(values) for name, values in times.items()}
    cells = {}
    for name, scores in rankings.items():
        run = truncate_rankings(rank_by_score(pd.concat(scores, ignore_index=True), dataset.topics), 100)
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


def _quantise(checkpoint: RankerCheckpoint) -> nn.Module:
    """Return a copy of the network with linear layers dynamically quantised to int8."""
    ranker = deepcopy(checkpoint.network)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated in favour of torchao
        ranker.encoder.bert = torch.ao.quantization.quantize_dynamic(ranker.encoder.bert, {nn.Linear}, dtype=torch.qint8)
    return ranker
