"""Benchmarks of a learned fusion of lexical systems on a large corpus: time with cached indexes, and peak memory.

`python -m tests.benchmarks.fusion INPUT CACHE_DIR` is the measured process.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import msgspec
import torch

from submission.data.args_me import find_corpus_files
from submission.data.dataset import Dataset
from submission.inference.device import limit_threads
from submission.paths import CHECKPOINT_DIR
from submission.storage.cache_directory import CacheDirectory
from submission.storage.checkpoint_directory import CARD, CONFIG, METRICS, encode_json, write_with_provenance
from submission.systems.catalogue import FUSION_CANDIDATES
from submission.systems.execution import CheckpointStore, Execution
from submission.systems.learned_fusion import LearnedFusionStage
from tests.benchmarks.benchmark import Result, run_process
from training.fusion.recipe import FusionRecipe

TARGET_SECONDS, TARGET_BYTES = 180, 6e9
RECIPE = FusionRecipe(
    {"dirichlet": 200, "dirichlet_rm3": 200, "dirichlet_thesis": 200, "bm25_arguments": 0, "debates": 0},
    ("dirichlet",),
    max_log_length=6.5,
)
STAGE = LearnedFusionStage(tuple((name, FUSION_CANDIDATES[name]) for name in RECIPE.members), "words")


def measure(directory: Path) -> list[Result]:
    """Rank in two processes; measure the time of the second, which reads cached indexes, and the higher peak memory."""
    with tempfile.TemporaryDirectory() as folder:
        cache_dir = Path(folder) / "cache"
        first = run_process("-m", "tests.benchmarks.fusion", directory, cache_dir)
        for ranking_dir in cache_dir.glob("ranking-*"):
            shutil.rmtree(ranking_dir)
        second = run_process("-m", "tests.benchmarks.fusion", directory, cache_dir)
    peak = max(first.peak, second.peak)
    size = sum(file.stat().st_size for file in find_corpus_files(directory)) / 1e9
    task = f"fusion of {', '.join(RECIPE.members)}, corpus of {size:.2f} GB"
    times = {"first run": [first.seconds], "cached indexes": [second.seconds]}
    speed = [f"{second.seconds:.1f} s", f"{TARGET_SECONDS} s"]
    memory = [f"{peak / 1e9:.2f} GB", f"{TARGET_BYTES / 1e9:.0f} GB"]
    return [
        Result("fusion", f"{task}, cached indexes", "target", *speed, TARGET_SECONDS / second.seconds, 1, times),
        Result("fusion memory", f"{task}: peak memory", "target", *memory, TARGET_BYTES / peak, 1),
    ]


def rank(directory: Path, cache_dir: Path) -> None:
    """Rank all topics with a fusion that weights all features equally."""
    limit_threads()
    model = RECIPE.build_model(
        STAGE.get_member_checkpoints(CheckpointStore(CHECKPOINT_DIR)), dict.fromkeys(RECIPE.feature_names, 1.0), 0.0
    )
    with CacheDirectory(cache_dir, cache_dir) as cache, tempfile.TemporaryDirectory() as folder:
        checkpoints = CheckpointStore(Path(folder))
        for checkpoint in CHECKPOINT_DIR.iterdir():
            (checkpoints.directory / checkpoint.name).symlink_to(checkpoint)
        contents = {CONFIG: encode_json(msgspec.to_builtins(model)), METRICS: b"{}", CARD: b""}
        write_with_provenance(checkpoints.directory / STAGE.checkpoint, contents, {"training_data": {"input": {}}})
        ranking = Execution(Dataset(directory), checkpoints, torch.device("cpu"), cache).get_ranking(STAGE)
    print(f"{len(ranking)} documents of {ranking['qid'].nunique()} topics")


if __name__ == "__main__":
    rank(*map(Path, sys.argv[1:]))
