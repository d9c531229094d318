"""Benchmarks of Ray's one-thread workers, against the local engine on the same shards, and of the costs per shard."""

from __future__ import annotations

import pickle
import time
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice
from pathlib import Path

import numpy as np
import torch

from submission.data.document_store import DocumentStore
from submission.engine.base import CPU, LOCAL_ENGINE, Engine
from submission.engine.factory import open_engine
from submission.engine.ray_engine import RayEngine
from submission.engine.shards import Shard, compute_shards
from submission.inference.ranker_checkpoint import load_checkpoint
from submission.paths import CHECKPOINT_DIR
from submission.retrieval.dense import SHARD_SIZE as DENSE_SHARD_SIZE
from submission.retrieval.dense import encode_shard
from submission.systems.catalogue import CONCLUSION_BM25
from tests.benchmarks.benchmark import Benchmark, Result, compare, time_call
from tests.benchmarks.synthetic_inputs import open_empty_store, open_execution
from tests.benchmarks.word_networks import score_without_cache

PAIRS, SHARD_SIZE = 512, 64  # small shards keep all workers busy until the end
FEW_SHARDS, MANY_SHARDS = 2_000, 20_000  # numbers of empty shards
TARGET_SECONDS = 0.020  # target time per empty shard
TEXTS = 128  # number of texts encoded to measure a worker's cost
DRIVER_SHARDS = 40  # number of shards dispatched to measure the driver's cost


def measure(directory: Path, repetitions: int) -> list[Result]:
    """Measure the throughput of BERT, the cost of empty shards, and the costs per shard that the simulation needs."""
    threads = torch.get_num_threads()
    with open_engine("ray") as ray:
        throughput = [_measure_throughput(directory, ray, n, repetitions) for n in (threads, 1)]
        return [*throughput, *_measure_empty_shards(ray), _measure_costs(directory, ray)]


def _measure_throughput(directory: Path, ray: Engine, threads: int, repetitions: int) -> Result:
    """Compare Ray, with one worker per thread of this process, with the local engine on `threads` threads."""
    workers = torch.get_num_threads()
    task = f"vanilla_bert: {PAIRS} pairs, {workers} one-thread workers of Ray"
    target = 0.95 if threads == workers else 0.9 * workers
    return compare(build_benchmark(directory, ray, threads, task, target), repetitions)


def build_benchmark(directory: Path, ray: Engine, threads: int, task: str, target: float) -> Benchmark:
    """Build the benchmark; its rounds raise AssertionError unless all their scores are bitwise equal."""
    checkpoint, round_scores = load_checkpoint(CHECKPOINT_DIR / "vanilla_bert"), list[np.ndarray]()
    checkpoint.network.shard_size = SHARD_SIZE
    with open_execution(directory) as execution:
        candidates, tokens = execution.get_ranking(CONCLUSION_BM25), execution.tokens
        rows = np.linspace(0, len(candidates) - 1, PAIRS).astype(int)  # pairs are repeated if the input is small
        pairs = candidates.iloc[rows].reset_index(drop=True)
        tokens.get_premise_ids(checkpoint.tokeniser, pairs["docno"])  # keeps tokenisation out of the measured time

    def score_pairs(engine: Engine) -> None:
        round_scores.append(score_without_cache(pairs, tokens, checkpoint, CPU, engine))
        if not (round_scores[-1] == round_scores[0]).all():
            raise AssertionError("the scores of two rounds differ")

    def baseline() -> None:
        thread_count = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            score_pairs(LOCAL_ENGINE)
        finally:
            torch.set_num_threads(thread_count)

    baseline_name = f"this process, {threads} thread{'s' if threads > 1 else ''}"
    return Benchmark("engine", task, baseline_name, "pairs", PAIRS, lambda: score_pairs(ray), baseline, target)


