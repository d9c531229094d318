"""Compare Ray's one-thread workers with the local engine on the same shards, and measure the cost of a shard."""

from __future__ import annotations

import pickle
import tempfile
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
from submission.inference.pair_scoring import score_documents
from submission.inference.ranker_checkpoint import load_checkpoint
from submission.paths import CHECKPOINT_DIR
from submission.retrieval.dense import SHARD_SIZE as DENSE_SHARD_SIZE
from submission.retrieval.dense import encode_shard
from submission.storage.artifact_store import ArtifactStore
from submission.systems.catalogue import CONCLUSION_BM25
from tests.benchmarks.benchmark import Benchmark, Result, compare
from tests.benchmarks.synthetic_inputs import open_execution

PAIRS, SHARD_SIZE = 512, 64  # small shards keep all workers busy until the end
FEW, MANY, TARGET = 2_000, 20_000, 0.020  # empty shards, and the target in seconds per shard
TEXTS = 128  # encoded to measure the cost per text
DRIVER_SHARDS = 40  # dispatched without computing vectors


def measure(directory: Path, repetitions: int) -> list[Result]:
    """Measure the throughput of BERT, empty shards, and the costs that the simulation reads."""
    threads = torch.get_num_threads()
    with open_engine("ray") as ray:
        throughput = [_measure_throughput(directory, ray, n, repetitions) for n in (threads, 1)]
        return [*throughput, *_measure_empty_shards(ray), _measure_costs(directory, ray)]


def _measure_throughput(directory: Path, ray: Engine, threads: int, repetitions: int) -> Result:
    """Compare all of Ray's workers, one per thread of this process, with `threads` local threads."""
    workers = torch.get_num_threads()
    task = f"vanilla_bert: {PAIRS} pairs, {workers} one-thread workers of Ray"
    benchmark = build_benchmark(directory, ray, threads)
    return compare(benchmark, task, 0.95 if threads == workers else 0.9 * workers, repetitions)


def build_benchmark(directory: Path, ray: Engine, threads: int) -> Benchmark:
    """Build the benchmark; every round checks the scores.

    Raises:
        AssertionError: If a score differs in any bit.
    """
    checkpoint, rounds = load_checkpoint(CHECKPOINT_DIR / "vanilla_bert"), list[np.ndarray]()
    checkpoint.network.shard_size = SHARD_SIZE
    with open_execution(directory) as execution:
        candidates, tokens = execution.get_ranking(CONCLUSION_BM25), execution.tokens
        rows = np.linspace(0, len(candidates) - 1, PAIRS).astype(int)  # repeats pairs of a small input
        pairs = candidates.iloc[rows].reset_index(drop=True)
        tokens.get_premise_ids(checkpoint.tokeniser, pairs["docno"])  # tokenisation is not timed

    def score_pairs(engine: Engine) -> None:
        with tempfile.TemporaryDirectory() as folder:  # no cache between rounds
            rounds.append(score_documents(pairs, tokens, checkpoint, CPU, ArtifactStore(Path(folder), {}), engine))
        if not (rounds[-1] == rounds[0]).all():
            raise AssertionError("the scores differ")

    def baseline() -> None:
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            score_pairs(LOCAL_ENGINE)
        finally:
            torch.set_num_threads(before)

    baseline_name = f"this process, {threads} thread{'s' if threads > 1 else ''}"
    return Benchmark("engine", baseline_name, "pairs", PAIRS, lambda: score_pairs(ray), baseline)


def _measure_empty_shards(ray: Engine) -> list[Result]:
    """Measure dispatching and caching empty shards; the cost per shard must not grow with their number."""
    few, many = (_time_shards(ray, bytes, [Shard(f"{i}.bin", 1, bytes) for i in range(n)]) for n in (FEW, MANY))
    task, sizes = "an empty shard in Ray, cached", [f"{1000 * seconds:.1f} ms" for seconds in (few, many, TARGET)]
    return [
        Result("empty shards", task, "target", sizes[0], sizes[2], TARGET / few, 1, {"ours": [few]}),
        Result(
            "many empty shards", f"{task}, of {MANY:,}", f"of {FEW:,}", sizes[1], sizes[0], few / many, 0.8,
            {"ours": [many], "baseline": [few]},
        ),
    ]  # fmt: skip


@dataclass(frozen=True)
class Zeros:
    """A picklable function that returns a result of fixed size."""

    size: int

    def __call__(self, shard: object) -> bytes:
        """Return zero bytes."""
        return bytes(self.size)


def _measure_costs(directory: Path, ray: Engine) -> Result:
    """Measure seconds and bytes of a shard of premise vectors, for a worker and for the driver without computation.

    The driver's time is processor time, which excludes waiting for workers on the same machine. If the cache directory is
    shared, the workers read and write.
    """
    checkpoint, threads = load_checkpoint(CHECKPOINT_DIR / "sbert"), torch.get_num_threads()
    with open_execution(directory) as execution:
        documents, docnos = execution.documents, execution.documents.searchable_docnos
        encode, texts = partial(encode_shard, checkpoint, "premise", CPU), _read_premises(documents, docnos[:TEXTS])
        torch.set_num_threads(1)
        start = time.perf_counter()
        encode(texts)
        worker = (time.perf_counter() - start) * DENSE_SHARD_SIZE / len(texts)
        torch.set_num_threads(threads)
        size = len(encode(texts)) * DENSE_SHARD_SIZE // len(texts)
        batches = [list(islice(cycle(docnos), n * DENSE_SHARD_SIZE, (n + 1) * DENSE_SHARD_SIZE)) for n in range(DRIVER_SHARDS)]
        shards = [
            Shard(f"{n}.npy", 1, partial(_read_premises, documents, batch), can_load_remotely=True)
            for n, batch in enumerate(batches)
        ]
        driver, shared_driver = (_time_driver(engine, Zeros(size), shards) for engine in (ray, RayEngine(shares_cache=True)))
        sent, shared_sent = len(pickle.dumps(shards[0].load_input())), len(pickle.dumps(batches[0]))
    costs = {
        "worker": worker, "driver": driver, "sent": sent, "received": size, "shared driver": shared_driver,
        "shared sent": shared_sent,
    }  # fmt: skip
    task = f"a shard of {DENSE_SHARD_SIZE} premises: computed by a worker"
    times = f"{worker:.1f} s", f"{1000 * driver:.0f} ms"
    seconds = {name: [float(value)] for name, value in costs.items()}
    return Result("costs", task, "read, sent and cached by the driver", *times, worker / driver, None, seconds)


def _read_premises(documents: DocumentStore, docnos: list[str]) -> list[str]:
    return documents.read_texts(docnos)["premise"].tolist()


def _time_driver(ray: Engine, function: Zeros, shards: list[Shard[object]]) -> float:
    start = time.process_time()
    _time_shards(ray, function, shards)
    return (time.process_time() - start) / len(shards)


def _time_shards(ray: Engine, function: Zeros | type[bytes], shards: list[Shard[object]]) -> float:
    with tempfile.TemporaryDirectory() as folder:
        list(ray.map(function, [(0, shards[0].load_input())], CPU))  # starts the workers
        start = time.perf_counter()
        compute_shards(function, shards, ArtifactStore(Path(folder), {}), ray, CPU, "shards", "shards")
        return (time.perf_counter() - start) / len(shards)
