"""DeepCT: encoding against sentence-transformers, and that memory does not grow with the collection."""

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
from submission.inference.enrichment import TOGETHER, enrich_collection, enrich_texts
from submission.inference.pretrained import PretrainedEncoder
from submission.models.enrichers.deepct import DeepCT
from submission.storage.artifact_store import ArtifactStore
from submission.text.passages import PassageReader
from tests.benchmarks.benchmark import Benchmark, Result, execute
from tests.benchmarks.synthetic_inputs import collection_of

ARGUMENTS = 200  # at most: evenly spread over the collection
PARTS = 2, 12  # of documents, in a small process and in a large one
SMALL = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
CPU = torch.device("cpu")


def encoding(directory: Path) -> Benchmark:
    """The same encoder and pieces; ours begins with arguments and ends with words' frequencies, theirs is of passages."""
    pretrained = PretrainedEncoder("all-MiniLM-L6-v2")
    opened = _opened(pretrained, pretrained.get_encoder_config(6))
    opened.enricher.load_state_dict({**opened.enricher.state_dict(), **pretrained.load_encoder_weights()})
    model = SentenceTransformer(str(pretrained.folder), device="cpu", local_files_only=True)
    model.max_seq_length = opened.enricher.config.pieces + 2
    premises = collection_of(directory)["premise"].tolist()
    texts = [premises[row] for row in np.unique(np.linspace(0, len(premises) - 1, ARGUMENTS).astype(int))]
    passages = [passage.text for text in texts for passage in opened.tokeniser.split(text)]
    return Benchmark(
        name="deepct",
        against="SentenceTransformer.encode",
        unit="passages",
        units=len(passages),
        ours=lambda: enrich_texts(texts, opened, CPU),
        baseline=lambda: model.encode(passages),
    )


def memory() -> Result:
    """The peaks of processes that enrich few documents and many."""
    few, many = (execute("-m", "tests.benchmarks.deepct", str(parts)).peak for parts in PARTS)
    what, against = (f"peak memory, {parts * TOGETHER:,} arguments enriched" for parts in reversed(PARTS))
    sizes = [f"{peak / 1e9:.2f} GB" for peak in (many, few)]
    return Result("deepct memory", what, against, *sizes, few / many, 0.9)


def _opened(pretrained: PretrainedEncoder, config: dict[str, Any]) -> EnricherCheckpoint:
    enricher = DeepCT(DeepCT.Config(**config)).eval()
    return EnricherCheckpoint(enricher, PassageReader.load(pretrained.folder, enricher.config), "a benchmark")


def _enrich(parts: int) -> None:
    """So many parts, by an encoder that is small, only to be fast."""
    pretrained = PretrainedEncoder("all-MiniLM-L6-v2")
    config = pretrained.get_encoder_config(0)
    opened = _opened(pretrained, {**config, "bert": {**config["bert"], **SMALL}})
    with tempfile.TemporaryDirectory() as folder:
        enrich_collection(
            [str(number) for number in range(parts * TOGETHER)], _texts, opened, CPU, ArtifactStore(Path(folder), {})
        )


def _texts(numbers: Sequence[str]) -> list[str]:
    """Arguments of 317 words, as many as args.me's have on average."""
    rng = np.random.default_rng(int(numbers[0]))
    return [" ".join(rng.choice(["zoos", "keep", "animals", "in", "small", "cages."], 317)) for _ in numbers]


if __name__ == "__main__":
    _enrich(int(sys.argv[1]))
