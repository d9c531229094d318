"""Benchmarks of Ray with one-thread workers, against the local engine, and of costs per shard."""

import time
from contextlib import contextmanager
from functools import partial
from itertools import cycle, islice

import numpy as np
import torch

from aragorn.engine import CPU, LOCAL_ENGINE, Shard, compute_shards
from aragorn.engine.ray_engine import RayEngine, connect
from aragorn.index.dense import SHARD_SIZE as DENSE_SHARD_SIZE
from aragorn.index.dense import encode_shard
from aragorn.inference.checkpoint import load_checkpoint
from aragorn.paths import CHECKPOINT_DIR
from aragorn.systems.catalogue import CONCLUSION_BM25
from tests.benchmarks.benchmark import Result, time_call
from tests.benchmarks.synthetic_inputs import open_empty_parts, sample_rows
from tests.benchmarks.word_networks import score_with_empty_cache
from tests.conftest import open_retrieval

PAIRS, SHARD_SIZE = 512, 64  # small shards keep all workers busy until the end
TEXTS = 128  # number of texts encoded to measure a worker's cost
DRIVER_SHARDS = 40  # number of shards dispatched to measure the driver's cost


def measure(inputs):
    """Measure the throughput of Vanilla BERT and the costs per shard.

    Ray, with one worker per thread of this process, is compared with the local engine on as many
    threads and on one thread.
    """
    workers = torch.get_num_threads()
    with connect(None) as ray:
        pairs = ((workers, 0.95), (1, 0.9 * workers))
        throughput = [_measure_throughput(inputs, ray, *pair) for pair in pairs]
        return [*throughput, *_measure_costs(inputs.directory, ray)]


def _measure_throughput(inputs, ray, threads, target):
    """Compare scoring; a round raises AssertionError if its scores differ."""
    checkpoint = load_checkpoint(CHECKPOINT_DIR / "vanilla_bert")
    round_scores = list[np.ndarray]()
    checkpoint.network.shard_size = SHARD_SIZE
    with open_retrieval(inputs.directory) as retrieval:
        tokens = retrieval.tokens
        candidates = retrieval.rank(CONCLUSION_BM25)
        pairs = sample_rows(candidates, PAIRS, can_repeat=True)
        # keeps tokenisation out of the measured time
        tokens.get_premise_token_ids(checkpoint.tokeniser, pairs["docno"])

    def score_pairs(engine):
        round_scores.append(score_with_empty_cache(pairs, tokens, checkpoint, CPU, engine))
        if not (round_scores[-1] == round_scores[0]).all():
            raise AssertionError("the scores differ from those of the first round")

    def baseline():
        with _use_threads(threads):
            score_pairs(LOCAL_ENGINE)

    task = f"vanilla_bert: {PAIRS} pairs, {torch.get_num_threads()} one-thread workers of Ray"
    baseline_name = f"this process, {threads} thread{'s' if threads > 1 else ''}"
    ours = partial(score_pairs, ray)
    return inputs.compare(task, baseline_name, "pairs", PAIRS, ours, baseline, target)


@contextmanager
def _use_threads(n):
    """Set torch's number of threads to `n` inside the context."""
    n_threads = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(n_threads)


def _return_zeros(size, shard):
    """Return `size` zero bytes for any shard."""
    return bytes(size)


def _measure_costs(directory, ray):
    """Compare a worker's seconds per shard of premises with the driver's.

    The driver's time is processor time, which excludes waiting for workers on the same machine.
    With a shared cache directory, the workers themselves read the texts and write the vectors.
    """
    checkpoint = load_checkpoint(CHECKPOINT_DIR / "sbert")
    results = []
    with open_retrieval(directory) as retrieval:
        documents = retrieval.collection.documents
        docnos = retrieval.collection.documents.searchable_docnos
        encode = partial(encode_shard, checkpoint, "premise", CPU)
        texts = _read_premises(documents, docnos[:TEXTS])
        with _use_threads(1):
            worker = time_call(lambda: encode(texts)) * DENSE_SHARD_SIZE / len(texts)
        compute = partial(_return_zeros, len(encode(texts)) * DENSE_SHARD_SIZE // len(texts))
        batches = [
            list(islice(cycle(docnos), n * DENSE_SHARD_SIZE, (n + 1) * DENSE_SHARD_SIZE))
            for n in range(DRIVER_SHARDS)
        ]
        shards = [
            Shard(f"{n}.npy", 1, partial(_read_premises, documents, batch))
            for n, batch in enumerate(batches)
        ]
        for suffix, engine in (("", ray), (", shared cache", RayEngine(shares_cache=True))):
            start = time.process_time()
            _time_shards(engine, compute, shards)
            driver = (time.process_time() - start) / len(shards)
            task = f"a shard of {DENSE_SHARD_SIZE} premises: computed by a worker"
            baseline = f"read, sent and cached by the driver{suffix}"
            cells = f"{worker:.1f} s", f"{1000 * driver:.1f} ms"
            results.append(Result(task, baseline, *cells, worker / driver))
    return results


def _read_premises(documents, docnos):
    return documents.read_texts(docnos)["premise"].tolist()


def _time_shards(ray, function, shards):
    """Compute shards with Ray and return the elapsed seconds per shard."""
    with open_empty_parts() as store:
        list(ray.map(function, [(0, shards[0].load_input())], CPU))  # starts the workers
        compute = partial(compute_shards, function, shards, store, ray, CPU, "shards", "shards")
        return time_call(compute) / len(shards)
