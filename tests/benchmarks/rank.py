"""The whole of an execution: what it adds to the networks' own time, what a second one saves, and how much memory it takes."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch
import yaml

from submission.data.args_me import find_corpus_files
from submission.errors import UsageError
from submission.inference.device import choose_precision
from submission.models.rankers import find, names
from submission.output.run_directory import METADATA_FILE
from submission.paths import CHECKPOINT_DIR
from tests.benchmarks.benchmark import Process, Result, execute
from tests.benchmarks.synthetic_inputs import halves_of_topics

MEMORY, MEMORY_OF_TERMS = 6e9, 4e9  # bytes, of word networks and of a term index
COLD, KEPT = 240, 60  # seconds from the start to the fusion's run, the first time and again


@dataclass(frozen=True)
class Execution:
    """A process of `rank`, and its own record of stages."""

    process: Process
    stages: dict[str, float]

    def of(self, systems: list[str]) -> float:
        """Seconds of systems' own work: without what all of them share."""
        return sum(self.stages[system] for system in systems)


def all_systems(directory: Path) -> Result:
    """All systems: the time of the process against the sum of the networks' own."""
    networks = [name for name in names() if (CHECKPOINT_DIR / name).is_dir()]
    with tempfile.TemporaryDirectory() as folder:
        execution = rank(directory, Path(folder) / "runs", None, [])
    whole, own = execution.process.seconds, execution.of(networks)
    sizes = [f"{whole:.0f} s", f"{own:.0f} s"]
    stages = {name: [seconds] for name, seconds in execution.stages.items()}
    what = "a whole execution, all systems (1.25 times the networks' own time at most)"
    return Result("whole", what, "the networks' own time", *sizes, own / whole, 1 / 1.25, stages)


def second(directory: Path, system: str = "knrm") -> Result:
    """A second execution with other topics in the same --work: everything but the system's own work."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder) / "work"
        inputs = halves_of_topics(directory, Path(folder))
        executions = [rank(half, Path(folder) / f"runs-{half.name}", work, [system]) for half in inputs]
    before = [execution.process.seconds - execution.of([system]) for execution in executions]
    sizes = [f"{before[1]:.1f} s", f"{before[0]:.1f} s"]
    stages = {f"{half}, {name}": [value] for half, execution in zip(("first", "second"), executions, strict=True)
              for name, value in execution.stages.items()}  # fmt: skip
    what = f"a second execution on the same corpus, other topics ({system}): all before scoring"
    return Result("second", what, "the first one", *sizes, before[0] / before[1], 2, stages)


def default(directory: Path) -> list[Result]:
    """The default, the fusion, from the start to its run: with nothing kept, and again; in bfloat16 where there is that."""
    precision, results = _fastest(), []
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder) / "work"
        for kept, limit in (("nothing", COLD), ("all", KEPT)):
            execution = rank(directory, Path(folder) / kept, work, ["fusion"], precision)
            seconds, stages = execution.process.seconds, {name: [value] for name, value in execution.stages.items()}
            what = f"the fusion of a corpus of {_gigabytes(directory):.2f} GB, {precision}, {kept} kept"
            sizes = [f"{seconds:.1f} s", f"{limit} s"]
            results.append(Result("default", what, "what is asked for", *sizes, limit / seconds, 1, stages))
    return results


def _fastest() -> str:
    """The precision to ask for on this processor."""
    try:
        choose_precision("bfloat16", torch.device("cpu"))
    except UsageError:
        return "float32"
    return "bfloat16"


def memory(directory: Path) -> list[Result]:
    """The peaks of an execution of bm25 and the word networks, and of one of a language model over whole arguments."""
    words = ["bm25", *(name for name in names() if find(name).token_unit == "words" and (CHECKPOINT_DIR / name).is_dir())]
    return [_peak(directory, words, MEMORY), _peak(directory, ["dirichlet"], MEMORY_OF_TERMS)]


def _peak(directory: Path, systems: list[str], limit: float) -> Result:
    with tempfile.TemporaryDirectory() as folder:
        execution = rank(directory, Path(folder) / "runs", None, systems)
    sizes = [f"{execution.process.peak / 1e9:.2f} GB", f"{limit / 1e9:.0f} GB"]
    stages = {name: [seconds] for name, seconds in execution.stages.items()}
    what = f"peak memory, {', '.join(systems)}, corpus of {_gigabytes(directory):.2f} GB"
    return Result("memory", what, "limit", *sizes, limit / execution.process.peak, 1, stages)


def _gigabytes(directory: Path) -> float:
    return sum(file.stat().st_size for file in find_corpus_files(directory)) / 1e9


def rank(directory: Path, output: Path, work: Path | None, systems: list[str], precision: str = "float32") -> Execution:
    """Execute `rank` as run.sh does."""
    flags = [flag for system in systems for flag in ("--system", system)] + (["--work", str(work)] if work else [])
    computed = ("--device", "cpu", "--precision", precision)
    process = execute("-m", "submission", "rank", *computed, "-i", directory, "-o", output, *flags)
    stages = yaml.safe_load((output / METADATA_FILE).read_text(encoding="utf-8"))["resources"]["seconds per stage"]
    return Execution(process, {name: float(value.split()[0]) for name, value in stages.items()})
