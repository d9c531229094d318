"""Ray's one-thread workers against threads of this process, on the same parts; what a part costs beside its computation."""

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
from submission.inference.pair_scoring import score
from submission.inference.ranker_checkpoint import load_checkpoint
from submission.paths import CHECKPOINT_DIR
from submission.retrieval.dense import KEPT_TOGETHER, encode_shard
from submission.storage.artifact_store import ArtifactStore
from submission.systems.catalogue import CONCLUSION_BM25
from tests.benchmarks.benchmark import Benchmark, Result, compare
from tests.benchmarks.synthetic_inputs import execution

PAIRS, PART = 512, 64  # of BERT; of a part, which is small, so that no worker is left alone for long at the end
FEW, MANY, SECONDS = 2_000, 20_000, 0.020  # empty parts, and what each may cost
TEXTS = 128  # encoded, to know what a text costs
HANDED_OUT = 40  # parts of vectors that nobody computes


def engine(directory: Path, repetitions: int) -> list[Result]:
    """Throughput of BERT's parts, an empty part, and the costs that a simulation needs."""
    threads = torch.get_num_threads()
    with open_engine("ray") as ray:
        results = [_throughput(directory, ray, number, repetitions) for number in (threads, 1)]
        return [*results, *_empty(ray), _costs(directory, ray)]


def _throughput(directory: Path, ray: Engine, threads: int, repetitions: int) -> Result:
    """All of Ray's workers, as many as this process has threads, against so many of these."""
    workers = torch.get_num_threads()
    what = f"vanilla_bert: {PAIRS} pairs, {workers} one-thread workers of Ray"
    benchmark = bert(directory, ray, threads)
    return compare(benchmark, what, 0.95 if threads == workers else 0.9 * workers, repetitions)


def bert(directory: Path, ray: Engine, threads: int) -> Benchmark:
    """Each time the scores of the same pairs, to the last bit.

    Raises:
        AssertionError: they differ.
    """
    checkpoint, expected = load_checkpoint(CHECKPOINT_DIR / "vanilla_bert"), list[np.ndarray]()
    checkpoint.ranker.kept_together = PART
    with execution(directory) as running:
        candidates, tokens = running.get_ranking(CONCLUSION_BM25), running.tokens
        few = np.linspace(0, len(candidates) - 1, PAIRS).astype(int)  # of a small input, some several times
        pairs = candidates.iloc[few].reset_index(drop=True)
        tokens.get_premise_ids(checkpoint.tokeniser, pairs["docno"])  # read before the time is taken

    def scored(by: Engine) -> None:
        with tempfile.TemporaryDirectory() as folder:  # nothing is kept from one round to the next
            expected.append(score(pairs, tokens, checkpoint, CPU, ArtifactStore(Path(folder), {}), by))
        if not (expected[-1] == expected[0]).all():
            raise AssertionError("the two sides differ")

    def baseline() -> None:
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            scored(LOCAL_ENGINE)
        finally:
            torch.set_num_threads(before)

    against = f"this process, {threads} thread{'s' if threads > 1 else ''}"
    return Benchmark("engine", against, "pairs", PAIRS, lambda: scored(ray), baseline)


def _empty(ray: Engine) -> list[Result]:
    """Parts of no bytes, of which nothing is computed, kept: few, and many, each of which must not cost more."""
    few, many = (
        _seconds_a_part(ray, bytes, [Shard(f"{one}.bin", 1, bytes) for one in range(number)]) for number in (FEW, MANY)
    )
    what, sizes = "an empty part by Ray, kept", [f"{1000 * seconds:.1f} ms" for seconds in (few, many, SECONDS)]
    of_many = f"{what}, of {MANY:,}", f"of {FEW:,}"
    return [
        Result("empty", what, "what is asked for", sizes[0], sizes[2], SECONDS / few, 1, {"ours": [few]}),
        Result("many", *of_many, sizes[1], sizes[0], few / many, 0.8, {"ours": [many], "baseline": [few]}),
    ]


@dataclass(frozen=True)
class Zeros:
    """What gives a result of a size, whatever the part."""

    size: int

    def __call__(self, part: object) -> bytes:
        """As many zeros."""
        return bytes(self.size)


def _costs(directory: Path, ray: Engine) -> Result:
    """Seconds and bytes of a part of premises' vectors: for a worker and, without it, for the process that hands parts out.

    For the latter it is the processor's time: workers on the same machine would be waited for. Where the working directory is
    shared, the workers read and write.
    """
    checkpoint, before = load_checkpoint(CHECKPOINT_DIR / "sbert"), torch.get_num_threads()
    with execution(directory) as running:
        documents, docnos = running.documents, running.documents.searchable_docnos
        encode, few = partial(encode_shard, checkpoint, "premise", CPU), _texts(documents, docnos[:TEXTS])
        torch.set_num_threads(1)
        start = time.perf_counter()
        encode(few)
        worker = (time.perf_counter() - start) * KEPT_TOGETHER / len(few)
        torch.set_num_threads(before)
        vectors = len(encode(few)) * KEPT_TOGETHER // len(few)
        some = [list(islice(cycle(docnos), n * KEPT_TOGETHER, (n + 1) * KEPT_TOGETHER)) for n in range(HANDED_OUT)]
        parts = [Shard(f"{n}.npy", 1, partial(_texts, documents, own), can_load_remotely=True) for n, own in enumerate(some)]
        driver, shared = (_own_seconds(engine, Zeros(vectors), parts) for engine in (ray, RayEngine(shared=True)))
        sent, named = len(pickle.dumps(parts[0].load_input())), len(pickle.dumps(some[0]))
    costs = {"worker": worker, "driver": driver, "sent": sent, "received": vectors, "shared": shared, "named": named}
    what = f"a part of {KEPT_TOGETHER} premises: computed by a worker"
    sizes = f"{worker:.1f} s", f"{1000 * driver:.0f} ms"
    seconds = {name: [float(value)] for name, value in costs.items()}
    return Result("costs", what, "read, sent and kept by the driver", *sizes, worker / driver, None, seconds)


def _texts(documents: DocumentStore, docnos: list[str]) -> list[str]:
    return documents.read_texts(docnos)["premise"].tolist()


def _own_seconds(ray: Engine, function: Zeros, parts: list[Shard[object]]) -> float:
    start = time.process_time()
    _seconds_a_part(ray, function, parts)
    return (time.process_time() - start) / len(parts)


def _seconds_a_part(ray: Engine, function: Zeros | type[bytes], parts: list[Shard[object]]) -> float:
    with tempfile.TemporaryDirectory() as folder:
        list(ray.map(function, [(0, parts[0].load_input())], CPU))  # there is a worker now
        start = time.perf_counter()
        compute_shards(function, parts, ArtifactStore(Path(folder), {}), ray, CPU, "parts", "parts")
        return (time.perf_counter() - start) / len(parts)
