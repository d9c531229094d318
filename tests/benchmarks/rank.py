"""Benchmarks of the `rank` command in a separate process: overhead, time saved by cached results, and peak memory."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import yaml

from submission.engine.base import CPU
from submission.errors import UsageError
from submission.inference.device import choose_precision
from submission.models.rankers import get_ranker_class, list_rankers
from submission.output.run_directory import METADATA_FILE
from submission.paths import CHECKPOINT_DIR
from tests.benchmarks.benchmark import Process, Result, Seconds, compare_with_target, run_process
from tests.benchmarks.synthetic_inputs import measure_corpus_gigabytes, split_topics

NETWORKS = [name for name in list_rankers() if (CHECKPOINT_DIR / name).is_dir()]


@dataclass(frozen=True)
class RankProcess:
    """A finished process of the `rank` command and its seconds by stage."""

    process: Process
    stages: Seconds

    def sum_seconds(self, systems: list[str]) -> float:
        """Return the total seconds of systems, excluding stages that several systems share."""
        return sum(self.stages[system][0] for system in systems)


def measure_all_systems(directory: Path) -> Result:
    """Compare the time of a process that ranks with all systems with the scoring times of its networks."""
    with tempfile.TemporaryDirectory() as folder:
        rank_process = rank(directory, Path(folder) / "runs", None, [])
    total, scoring = rank_process.process.seconds, rank_process.sum_seconds(NETWORKS)
    task, times = "all systems (at most 1.25 times the networks' time)", (f"{total:.0f} s", f"{scoring:.0f} s")
    return Result("all_systems", task, "the networks' time", *times, scoring / total, 1 / 1.25, rank_process.stages)


def measure_second_run(directory: Path, system: str = "knrm") -> Result:
    """Compare the times, excluding scoring, of two runs with the same corpus and cache but different topics."""
    with tempfile.TemporaryDirectory() as folder:
        inputs, cache_dir = split_topics(directory, Path(folder)), Path(folder) / "cache"
        rank_processes = [rank(half, Path(folder) / f"runs-{half.name}", cache_dir, [system]) for half in inputs]
    first, second = (rank_process.process.seconds - rank_process.sum_seconds([system]) for rank_process in rank_processes)
    stages = {
        f"{label}, {name}": seconds
        for label, rank_process in zip(("first", "second"), rank_processes, strict=True)
        for name, seconds in rank_process.stages.items()
    }
    task = f"second run on the same corpus, different topics ({system}), excluding scoring time"
    return Result("second_run", task, "first run", f"{second:.1f} s", f"{first:.1f} s", first / second, 2, stages)


def measure_default_system(directory: Path) -> list[Result]:
    """Measure the time of the fusion with an empty and with a filled cache, in bfloat16 if the processor supports it."""
    precision, results = _choose_fastest_precision(), []
    with tempfile.TemporaryDirectory() as folder:
        for state, limit in (("empty cache", 240), ("cached", 60)):
            rank_process = rank(directory, Path(folder) / state, Path(folder) / "cache", ["fusion"], precision)
            task = f"fusion, corpus of {measure_corpus_gigabytes(directory):.2f} GB, {precision}, {state}"
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
    """Measure the peak memory of bm25 together with the word networks, and of the Dirichlet language model."""
    word_networks = [name for name in NETWORKS if get_ranker_class(name).token_unit == "words"]
    return [_measure_peak(directory, ["bm25", *word_networks], 6), _measure_peak(directory, ["dirichlet"], 4)]


def _measure_peak(directory: Path, systems: list[str], limit: float) -> Result:
    """Compare the peak memory with a limit in GB."""
    with tempfile.TemporaryDirectory() as folder:
        rank_process = rank(directory, Path(folder) / "runs", None, systems)
    task = f"peak memory, {', '.join(systems)}, corpus of {measure_corpus_gigabytes(directory):.2f} GB"
    return compare_with_target("memory", task, rank_process.process.peak / 1e9, limit, "GB", rank_process.stages)


def rank(directory: Path, output: Path, cache_dir: Path | None, systems: list[str], precision: str = "float32") -> RankProcess:
    """Run the `rank` command in a separate process, with all systems if `systems` is empty."""
    flags = ["--device", "cpu", "--precision", precision, *(flag for system in systems for flag in ("--system", system))]
    flags += ["--cache-dir", str(cache_dir)] if cache_dir else []
    process = run_process("-m", "submission", "rank", "-i", directory, "-o", output, *flags)
    stages = yaml.safe_load((output / METADATA_FILE).read_text(encoding="utf-8"))["resources"]["seconds per stage"]
    return RankProcess(process, {name: [float(value.split()[0])] for name, value in stages.items()})