def _measure_empty_shards(ray: Engine) -> list[Result]:
    """Measure the cost of dispatching and caching an empty shard, which must not grow with the number of shards."""
    few, many = (_time_shards(ray, bytes, [Shard(f"{i}.bin", 1, bytes) for i in range(n)]) for n in (FEW_SHARDS, MANY_SHARDS))
    task, sizes = "an empty shard in Ray, cached", [f"{1000 * seconds:.1f} ms" for seconds in (few, many, TARGET_SECONDS)]
    return [
        Result("empty shards", task, "target", sizes[0], sizes[2], TARGET_SECONDS / few, 1, {"ours": [few]}),
        Result(
            "many empty shards", f"{task}, of {MANY_SHARDS:,}", f"of {FEW_SHARDS:,}", sizes[1], sizes[0], few / many, 0.8,
            {"ours": [many], "baseline": [few]},
        ),
    ]  # fmt: skip


@dataclass(frozen=True)
class ZeroBytes:
    """A picklable function that returns `size` zero bytes."""

    size: int

    def __call__(self, shard: object) -> bytes:
        """Return zero bytes for any shard."""
        return bytes(self.size)


def _measure_costs(directory: Path, ray: Engine) -> Result:
    """Measure the time that a shard of premise vectors takes a worker and the driver, and the bytes transferred.

    The driver's time is processor time, which excludes waiting for workers on the same machine. With a shared cache directory,
    the workers themselves read the texts and write the vectors.
    """
    checkpoint, threads = load_checkpoint(CHECKPOINT_DIR / "sbert"), torch.get_num_threads()
    with open_execution(directory) as execution:
        documents, docnos = execution.documents, execution.documents.searchable_docnos
        encode, texts = partial(encode_shard, checkpoint, "premise", CPU), _read_premises(documents, docnos[:TEXTS])
        torch.set_num_threads(1)
        worker_seconds = time_call(lambda: encode(texts)) * DENSE_SHARD_SIZE / len(texts)
        torch.set_num_threads(threads)
        size = len(encode(texts)) * DENSE_SHARD_SIZE // len(texts)
        batches = [list(islice(cycle(docnos), n * DENSE_SHARD_SIZE, (n + 1) * DENSE_SHARD_SIZE)) for n in range(DRIVER_SHARDS)]
        shards = [
            Shard(f"{n}.npy", 1, partial(_read_premises, documents, batch), can_load_remotely=True)
            for n, batch in enumerate(batches)
        ]
        driver_seconds, shared_driver_seconds = (
            _time_driver(engine, ZeroBytes(size), shards) for engine in (ray, RayEngine(shares_cache=True))
        )
        sent_bytes, shared_sent_bytes = len(pickle.dumps(shards[0].load_input())), len(pickle.dumps(batches[0]))
    costs = {
        "worker": worker_seconds, "driver": driver_seconds, "sent": sent_bytes, "received": size,
        "shared driver": shared_driver_seconds, "shared sent": shared_sent_bytes,
    }  # fmt: skip
    task = f"a shard of {DENSE_SHARD_SIZE} premises: computed by a worker"
    times = f"{worker_seconds:.1f} s", f"{1000 * driver_seconds:.0f} ms"
    seconds = {name: [float(value)] for name, value in costs.items()}
    return Result("costs", task, "read, sent and cached by the driver", *times, worker_seconds / driver_seconds, None, seconds)


def _read_premises(documents: DocumentStore, docnos: list[str]) -> list[str]:
    return documents.read_texts(docnos)["premise"].tolist()


def _time_driver(ray: Engine, function: ZeroBytes, shards: list[Shard[object]]) -> float:
    """Measure the driver's processor time per shard."""
    start = time.process_time()
    _time_shards(ray, function, shards)
    return (time.process_time() - start) / len(shards)


def _time_shards(ray: Engine, function: ZeroBytes | type[bytes], shards: list[Shard[object]]) -> float:
    """Measure the elapsed time per shard."""
    with open_empty_store() as store:
        list(ray.map(function, [(0, shards[0].load_input())], CPU))  # starts the workers
        return time_call(lambda: compute_shards(function, shards, store, ray, CPU, "shards", "shards")) / len(shards)
