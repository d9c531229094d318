"""Benchmarks of the `rank` command, each in a separate process: time, cache and peak memory."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import yaml

from aragorn.engine import CPU, choose_precision
from aragorn.models.rankers import get_ranker_class, list_rankers
from aragorn.paths import CHECKPOINT_DIR
from aragorn.storage.recorded_files import METADATA_FILE
from tests.benchmarks.benchmark import compare_costs, compare_with_target, run_process, time_call
from tests.benchmarks.synthetic_inputs import describe_corpus

NETWORKS = [name for name in list_rankers() if (CHECKPOINT_DIR / name).is_dir()]


@dataclass(frozen=True)
class Ranking:
    """Seconds, peak memory in GB, and seconds by stage of a finished process of `rank`."""

    seconds: float
    peak: float
    stages: dict[str, float]


def rank(directory, output, systems, *flags):
    """Run the `rank` command on the CPU with systems (none: all) in a separate process."""
    command = ["-m", "aragorn", "rank", "-i", directory, "-o", output, "--device", "cpu", *flags]
    command += [f"--system={system}" for system in systems]
    seconds = time_call(lambda: run_process(*command))
    resources = yaml.safe_load((output / METADATA_FILE).read_text(encoding="utf-8"))["resources"]
    stages = {
        name: float(value.split()[0]) for name, value in resources["seconds per stage"].items()
    }
    return Ranking(seconds, float(resources["ram"]["peak"].split()[0]) / 1e3, stages)


def measure_all_systems(inputs):
    """Compare the time of `rank` for all systems with the networks' scoring time."""
    with tempfile.TemporaryDirectory() as folder:
        ranking = rank(inputs.directory, Path(folder) / "runs", [])
    names = "all systems: time of `rank`", "networks alone, in the same run"
    scoring_seconds = sum(ranking.stages[name] for name in NETWORKS)
    return compare_costs(*names, ranking.seconds, scoring_seconds, "{:.0f} s", 1 / 1.25)


def measure_default_system(inputs):
    """Compare the time of fusion in bfloat16, with an empty and a filled cache, with targets.

    Raises:
        UsageError: If the processor does not support bfloat16.
    """
    choose_precision("bfloat16", CPU)
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for state, limit in (("empty cache", 240), ("cached", 60)):
            flags = ["--precision", "bfloat16", "--cache-dir", Path(folder) / "cache"]
            ranking = rank(inputs.full_size, Path(folder) / state, ["fusion"], *flags)
            task = f"fusion, {describe_corpus(inputs.full_size)}, bfloat16, {state}"
            results.append(compare_with_target(task, ranking.seconds, limit, "s", digits=1))
    return results


def measure_memory(inputs):
    """Compare the peak memory of bm25 and all word networks, and of dirichlet, with targets."""
    word_networks = [name for name in NETWORKS if get_ranker_class(name).token_unit == "words"]
    results = []
    for systems, limit in ((["bm25", *word_networks], 6), (["dirichlet"], 4)):  # GB
        with tempfile.TemporaryDirectory() as folder:
            ranking = rank(inputs.full_size, Path(folder) / "runs", systems)
        task = f"peak memory, {', '.join(systems)}, {describe_corpus(inputs.full_size)}"
        results.append(compare_with_target(task, ranking.peak, limit, "GB"))
    return results
