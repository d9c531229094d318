"""Benchmarks of the `rank` command, each in a separate process: time, use of the cache, peak
memory."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import yaml

from aragorn.engine.base import CPU
from aragorn.engine.device import choose_precision
from aragorn.models.rankers import get_ranker_class, list_rankers
from aragorn.paths import CHECKPOINT_DIR
from aragorn.storage.recorded_files import METADATA_FILE
from tests.benchmarks.benchmark import (
    Result,
    compare_costs,
    compare_with_target,
    run_process,
    time_call,
)
from tests.benchmarks.synthetic_inputs import describe_corpus

NETWORKS = [name for name in list_rankers() if (CHECKPOINT_DIR / name).is_dir()]


@dataclass(frozen=True)
class Ranking:
    """Seconds, peak memory in GB, and seconds by stage of a finished process of `rank`."""

    seconds: float
    peak: float
    stages: dict[str, float]


def rank(
    directory: Path,
    output: Path,
    cache_dir: Path | None,
    systems: list[str],
    precision: str = "float32",
) -> Ranking:
    """Run the `rank` command in a separate process on the CPU, with all systems if `systems` is
    empty."""
    flags = [
        "--device",
        "cpu",
        "--precision",
        precision,
        *(flag for system in systems for flag in ("--system", system)),
    ]
    flags += ["--cache-dir", str(cache_dir)] if cache_dir else []
    seconds = time_call(
        lambda: run_process("-m", "aragorn", "rank", "-i", directory, "-o", output, *flags)
    )
    resources = yaml.safe_load((output / METADATA_FILE).read_text(encoding="utf-8"))["resources"]
    stages = {
        name: float(value.split()[0]) for name, value in resources["seconds per stage"].items()
    }
    return Ranking(seconds, float(resources["ram"]["peak"].split()[0]) / 1e3, stages)


def measure_all_systems(directory: Path) -> Result:
    """Compare the run time of `rank` for all systems with the total scoring time of the
    networks."""
    with tempfile.TemporaryDirectory() as folder:
        ranking = rank(directory, Path(folder) / "runs", None, [])
    names = "all systems: time of `rank`", "networks alone, in the same run"
    return compare_costs(
        *names,
        ranking.seconds,
        sum(ranking.stages[name] for name in NETWORKS),
        "{:.0f} s",
        1 / 1.25,
    )


def measure_default_system(directory: Path) -> list[Result]:
    """Compare the time of the system fusion in bfloat16, with an empty and a filled cache, with
    targets.

    Raises:
        UsageError: If the processor does not support bfloat16.
    """
    choose_precision("bfloat16", CPU)
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for state, limit in (("empty cache", 240), ("cached", 60)):
            ranking = rank(
                directory, Path(folder) / state, Path(folder) / "cache", ["fusion"], "bfloat16"
            )
            task = f"fusion, {describe_corpus(directory)}, bfloat16, {state}"
            results.append(compare_with_target(task, ranking.seconds, limit, "s", digits=1))
    return results


def measure_memory(directory: Path) -> list[Result]:
    """Compare the peak memory of bm25 with all word networks, and that of the Dirichlet language
    model, with targets."""
    word_networks = [name for name in NETWORKS if get_ranker_class(name).token_unit == "words"]
    results = []
    for systems, limit in ((["bm25", *word_networks], 6), (["dirichlet"], 4)):  # GB
        with tempfile.TemporaryDirectory() as folder:
            ranking = rank(directory, Path(folder) / "runs", None, systems)
        task = f"peak memory, {', '.join(systems)}, {describe_corpus(directory)}"
        results.append(compare_with_target(task, ranking.peak, limit, "GB"))
    return results
