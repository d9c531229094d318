"""Benchmarks: each a ratio against a named baseline in the same run. `python -m tests.benchmarks [-i INPUT] [NAME …]`.

The networks are measured on INPUT; reading, BM25 and memory on a corpus of the size of args.me. Nothing else should be running.
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
    rank,  # fmt: skip
    read_runs,
    readme,
    retrieval,
    scaling,
    targer,
    term_index,
    training,
    word_networks,
)
from tests.benchmarks.benchmark import Result, compare
from tests.benchmarks.synthetic_inputs import ARGUMENTS, full_size

BERT_NETWORKS = {"vanilla_bert": 1.1, "cedr_drmm": 0.9, "cedr_knrm": 0.9}
ALL_CANDIDATES = "the candidates of all topics"
ALL_TOPICS = f"{ALL_CANDIDATES}, CPU"


@dataclass
class Inputs:
    """What is measured on."""

    directory: Path
    qrels: Path | None
    large: Path | None
    arguments: int
    folder: Path
    repetitions: int

    @cached_property
    def full(self) -> Path:
        """An input with a corpus of the size of args.me, made when it is first asked for."""
        return self.large or full_size(self.directory, self.folder / "full", self.arguments)


def _ranker(name: str, what: str, at_least: float) -> Callable[[Inputs], list[Result]]:
    def measure(inputs: Inputs) -> list[Result]:
        return [compare(word_networks.scoring(name, inputs.directory), f"{name}: {what}", at_least, inputs.repetitions)]

    return measure


def _bert(name: str, at_least: float) -> Callable[[Inputs], list[Result]]:
    def measure(inputs: Inputs) -> list[Result]:
        what = f"{name}: {bert.PAIRS} pairs, CPU, float32"
        return [compare(bert.bert(name, inputs.directory), what, at_least, inputs.repetitions)]

    return measure


def _training(name: str, at_least: float) -> Callable[[Inputs], list[Result]]:
    def measure(inputs: Inputs) -> list[Result]:
        benchmark = getattr(training, f"{name}_training")(inputs.directory)
        return [compare(benchmark, f"{name}: training steps at {training.ROWS:,} words, CPU", at_least, inputs.repetitions)]

    return measure


def _snrm_training(inputs: Inputs) -> list[Result]:
    benchmark = training.snrm_training(inputs.directory)
    return [compare(benchmark, "snrm: arguments trained on by its recipe, CPU", 4, inputs.repetitions)]


def _bm25(inputs: Inputs) -> list[Result]:
    return [compare(retrieval.bm25(inputs.full), "BM25 of topics over the large corpus' conclusions", 50, inputs.repetitions)]


def _half(inputs: Inputs) -> list[Result]:
    try:
        benchmarks = bfloat16.halves(inputs.directory)
    except UsageError as error:
        print(f"whole collections in bfloat16: not measured, {error}")
        return []
    return [
        compare(benchmark, f"{benchmark.name}: {benchmark.unit} of a collection, CPU, bfloat16", 2, inputs.repetitions)
        for benchmark in benchmarks
    ]


def _precision(inputs: Inputs) -> list[Result]:
    if not inputs.qrels:
        print("BERT in bfloat16 and int8: not measured, --qrels names no judgments")
        return []
    return precision.lower(inputs.directory, inputs.qrels)


def _gpu(inputs: Inputs) -> list[Result]:
    if not torch.cuda.is_available():
        print("BERT networks on a GPU: not measured, this machine has no CUDA device")
        return []
    benchmarks = {name: word_networks.on_gpu(name, inputs.directory) for name in BERT_NETWORKS}
    return [
        compare(benchmark, f"{name}: {ALL_CANDIDATES}, GPU, float16", 4, inputs.repetitions)
        for name, benchmark in benchmarks.items()
    ]


BENCHMARKS: dict[str, Callable[[Inputs], list[Result]]] = {
    "corpus": lambda inputs: corpus.corpus_reading(inputs.full, inputs.folder, inputs.repetitions),
    "run": lambda inputs: [read_runs.reading(inputs.repetitions)],
    "bm25": _bm25,
    "terms": lambda inputs: term_index.terms(inputs.full, inputs.folder),
    "knrm": _ranker("knrm", ALL_TOPICS, 5),
    "drmm": _ranker("drmm", ALL_TOPICS, 5),
    "conv_knrm": _ranker("conv_knrm", ALL_TOPICS, 3),
    "gru": _ranker("gru", ALL_TOPICS, 1.5),
    "snrm": lambda inputs: [
        compare(word_networks.snrm_index(inputs.directory), "snrm: vectors for the index, CPU", 2, inputs.repetitions)
    ],
    **{name: _bert(name, at_least) for name, at_least in BERT_NETWORKS.items()},
    "sbert": lambda inputs: [
        compare(dense.encoding(inputs.directory), f"sbert: {dense.TEXTS} premises, CPU, float32", 1.3, inputs.repetitions),
        dense.search(),
    ],
    "deepct": lambda inputs: [
        compare(deepct.encoding(inputs.directory), "deepct: passages, CPU, float32", 1.3, inputs.repetitions),
        deepct.memory(),
    ],
    "targer": lambda inputs: targer.results(inputs.directory, inputs.repetitions),
    "half": _half,
    "precision": _precision,
    "gpu": _gpu,
    "knrm_training": _training("knrm", 5),
    "conv_knrm_training": _training("conv_knrm", 2),
    "gru_training": _training("gru", 1.2),
    "snrm_training": _snrm_training,
    "fusion": lambda inputs: fusion.fusion(inputs.full),
    "engine": lambda inputs: engine.engine(inputs.directory, inputs.repetitions),
    "memory": lambda inputs: rank.memory(inputs.full),
    "second": lambda inputs: [rank.second(inputs.full)],
    "default": lambda inputs: rank.default(inputs.full),
    "whole": lambda inputs: [rank.all_systems(inputs.directory)],
}


def main() -> None:
    """Measure, print the table, and with --json write a file with all times; with --readme that file goes into the README."""
    parser = argparse.ArgumentParser(prog="tests.benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which (default: all): {', '.join(BENCHMARKS)}")
    parser.add_argument("-i", "--input", type=Path, default=SAMPLE_INPUT, metavar="DIR", help="topics and corpus to measure on")
    parser.add_argument("--qrels", type=Path, metavar="FILE", help="judgments of INPUT, for what precision does to nDCG@5")
    parser.add_argument("--full", type=Path, metavar="DIR", help="an input with a large corpus (default: made from INPUT)")
    parser.add_argument("--arguments", type=int, default=ARGUMENTS, metavar="N", help="of the large corpus that is made")
    parser.add_argument("--repetitions", type=int, default=3, metavar="N", help="of which the medians are taken")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the results go; those of other names there stay")
    parser.add_argument("--growth", type=Path, metavar="FILE", help="plot how time grows there (.png) and stop")
    parser.add_argument("--readme", type=Path, metavar="FILE", help="write the README's tables from such a .json, and stop")
    options = parser.parse_args()
    unknown = set(options.names) - set(BENCHMARKS)
    if unknown:
        parser.error(f"unknown benchmark {', '.join(sorted(unknown))}; expected some of {', '.join(BENCHMARKS)}")
    if options.readme:
        readme.update(options.readme)
        return
    logging.disable(logging.INFO)
    limit_threads()
    with tempfile.TemporaryDirectory() as folder:
        inputs = Inputs(options.input, options.qrels, options.full, options.arguments, Path(folder), options.repetitions)
        if options.growth:
            for what, curves in scaling.draw(inputs.directory, inputs.full, options.growth).items():
                for name, points in curves.items():
                    print(f"{what}: {name} {points[-1][1]:.2f} s at {points[-1][0]:,}, slope {scaling.steepness(points):.2f}")
            return
        results: dict[str, list[dict[str, object]]] = {}
        for name in options.names or BENCHMARKS:
            found = BENCHMARKS[name](inputs)
            print("\n".join(result.line() for result in found), flush=True)
            results[name] = [asdict(result) for result in found]
            if options.json:
                _write(options.json, results)


def _write(file: Path, results: dict[str, list[dict[str, object]]]) -> None:
    machine = {"processor": detect_cpu(), "threads": torch.get_num_threads(), "torch": torch.__version__}
    earlier = json.loads(file.read_text())["results"] if file.exists() else {}
    ordered = {name: (earlier | results)[name] for name in BENCHMARKS if name in earlier | results}
    file.write_text(json.dumps({"machine": machine, "results": ordered}, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
