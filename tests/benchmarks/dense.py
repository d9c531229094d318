"""Dense retrieval: encoding against sentence-transformers, and the search of all vectors of a corpus of the size of args.me."""

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
from tests.benchmarks.synthetic_inputs import collection_of

TEXTS = 512  # at most: evenly spread over the collection
VECTORS, TOPICS, SECONDS = 322_000, 50, 3.0
ROUNDS = 3


def encoding(directory: Path) -> Benchmark:
    """The same weights, texts and lengths; both sides begin with texts."""
    pretrained = PretrainedEncoder("all-MiniLM-L6-v2")
    model = SentenceTransformer(str(pretrained.folder), device="cpu", local_files_only=True)
    ranker = SBERT(SBERT.Config(**pretrained.get_encoder_config(6))).eval()
    ranker.load_state_dict({**ranker.state_dict(), **pretrained.load_encoder_weights()})
    tokeniser = WordPieceTokeniser.load(pretrained.folder, MaxLengths(20, model.max_seq_length - 2))
    premises = collection_of(directory)["premise"].tolist()
    texts = [premises[row] for row in np.unique(np.linspace(0, len(premises) - 1, TEXTS).astype(int))]

    def ours() -> None:
        encode_texts([tokeniser.encode_premise(text) for text in texts], ranker, torch.device("cpu"))

    return Benchmark(
        name="sbert",
        against="SentenceTransformer.encode",
        unit="premises",
        units=len(texts),
        ours=ours,
        baseline=lambda: model.encode(texts),
    )


def search() -> Result:
    """Random vectors: what they are does not matter."""
    rng = np.random.default_rng(0)
    vectors, queries = (rng.standard_normal((number, 384), dtype=np.float32) for number in (VECTORS, TOPICS))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "vectors.npy"
        np.save(file, vectors.astype(np.float16))
        index = DenseIndex([f"{number:06}" for number in range(VECTORS)], file)

        def once() -> float:
            start = time.perf_counter()
            assert all(len(docnos) == MAX_DEPTH for docnos, _ in index.search(queries, MAX_DEPTH))
            return time.perf_counter() - start

        seconds = min(once() for _ in range(ROUNDS))
    what = f"{TOPICS} topics against {VECTORS:,} vectors, the best {MAX_DEPTH}"
    return Result("search", what, "what is asked for", f"{seconds:.2f} s", f"{SECONDS:g} s", SECONDS / seconds, 1)
