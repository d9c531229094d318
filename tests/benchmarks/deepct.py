"""Benchmarks of DeepCT: encoding, against sentence-transformers, and peak memory for many documents, against few.

`python -m tests.benchmarks.deepct SHARDS` is the process whose memory is measured.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from submission.inference.enricher_checkpoint import EnricherCheckpoint
from submission.inference.enrichment import SHARD_SIZE, enrich_collection, enrich_texts
from submission.inference.pretrained import PretrainedEncoder
from submission.models.enrichers.deepct import DeepCT
from submission.storage.artifact_store import ArtifactStore
from submission.text.passages import PassageReader
from tests.benchmarks.benchmark import Benchmark, Result, run_process
from tests.benchmarks.synthetic_inputs import sample_premises
from training.fitting.initialisation import read_encoder_config

ARGUMENTS = 200  # maximum number of documents
SHARDS = 2, 12  # numbers of shards in the two measured processes
TINY_BERT = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
CPU = torch.device("cpu")


def build_benchmark(directory: Path) -> Benchmark:
    """Build the benchmark: both sides encode the same word pieces; DeepCT also splits texts and computes term frequencies."""
    pretrained = PretrainedEncoder("all-MiniLM-L6-v2")
    checkpoint = _build_checkpoint(pretrained, read_encoder_config(pretrained, 6))
    checkpoint.network.load_state_dict({**checkpoint.network.state_dict(), **pretrained.load_encoder_weights()})
    model = SentenceTransformer(str(pretrained.folder), device="cpu", local_files_only=True)
    model.max_seq_length = checkpoint.network.config.pieces + 2
    texts = sample_premises(directory, ARGUMENTS)
    passages = [passage.text for text in texts for passage in checkpoint.tokeniser.split(text)]
    return Benchmark(
        name="deepct",
        baseline_name="SentenceTransformer.encode",
        unit="passages",
        units=len(passages),
        ours=lambda: enrich_texts(texts, checkpoint, CPU),
        baseline=lambda: model.encode(passages),
    )


def measure_memory() -> Result:
    """Compare the peak memory of two processes that enrich few and many documents."""
    few, many = (run_process("-m", "tests.benchmarks.deepct", str(shards)).peak for shards in SHARDS)
    task, baseline = (f"peak memory, {shards * SHARD_SIZE:,} arguments enriched" for shards in reversed(SHARDS))
    sizes = [f"{peak / 1e9:.2f} GB" for peak in (many, few)]
    return Result("deepct memory", task, baseline, *sizes, few / many, 0.9)


def _build_checkpoint(pretrained: PretrainedEncoder, config: dict[str, Any]) -> EnricherCheckpoint:
    enricher = DeepCT(DeepCT.Config(**config)).eval()
    return EnricherCheckpoint(enricher, PassageReader.load(pretrained.folder, enricher.config), "a benchmark")


def _enrich(shard_count: int) -> None:
    """Enrich generated documents with a tiny encoder."""
    pretrained = PretrainedEncoder("all-MiniLM-L6-v2")
    config = read_encoder_config(pretrained, 0)
    checkpoint = _build_checkpoint(pretrained, {**config, "bert": {**config["bert"], **TINY_BERT}})
    docnos = [str(n) for n in range(shard_count * SHARD_SIZE)]
    with tempfile.TemporaryDirectory() as folder:
        enrich_collection(docnos, _generate_texts, checkpoint, CPU, ArtifactStore(Path(folder), {}))


def _generate_texts(docnos: Sequence[str]) -> list[str]:
    """Generate texts of 317 words, the mean length in args.me."""
    rng = np.random.default_rng(int(docnos[0]))
    return [" ".join(rng.choice(["zoos", "keep", "animals", "in", "small", "cages."], 317)) for _ in docnos]


if __name__ == "__main__":
    _enrich(int(sys.argv[1]))
