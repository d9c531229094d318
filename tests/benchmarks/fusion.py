"""A learned fusion of what searches by words, over a large corpus: how long it takes once the indexes are there, and memory.

`python -m tests.benchmarks.fusion INPUT WORK` is the execution that is measured.
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
from submission.systems.checkpoint_store import CheckpointStore
from submission.systems.execution import Execution
from submission.systems.learned_fusion import LearnedFusionStage
from tests.benchmarks.benchmark import Result, execute
from training.fusion.recipe import FusionRecipe

SECONDS, MEMORY = 180, 6e9  # what is asked for
WORDS = FusionRecipe(
    {"dirichlet": 200, "dirichlet_rm3": 200, "dirichlet_thesis": 200, "bm25_arguments": 0, "debates": 0},
    ("dirichlet",),
    max_log_length=6.5,
)
STAGE = LearnedFusionStage(tuple((name, FUSION_CANDIDATES[name]) for name in WORDS.members), "words")


def fusion(directory: Path) -> list[Result]:
    """Two lines; the peak is that of the execution that makes the indexes, if it needs more."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder) / "work"
        first = execute("-m", "tests.benchmarks.fusion", directory, work)
        for lists in work.glob("ranking-*"):
            shutil.rmtree(lists)
        second = execute("-m", "tests.benchmarks.fusion", directory, work)
    peak = max(first.peak, second.peak)
    size = sum(file.stat().st_size for file in find_corpus_files(directory)) / 1e9
    what, asked = f"a fusion of {', '.join(WORDS.members)}, corpus of {size:.2f} GB", "what is asked for"
    times = {"indexes made": [first.seconds], "indexes kept": [second.seconds]}
    speed = [f"{second.seconds:.1f} s", f"{SECONDS} s"]
    memory = [f"{peak / 1e9:.2f} GB", f"{MEMORY / 1e9:.0f} GB"]
    return [
        Result("fusion", f"{what}, indexes kept", asked, *speed, SECONDS / second.seconds, 1, times),
        Result("fusion memory", f"{what}: peak memory", asked, *memory, MEMORY / peak, 1),
    ]


def rank(directory: Path, work: Path) -> None:
    """The lists of all topics, by weights that were fitted to nothing."""
    limit_threads()
    model = WORDS.build_model(
        STAGE.get_member_checkpoints(CheckpointStore(CHECKPOINT_DIR)), dict.fromkeys(WORDS.feature_names, 1.0), 0.0
    )
    with CacheDirectory(work, work) as held, tempfile.TemporaryDirectory() as folder:
        checkpoints = CheckpointStore(Path(folder))
        for checkpoint in CHECKPOINT_DIR.iterdir():
            (checkpoints.directory / checkpoint.name).symlink_to(checkpoint)
        contents = {CONFIG: encode_json(msgspec.to_builtins(model)), METRICS: b"{}", CARD: b""}
        write_with_provenance(checkpoints.directory / STAGE.checkpoint, contents, {"training_data": {"input": {}}})
        found = Execution(Dataset(directory), checkpoints, torch.device("cpu"), held).get_ranking(STAGE)
    print(f"{len(found)} documents of {found['qid'].nunique()} topics")


if __name__ == "__main__":
    rank(*map(Path, sys.argv[1:]))
