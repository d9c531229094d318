"""Benchmarks of the `rank` command and of a learned fusion, each in a separate process: time, use of the cache, peak memory.

`python -m tests.benchmarks.rank INPUT CACHE_DIR` ranks with a learned fusion of lexical systems.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import msgspec
import yaml

from submission.data.dataset import Dataset
from submission.engine.base import CPU
from submission.errors import UsageError
from submission.inference.device import choose_precision, limit_threads
from submission.models.rankers import get_ranker_class, list_rankers
from submission.output.run_directory import METADATA_FILE
from submission.paths import CHECKPOINT_DIR
from submission.storage.cache_directory import CacheDirectory
from submission.storage.checkpoint_directory import CARD, CONFIG, METRICS, encode_json, write_with_provenance
from submission.systems.catalogue import FUSION_CANDIDATES
from submission.systems.execution import CheckpointStore, Execution
from submission.systems.learned_fusion import LearnedFusionStage
from tests.benchmarks.benchmark import Process, Result, Seconds, compare_costs, compare_with_target, run_process
from tests.benchmarks.synthetic_inputs import describe_corpus, split_topics
from training.fusion.recipe import FusionRecipe

NETWORKS = [name for name in list_rankers() if (CHECKPOINT_DIR / name).is_dir()]
DEPTHS = {"dirichlet": 200, "dirichlet_rm3": 200, "dirichlet_thesis": 200, "bm25_arguments": 0, "debates": 0}  # of the fusion


@dataclass(frozen=True)
class RankProcess:
    """A finished process of the `rank` command, with the seconds of its stages by name."""

    process: Process
    stages: Seconds

    def sum_seconds(self, systems: list[str]) -> float:
        """Sum the seconds of the stages named after these systems; shared stages, which have other names, are not counted."""
        return sum(self.stages[system][0] for system in systems)


def rank(directory: Path, output: Path, cache_dir: Path | None, systems: list[str], precision: str = "float32") -> RankProcess:
    """Run the `rank` command in a separate process on the CPU, with all systems if `systems` is empty."""
    flags = ["--device", "cpu", "--precision", precision, *(flag for system in systems for flag in ("--system", system))]
    flags += ["--cache-dir", str(cache_dir)] if cache_dir else []
    process = run_process("-m", "submission", "rank", "-i", directory, "-o", output, *flags)
    stages = yaml.safe_load((output / METADATA_FILE).read_text(encoding="utf-8"))["resources"]["seconds per stage"]
    return RankProcess(process, {name: [float(value.split()[0])] for name, value in stages.items()})


def measure_all_systems(directory: Path) -> Result:
    """Compare the run time of `rank` for all systems with the total scoring time of the networks."""
    with tempfile.TemporaryDirectory() as folder:
        rank_process = rank(directory, Path(folder) / "runs", None, [])
    names = "all_systems", "all systems (at most 1.25 times the networks' time)", "the networks' time"
    times = rank_process.process.seconds, rank_process.sum_seconds(NETWORKS)
    return compare_costs(names, *times, "{:.0f} s", 1 / 1.25, rank_process.stages)


def measure_second_run(directory: Path, system: str = "knrm") -> Result:
    """Compare a second run, on the same corpus and cache but other topics, with the first; scoring time is excluded."""
    stages, times = Seconds(), []
    with tempfile.TemporaryDirectory() as folder:
        for label, half in zip(("first", "second"), split_topics(directory, Path(folder)), strict=True):
            rank_process = rank(half, Path(folder) / f"{label} runs", Path(folder) / "cache", [system])
            times.append(rank_process.process.seconds - rank_process.sum_seconds([system]))
            stages |= {f"{label}, {name}": seconds for name, seconds in rank_process.stages.items()}
    task = f"second run on the same corpus, different topics ({system}), excluding scoring time"
    return compare_costs(("second_run", task, "first run"), times[1], times[0], "{:.1f} s", 2, stages)


def measure_default_system(directory: Path) -> list[Result]:
    """Compare the time of the system fusion, with an empty and a filled cache, with targets; use bfloat16 if supported."""
    precision, results = _choose_fastest_precision(), []
    with tempfile.TemporaryDirectory() as folder:
        for state, limit in (("empty cache", 240), ("cached", 60)):
            rank_process = rank(directory, Path(folder) / state, Path(folder) / "cache", ["fusion"], precision)
            task = f"fusion, {describe_corpus(directory)}, {precision}, {state}"
            times = rank_process.process.seconds, limit
            results.append(compare_with_target("default_system", task, *times, "s", rank_process.stages, digits=1))
    return results


def _choose_fastest_precision() -> str:
    try:
        choose_precision("bfloat16", CPU)
    except UsageError:
        return "float32"
    return "bfloat16"


def measure_memory(directory: Path) -> list[Result]:
    """Compare the peak memory of bm25 with all word networks, and that of the Dirichlet language model, with targets."""
    word_networks, results = [name for name in NETWORKS if get_ranker_class(name).token_unit == "words"], []
    for systems, limit in ((["bm25", *word_networks], 6), (["dirichlet"], 4)):  # GB
        with tempfile.TemporaryDirectory() as folder:
            rank_process = rank(directory, Path(folder) / "runs", None, systems)
        task, peak = f"peak memory, {', '.join(systems)}, {describe_corpus(directory)}", rank_process.process.peak / 1e9
        results.append(compare_with_target("memory", task, peak, limit, "GB", rank_process.stages))
    return results


def measure_fusion(directory: Path) -> list[Result]:
    """Rank in two successive processes, the second with cached indexes.

    Compare the second's time and the higher of their peak memories with the targets.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = "-m", "tests.benchmarks.rank", directory, Path(folder)
        first = run_process(*command)
        for ranking_dir in Path(folder).glob("ranking-*"):
            shutil.rmtree(ranking_dir)
        second = run_process(*command)
    task = f"fusion of {', '.join(DEPTHS)}, {describe_corpus(directory)}"
    times, peak = {"first run": [first.seconds], "cached indexes": [second.seconds]}, max(first.peak, second.peak) / 1e9
    return [
        compare_with_target("fusion", f"{task}, cached indexes", second.seconds, 180, "s", times, digits=1),
        compare_with_target("fusion memory", f"{task}: peak memory", peak, 6, "GB"),
    ]


def _rank_with_fusion(directory: Path, cache_dir: Path) -> None:
    """Rank all topics with a learned fusion of `DEPTHS` that weights all features equally."""
    limit_threads()
    recipe = FusionRecipe(DEPTHS, ("dirichlet",), max_log_length=6.5)
    stage = LearnedFusionStage(tuple((name, FUSION_CANDIDATES[name]) for name in recipe.members), "words")
    fingerprints = stage.get_member_fingerprints(CheckpointStore(CHECKPOINT_DIR))
    model = recipe.build_model(fingerprints, dict.fromkeys(recipe.feature_names, 1.0), 0.0)
    with CacheDirectory(cache_dir, cache_dir) as cache, tempfile.TemporaryDirectory() as folder:
        for checkpoint in CHECKPOINT_DIR.iterdir():
            (Path(folder) / checkpoint.name).symlink_to(checkpoint)
        contents = {CONFIG: encode_json(msgspec.to_builtins(model)), METRICS: b"{}", CARD: b""}
        write_with_provenance(Path(folder) / stage.checkpoint, contents, {"training_data": {"input": {}}})
        Execution(Dataset(directory), CheckpointStore(Path(folder)), CPU, cache).get_ranking(stage)


if __name__ == "__main__":
    _rank_with_fusion(*map(Path, sys.argv[1:]))
