"""bfloat16 and int8 instead of float32 for a BERT network on the CPU: how much faster, and what that does to nDCG@5.

`rank --precision bfloat16` computes the former; the latter is not used.
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
from submission.data.qrels import read_qrels
from submission.inference.device import choose_precision
from submission.inference.pair_scoring import score
from submission.inference.ranker_checkpoint import RankerCheckpoint, load_checkpoint
from submission.paths import CHECKPOINT_DIR
from submission.progress import track
from submission.rankings import rank_by_score, truncate_rankings
from submission.storage.artifact_store import ArtifactStore
from tests.benchmarks.benchmark import Result
from tests.benchmarks.word_networks import candidates_of
from training.evaluation.evaluate import HEADLINE_MEASURES, evaluate_run

NAME = "vanilla_bert"
MEASURES = HEADLINE_MEASURES
CPU = torch.device("cpu")


def lower(directory: Path, qrels: Path) -> list[Result]:
    """All candidates, topic by topic in each way in turns. int8 is torch's dynamic quantisation of the encoder's linear layers.

    Raises:
        UsageError: this processor does not compute in bfloat16.
    """
    checkpoint, source = load_checkpoint(CHECKPOINT_DIR / NAME), Dataset(directory)
    candidates, ids = candidates_of(directory, checkpoint.tokeniser)
    in_half = replace(checkpoint, precision=choose_precision("bfloat16", CPU))
    ways = {"bfloat16": in_half, "dynamic int8": replace(checkpoint, ranker=_quantised(checkpoint)), "float32": checkpoint}
    times: dict[str, list[float]] = {way: [] for way in ways}
    scores: dict[str, list[pd.DataFrame]] = {way: [] for way in ways}
    pairs = [topic.reset_index(drop=True) for _, topic in candidates.groupby("qid", sort=False)]
    for topic in track(pairs, f"{NAME} precision", "topics"):
        for way, network in ways.items():
            with tempfile.TemporaryDirectory() as folder:
                start = time.perf_counter()
                found = score(topic, ids, network, CPU, ArtifactStore(Path(folder), {}))
                times[way].append(time.perf_counter() - start)
                scores[way].append(topic.assign(score=found))
    seconds = {way: sum(values) for way, values in times.items()}
    judgments = read_qrels(qrels, set(source.documents["docno"]))
    sides = {
        way: f"{len(candidates) / seconds[way]:.1f} pairs/s, {_effectiveness(scores[way], source.topics, judgments)}"
        for way in ways
    }

    def line(way: str) -> Result:
        what, taken = f"{NAME}: {len(candidates):,} pairs, CPU, {way}", {name: times[name] for name in (way, "float32")}
        return Result(way, what, "float32", sides[way], sides["float32"], seconds["float32"] / seconds[way], None, taken)

    return [line("bfloat16"), line("dynamic int8")]


def _quantised(checkpoint: RankerCheckpoint) -> nn.Module:
    ranker = deepcopy(checkpoint.ranker)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is deprecated, in favour of a package of its own
        ranker.encoder.bert = torch.ao.quantization.quantize_dynamic(ranker.encoder.bert, {nn.Linear}, dtype=torch.qint8)
    return ranker


def _effectiveness(scores: list[pd.DataFrame], topics: pd.DataFrame, judgments: pd.DataFrame) -> str:
    run = truncate_rankings(rank_by_score(pd.concat(scores, ignore_index=True), topics), 100)
    means = evaluate_run(run.assign(tag="it"), judgments)[list(MEASURES)].mean()
    return ", ".join(f"{measure} {value:.3f}" for measure, value in means.items())
