"""Measure speed and memory as ratios to named baselines: `python -m tests.benchmarks [-i INPUT] [NAME …]`.

Networks are measured on INPUT; reading, BM25, term indexes and memory on a corpus of the size of args.me.
Use an idle machine.
"""

from __future__ import annotations

import argparse
import json
import logging
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import torch

from submission.errors import UsageError
from submission.inference.device import limit_threads
from submission.output.ir_metadata import detect_cpu
from submission.paths import SAMPLE_INPUT
from tests.benchmarks import (
    bert,
    bfloat16,
    corpus,
    deepct,
    dense,
    engine,
    fusion,
    precision,
    rank,
    read_runs,
    readme,
    retrieval,
    scaling,
    targer,
    term_index,
    training,
    word_networks,
)  # fmt: skip
from tests.benchmarks.benchmark import Benchmark, Result, compare
from tests.benchmarks.synthetic_inputs import ARGUMENTS, write_full_size

BERT_TARGETS = {"vanilla_bert": 1.1, "cedr_drmm": 0.9, "cedr_knrm": 0.9}  # minimum speed ratios to the baseline


@dataclass
class Inputs:
    """Inputs and settings of the benchmarks."""

    directory: Path
    qrels: Path | None
    full_size_dir: Path | None
    argument_count: int
    work_dir: Path
    repetitions: int

    @cached_property
    def full_size(self) -> Path:
        """Input with a full-size corpus: that of `--full`, or one generated on first use."""
        return self.full_size_dir or write_full_size(self.directory, self.work_dir / "full", self.argument_count)

    def compare(self, benchmark: Benchmark, task: str, target: float) -> Result:
        """Compare both implementations of a benchmark, with the requested number of repetitions."""
        return compare(benchmark, task, target, self.repetitions)


def _score_with_word_network(name: str, target: float) -> Callable[[Inputs], list[Result]]:
    task = f"{name}: the candidates of all topics, CPU"
    return lambda inputs: [inputs.compare(word_networks.build_benchmark(name, inputs.directory), task, target)]


def _score_with_bert(name: str, target: float) -> Callable[[Inputs], list[Result]]:
    task = f"{name}: {bert.PAIRS} pairs, CPU, float32"
    return lambda inputs: [inputs.compare(bert.build_benchmark(name, inputs.directory), task, target)]


def _train(name: str, steps: int, target: float) -> Callable[[Inputs], list[Result]]:
    task = f"{name}: training steps, vocabulary of {training.ROWS:,} words, CPU"
    return lambda inputs: [inputs.compare(training.build_benchmark(name, steps), task, target)]


def _encode_in_bfloat16(inputs: Inputs) -> list[Result]:
    try:
        benchmarks = bfloat16.build_benchmarks(inputs.directory)
    except UsageError as error:
        print(f"bfloat16: skipped: {error}")
        return []
    return [
        inputs.compare(benchmark, f"{benchmark.name}: {benchmark.unit} of a collection, CPU, bfloat16", 2)
        for benchmark in benchmarks
    ]


def _measure_precision(inputs: Inputs) -> list[Result]:
    if not inputs.qrels:
        print("precision: skipped; add --qrels FILE")
        return []
    return precision.measure(inputs.directory, inputs.qrels)


def _score_on_gpu(inputs: Inputs) -> list[Result]:
    if not torch.cuda.is_available():
        print("gpu: skipped; this machine has no CUDA device")
        return []
    return [
        inputs.compare(
            word_networks.build_gpu_benchmark(name, inputs.directory),
            f"{name}: the candidates of all topics, GPU, float16",
            4,
        )
        for name in BERT_TARGETS
    ]


