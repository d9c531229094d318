"""Benchmarks of SBERT: encoding, against sentence-transformers, and search over as many vectors as args.me has premises."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from submission.inference.pretrained import PretrainedEncoder
from submission.models.rankers.sbert import SBERT
from submission.rankings import MAX_DEPTH
from submission.retrieval.dense import DenseIndex, encode_texts
from submission.text.tokenisers import MaxLengths, WordPieceTokeniser
from tests.benchmarks.benchmark import Benchmark, Result
from tests.benchmarks.synthetic_inputs import sample_premises
from training.fitting.initialisation import read_encoder_config

TEXTS = 512  # maximum number of premises
VECTORS, TOPICS = 322_000, 50
TARGET_SECONDS = 3.0
ROUNDS = 3


def build_benchmark(directory: Path) -> Benchmark:
    """Build the benchmark; both sides tokenise and encode the same texts with the same weights and maximum lengths."""
    pretrained = PretrainedEncoder("all-MiniLM-L6-v2")
    model = SentenceTransformer(str(pretrained.folder), device="cpu", local_files_only=True)
    ranker = SBERT(SBERT.Config(**read_encoder_config(pretrained, 6))).eval()
    ranker.load_state_dict({**ranker.state_dict(), **pretrained.load_encoder_weights()})
    tokeniser = WordPieceTokeniser.load(pretrained.folder, MaxLengths(20, model.max_seq_length - 2))
    texts = sample_premises(directory, TEXTS)

    def ours() -> None:
        encode_texts([tokeniser.encode_premise(text) for text in texts], ranker, torch.device("cpu"))

    return Benchmark(
        name="sbert",
        baseline_name="SentenceTransformer.encode",
        unit="premises",
        units=len(texts),
        ours=ours,
        baseline=lambda: model.encode(texts),
    )


def measure_search() -> Result:
    """Measure the shortest time of an exhaustive search over random vectors."""
    rng = np.random.default_rng(0)
    vectors, queries = (rng.standard_normal((n, 384), dtype=np.float32) for n in (VECTORS, TOPICS))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "vectors.npy"
        np.save(file, vectors.astype(np.float16))
        index = DenseIndex([f"{row:06}" for row in range(VECTORS)], file)

        def time_search() -> float:
            start = time.perf_counter()
            assert all(len(docnos) == MAX_DEPTH for docnos, _ in index.search(queries, MAX_DEPTH))
            return time.perf_counter() - start

        seconds = min(time_search() for _ in range(ROUNDS))
    task = f"{TOPICS} topics against {VECTORS:,} vectors, top {MAX_DEPTH}"
    return Result("search", task, "target", f"{seconds:.2f} s", f"{TARGET_SECONDS:g} s", TARGET_SECONDS / seconds, 1)
