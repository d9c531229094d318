"""Benchmarks of the `rank` command in a separate process: overhead, time saved by cached results, and peak memory."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch
import yaml

from submission.data.args_me import find_corpus_files
from submission.errors import UsageError
from submission.inference.device import choose_precision
from submission.models.rankers import get_ranker_class, list_rankers
from submission.output.run_directory import METADATA_FILE
from submission.paths import CHECKPOINT_DIR
from tests.benchmarks.benchmark import Process, Result, run_process
from tests.benchmarks.synthetic_inputs import split_topics

WORD_NETWORKS_BYTES, TERM_INDEX_BYTES = 6e9, 4e9  # targets for peak memory
COLD_SECONDS, CACHED_SECONDS = 240, 60  # target times of the fusion, with an empty and with a filled cache


@dataclass(frozen=True)
class RankProcess:
    """A finished process of the `rank` command and its seconds by stage."""

    process: Process
    stages: dict[str, float]

    def sum_seconds(self, systems: list[str]) -> float:
        """Return the total seconds of systems, excluding stages that several systems share."""
        return sum(self.stages[system] for system in systems)


def measure_all_systems(directory: Path) -> Result:
    """Compare the time of a process that ranks with all systems with the scoring times of its networks."""
    networks = [name for name in list_rankers() if (CHECKPOINT_DIR / name).is_dir()]
    with tempfile.TemporaryDirectory() as folder:
        rank_process = rank(directory, Path(folder) / "runs", None, [])
    total, scoring = rank_process.process.seconds, rank_process.sum_seconds(networks)
    times = [f"{total:.0f} s", f"{scoring:.0f} s"]
    stages = {name: [seconds] for name, seconds in rank_process.stages.items()}
    task = "all systems (at most 1.25 times the networks' time)"
    return Result("all_systems", task, "the networks' time", *times, scoring / total, 1 / 1.25, stages)


def measure_second_run(directory: Path, system: str = "knrm") -> Result:
    """Compare the times, excluding scoring, of two runs with the same corpus and cache but different topics."""
    with tempfile.TemporaryDirectory() as folder:
        cache_dir = Path(folder) / "cache"
        inputs = split_topics(directory, Path(folder))
        rank_processes = [rank(half, Path(folder) / f"runs-{half.name}", cache_dir, [system]) for half in inputs]
    overheads = [rank_process.process.seconds - rank_process.sum_seconds([system]) for rank_process in rank_processes]
    times = [f"{overheads[1]:.1f} s", f"{overheads[0]:.1f} s"]
    stages = {
        f"{label}, {name}": [value]
        for label, rank_process in zip(("first", "second"), rank_processes, strict=True)
        for name, value in rank_process.stages.items()
    }
    task = f"second run on the same corpus, different topics ({system}), excluding scoring time"
    return Result("second_run", task, "first run", *times, overheads[0] / overheads[1], 2, stages)


def measure_default_system(directory: Path) -> list[Result]:
    """Measure the time of the fusion with an empty and with a filled cache, in bfloat16 if the processor supports it."""
    precision, results = _choose_fastest_precision(), []
    with tempfile.TemporaryDirectory() as folder:
        cache_dir = Path(folder) / "cache"
        for state, limit in (("empty cache", COLD_SECONDS), ("cached", CACHED_SECONDS)):
            rank_process = rank(directory, Path(folder) / state, cache_dir, ["fusion"], precision)
            seconds, stages = rank_process.process.seconds, {name: [value] for name, value in rank_process.stages.items()}
            task = f"fusion, corpus of {_measure_corpus_gigabytes(directory):.2f} GB, {precision}, {state}"
            times = [f"{seconds:.1f} s", f"{limit} s"]
            results.append(Result("default_system", task, "target", *times, limit / seconds, 1, stages))
    return results


def _choose_fastest_precision() -> str:
    try:
        choose_precision("bfloat16", torch.device("cpu"))
    except UsageError:
        return "float32"
    return "bfloat16"


def measure_memory(directory: Path) -> list[Result]:
    """Measure the peak memory of bm25 together with the word networks, and of the Dirichlet language model."""
    word_systems = [
        "bm25",
        *(name for name in list_rankers() if get_ranker_class(name).token_unit == "words" and (CHECKPOINT_DIR / name).is_dir()),
    ]
    return [
        _measure_peak(directory, word_systems, WORD_NETWORKS_BYTES),
        _measure_peak(directory, ["dirichlet"], TERM_INDEX_BYTES),
    ]


def _measure_peak(directory: Path, systems: list[str], limit: float) -> Result:
    with tempfile.TemporaryDirectory() as folder:
        rank_process = rank(directory, Path(folder) / "runs", None, systems)
    sizes = [f"{rank_process.process.peak / 1e9:.2f} GB", f"{limit / 1e9:.0f} GB"]
    stages = {name: [seconds] for name, seconds in rank_process.stages.items()}
    task = f"peak memory, {', '.join(systems)}, corpus of {_measure_corpus_gigabytes(directory):.2f} GB"
    return Result("memory", task, "target", *sizes, limit / rank_process.process.peak, 1, stages)


def _measure_corpus_gigabytes(directory: Path) -> float:
    return sum(file.stat().st_size for file in find_corpus_files(directory)) / 1e9


def rank(directory: Path, output: Path, cache_dir: Path | None, systems: list[str], precision: str = "float32") -> RankProcess:
    """Run the `rank` command in a separate process, with all systems if `systems` is empty."""
    flags = [flag for system in systems for flag in ("--system", system)] + (
        ["--cache-dir", str(cache_dir)] if cache_dir else []
    )
    flags += ["--device", "cpu", "--precision", precision]
    process = run_process("-m", "submission", "rank", "-i", directory, "-o", output, *flags)
    stages = yaml.safe_load((output / METADATA_FILE).read_text(encoding="utf-8"))["resources"]["seconds per stage"]
    return RankProcess(process, {name: float(value.split()[0]) for name, value in stages.items()})