BENCHMARKS: dict[str, Callable[[Inputs], list[Result]]] = {
    "corpus": lambda inputs: corpus.measure(inputs.full_size, inputs.work_dir, inputs.repetitions),
    "read_runs": lambda inputs: [read_runs.measure(inputs.repetitions)],
    "bm25": lambda inputs: [
        inputs.compare(retrieval.build_benchmark(inputs.full_size), "BM25 of topics over the conclusions of a large corpus", 50)
    ],
    "term_index": lambda inputs: term_index.measure(inputs.full_size, inputs.work_dir),
    "knrm": _score_with_word_network("knrm", 5),
    "drmm": _score_with_word_network("drmm", 5),
    "conv_knrm": _score_with_word_network("conv_knrm", 3),
    "gru": _score_with_word_network("gru", 1.5),
    "snrm": lambda inputs: [
        inputs.compare(word_networks.build_snrm_benchmark(inputs.directory), "snrm: document vectors for the index, CPU", 2)
    ],
    **{name: _score_with_bert(name, target) for name, target in BERT_TARGETS.items()},
    "sbert": lambda inputs: [
        inputs.compare(dense.build_benchmark(inputs.directory), f"sbert: {dense.TEXTS} premises, CPU, float32", 1.3),
        dense.measure_search(),
    ],
    "deepct": lambda inputs: [
        inputs.compare(deepct.build_benchmark(inputs.directory), "deepct: passages, CPU, float32", 1.3),
        deepct.measure_memory(),
    ],
    "targer": lambda inputs: targer.measure(inputs.directory, inputs.repetitions),
    "bfloat16": _encode_in_bfloat16,
    "precision": _measure_precision,
    "gpu": _score_on_gpu,
    "knrm_training": _train("knrm", 20, 5),
    "conv_knrm_training": _train("conv_knrm", 5, 2),
    "gru_training": _train("gru", 3, 1.2),
    "snrm_training": lambda inputs: [
        inputs.compare(training.build_snrm_benchmark(inputs.directory), "snrm: arguments per training step, CPU", 4)
    ],
    "fusion": lambda inputs: fusion.measure(inputs.full_size),
    "engine": lambda inputs: engine.measure(inputs.directory, inputs.repetitions),
    "memory": lambda inputs: rank.measure_memory(inputs.full_size),
    "second_run": lambda inputs: [rank.measure_second_run(inputs.full_size)],
    "default_system": lambda inputs: rank.measure_default_system(inputs.full_size),
    "all_systems": lambda inputs: [rank.measure_all_systems(inputs.directory)],
}


def main() -> None:
    """Run the benchmarks named on the command line and print their results."""
    parser = argparse.ArgumentParser(prog="tests.benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"benchmarks to run (default: all): {', '.join(BENCHMARKS)}")
    parser.add_argument(
        "-i",
        "--input",
        type=Path,
        default=SAMPLE_INPUT,
        metavar="DIR",
        help="input directory of the networks' benchmarks (default: the sample)",
    )
    parser.add_argument("--qrels", type=Path, metavar="FILE", help="qrels of the input, to compare nDCG@5 across precisions")
    parser.add_argument(
        "--full", type=Path, metavar="DIR", help="input directory with a full-size corpus (default: generated from the input)"
    )
    parser.add_argument(
        "--arguments",
        type=int,
        default=ARGUMENTS,
        metavar="N",
        help="number of arguments in the generated corpus (default: that of args.me)",
    )
    parser.add_argument("--repetitions", type=int, default=3, metavar="N", help="number of timed repetitions (default: 3)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="JSON file to update with the results")
    parser.add_argument(
        "--scaling",
        type=Path,
        metavar="FILE",
        help="PNG file for a plot of time against input size; no benchmarks are run",
    )
    parser.add_argument(
        "--readme",
        type=Path,
        metavar="FILE",
        help="JSON file with the results to write to the READMEs; no benchmarks are run",
    )
    args = parser.parse_args()
    unknown = set(args.names) - set(BENCHMARKS)
    if unknown:
        parser.error(f"unknown benchmark {', '.join(sorted(unknown))}; expected {', '.join(BENCHMARKS)}")
    if args.readme:
        readme.update(args.readme)
        return
    logging.disable(logging.INFO)
    limit_threads()
    with tempfile.TemporaryDirectory() as folder:
        inputs = Inputs(args.input, args.qrels, args.full, args.arguments, Path(folder), args.repetitions)
        if args.scaling:
            for axis, curves in scaling.plot(inputs.directory, inputs.full_size, args.scaling).items():
                for name, points in curves.items():
                    print(f"{axis}: {name} {points[-1][1]:.2f} s at {points[-1][0]:,}, slope {scaling.fit_slope(points):.2f}")
            return
        results: dict[str, list[dict[str, object]]] = {}
        for name in args.names or BENCHMARKS:
            rows = BENCHMARKS[name](inputs)
            print("\n".join(result.format() for result in rows), flush=True)
            results[name] = [asdict(result) for result in rows]
            if args.json:
                _save(args.json, results)


def _save(file: Path, results: dict[str, list[dict[str, object]]]) -> None:
    """Merge results into a JSON file, sorted in the order of `BENCHMARKS`."""
    machine = {"processor": detect_cpu(), "threads": torch.get_num_threads(), "torch": torch.__version__}
    merged = (json.loads(file.read_text())["results"] if file.exists() else {}) | results
    ordered = {name: merged[name] for name in BENCHMARKS if name in merged}
    file.write_text(json.dumps({"machine": machine, "results": ordered}, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
