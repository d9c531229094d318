"""Measure speed and memory as ratios to baselines or targets: `python -m tests.benchmarks [-i
INPUT] [NAME …]`.

The networks are measured on INPUT, and reading, indexes, BM25 and memory on a corpus of the size of
args.me. Use an idle machine, since the times are elapsed times.
"""

import argparse
import json
import logging
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path

import torch

from aragorn.errors import UsageError
from aragorn.output.ir_metadata import detect_cpu
from aragorn.paths import SAMPLE_INPUT
from aragorn_training.report.sections import replace_section
from tests.benchmarks import (
    encoders,
    engine,
    indexes,
    inference_engines,
    rank,
    reading,
    scaling,
    search,
    training,
    word_networks,
)
from tests.benchmarks.benchmark import Benchmark, Result, compare
from tests.benchmarks.synthetic_inputs import write_full_size

README = Path(__file__).with_name("README.md")
# benchmarks whose results are all in the README
COMPLETE = ("inference_engines", "memory", "default_system")


@dataclass
class Inputs:
    """Inputs and settings that the benchmarks share."""

    directory: Path
    full_size_dir: Path | None
    work_dir: Path
    repetitions: int

    @cached_property
    def full_size(self) -> Path:
        """Input with a full-size corpus: the directory of `--full`, or one generated from
        `directory` on first access."""
        return self.full_size_dir or write_full_size(self.directory, self.work_dir / "full")


Measure = Callable[[Inputs], Sequence[Benchmark | Result]]  # benchmarks are compared afterwards

BENCHMARKS: dict[str, Measure] = {
    "corpus": lambda inputs: reading.measure_corpus(
        inputs.full_size, inputs.work_dir, inputs.repetitions
    ),
    "read_runs": lambda inputs: [reading.measure_run(inputs.repetitions)],
    "bm25": lambda inputs: [indexes.build_bm25_benchmark(inputs.full_size)],
    "term_index": lambda inputs: indexes.measure_term_index(inputs.full_size, inputs.work_dir),
    "knrm": lambda inputs: [word_networks.build_benchmark("knrm", inputs.directory, 5)],
    "drmm": lambda inputs: [word_networks.build_benchmark("drmm", inputs.directory, 5)],
    "conv_knrm": lambda inputs: [word_networks.build_benchmark("conv_knrm", inputs.directory, 3)],
    "gru": lambda inputs: [word_networks.build_benchmark("gru", inputs.directory, 1.5)],
    "snrm": lambda inputs: [word_networks.build_snrm_benchmark(inputs.directory)],
    "vanilla_bert": lambda inputs: [
        encoders.build_bert_benchmark("vanilla_bert", inputs.directory, 1.1)
    ],
    "cedr_drmm": lambda inputs: [encoders.build_bert_benchmark("cedr_drmm", inputs.directory, 0.9)],
    "cedr_knrm": lambda inputs: [encoders.build_bert_benchmark("cedr_knrm", inputs.directory, 0.9)],
    "sbert": lambda inputs: [
        encoders.build_sbert_benchmark(inputs.directory),
        indexes.measure_dense_search(),
    ],
    "deepct": lambda inputs: [encoders.build_deepct_benchmark(inputs.directory)],
    "targer": lambda inputs: [encoders.build_tagging_benchmark(inputs.directory)],
    "bfloat16": lambda inputs: encoders.build_bfloat16_benchmarks(inputs.directory),
    "inference_engines": lambda inputs: inference_engines.build_benchmarks(inputs.directory),
    "gpu": lambda inputs: word_networks.build_gpu_benchmarks(inputs.directory),
    "knrm_training": lambda _: [training.build_benchmark("knrm", 20, 5)],
    "conv_knrm_training": lambda _: [training.build_benchmark("conv_knrm", 5, 2)],
    "gru_training": lambda _: [training.build_benchmark("gru", 3, 1.2)],
    "snrm_training": lambda inputs: [training.build_snrm_benchmark(inputs.directory)],
    "engine": lambda inputs: engine.measure(inputs.directory, inputs.repetitions),
    "memory": lambda inputs: rank.measure_memory(inputs.full_size),
    "default_system": lambda inputs: rank.measure_default_system(inputs.full_size),
    "all_systems": lambda inputs: [rank.measure_all_systems(inputs.directory)],
    "search": lambda inputs: search.measure_search(
        inputs.directory, inputs.work_dir / "index", 0.3, inputs.repetitions
    ),
    "search_full_size": lambda inputs: search.measure_search(
        inputs.full_size, inputs.work_dir / "full-index", 1, 1
    ),
}


