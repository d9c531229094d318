"""Benchmarks of a learned fusion of lexical systems on a large corpus: time with cached indexes, and peak memory.

`python -m tests.benchmarks.fusion INPUT CACHE_DIR` is the measured process.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import msgspec

from submission.data.dataset import Dataset
from submission.engine.base import CPU
from submission.inference.device import limit_threads
from submission.paths import CHECKPOINT_DIR
from submission.storage.cache_directory import CacheDirectory
from submission.storage.checkpoint_directory import CARD, CONFIG, METRICS, encode_json, write_with_provenance
from submission.systems.catalogue import FUSION_CANDIDATES
from submission.systems.execution import CheckpointStore, Execution
from submission.systems.learned_fusion import LearnedFusionStage
from tests.benchmarks.benchmark import Result, compare_with_target, run_process
from tests.benchmarks.synthetic_inputs import measure_corpus_gigabytes
from training.fusion.recipe import FusionRecipe

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
    task = f"fusion of {', '.join(RECIPE.members)}, corpus of {measure_corpus_gigabytes(directory):.2f} GB"
    times, peak = {"first run": [first.seconds], "cached indexes": [second.seconds]}, max(first.peak, second.peak) / 1e9
    return [
        compare_with_target("fusion", f"{task}, cached indexes", second.seconds, 180, "s", times, digits=1),
        compare_with_target("fusion memory", f"{task}: peak memory", peak, 6, "GB"),
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
        ranking = Execution(Dataset(directory), checkpoints, CPU, cache).get_ranking(STAGE)
    print(f"{len(ranking)} documents of {ranking['qid'].nunique()} topics")


if __name__ == "__main__":
    rank(*map(Path, sys.argv[1:]))