def parse_arguments() -> argparse.Namespace:
    """Parse the command line; exit with a message if a benchmark is unknown."""
    parser = argparse.ArgumentParser(prog="tests.benchmarks", description=__doc__)
    names = f"benchmarks to run (default: all): {', '.join(BENCHMARKS)}"
    parser.add_argument("names", nargs="*", metavar="NAME", help=names)
    add_path = partial(parser.add_argument, type=Path)
    help_text = "input directory of the networks' benchmarks (default: the sample)"
    add_path("-i", "--input", default=SAMPLE_INPUT, metavar="DIR", help=help_text)
    add_path(
        "--full",
        metavar="DIR",
        help="input directory with a full-size corpus (default: generated from the input)",
    )
    help_text = "number of timed repetitions of each benchmark (default: 3)"
    parser.add_argument("--repetitions", type=int, default=3, metavar="N", help=help_text)
    help_text = (
        "JSON results file to update with the results of the benchmarks that run (default: none)"
    )
    add_path("--json", metavar="FILE", help=help_text)
    help_text = (
        "PNG file for a plot of time against input size; no benchmarks are run (default: none)"
    )
    add_path("--scaling", metavar="FILE", help=help_text)
    help_text = "JSON file with the results to write to the README; no benchmarks are run"
    add_path("--readme", metavar="FILE", help=help_text)
    args = parser.parse_args()
    if unknown := set(args.names) - set(BENCHMARKS):
        parser.error(
            f"unknown benchmark {', '.join(sorted(unknown))}; expected {', '.join(BENCHMARKS)}"
        )
    return args


def main() -> None:
    """Run the benchmarks on the command line and print their results, plot the scaling, or update
    the README."""
    args = parse_arguments()
    if args.readme:
        update_readme(args.readme)
        return
    logging.disable(logging.INFO)
    with tempfile.TemporaryDirectory() as folder:
        inputs = Inputs(args.input, args.full, Path(folder), args.repetitions)
        if args.scaling:
            scaling.plot(inputs.directory, inputs.full_size, args.scaling)
            return
        for name in args.names or BENCHMARKS:
            try:
                items = BENCHMARKS[name](inputs)
            except UsageError as error:  # the machine or the options do not suffice
                print(f"{name}: skipped: {error}")
                continue
            rows = [
                compare(item, inputs.repetitions) if isinstance(item, Benchmark) else item
                for item in items
            ]
            print("\n".join(result.format() for result in rows), flush=True)
            if args.json:
                _save(args.json, name, rows)


def _save(file: Path, name: str, rows: list[Result]) -> None:
    """Replace the results of a benchmark in a JSON file, which is sorted in the order of
    `BENCHMARKS`."""
    machine = {
        "processor": detect_cpu(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }
    merged = (json.loads(file.read_text())["results"] if file.exists() else {}) | {
        name: [asdict(row) for row in rows]
    }
    ordered = {name: merged[name] for name in BENCHMARKS if name in merged}
    file.write_text(
        json.dumps({"machine": machine, "results": ordered}, indent=1, ensure_ascii=False) + "\n"
    )


def update_readme(results: Path, readme: Path = README) -> None:
    """Replace the generated section of a README by a table of the first result of each benchmark in
    a JSON file.

    Of the benchmarks in `COMPLETE`, the table has all results. Ratios below their target are
    marked.
    """
    content = json.loads(results.read_text(encoding="utf-8"))
    lines = ["| task | ours | baseline | ratio | target |", "|---|---|---|---|---|"]
    benchmarks = content["results"].items()
    for result in (
        result for name, rows in benchmarks for result in (rows if name in COMPLETE else rows[:1])
    ):
        target = "" if result["target"] is None else f"{result['target']:g}"
        mark = " ✗" if result["target"] and result["ratio"] < result["target"] else ""
        baseline = f"{result['baseline_name']}: {result['baseline']}"
        lines.append(
            f"| {result['task']} | {result['ours']} | {baseline} | {result['ratio']:.2f}{mark} "
            f"| {target} |"
        )
    machine = content["machine"]
    text = (
        "\n".join(lines)
        + "\n\n✗: below the target. "
        + f"{machine['threads']} threads, torch {machine['torch']}, {machine['processor']}.\n"
    )
    replace_section(readme, "speed", text)


if __name__ == "__main__":
    main()
