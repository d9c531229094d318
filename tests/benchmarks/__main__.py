"""Measure speed and memory as ratios to baselines or targets.

The networks are measured on INPUT, and reading, indexes, BM25 and memory on a corpus of the size of
args.me. Use an idle machine, since the times are elapsed times.
"""

import argparse
import json
import logging
import tempfile
from dataclasses import asdict
from functools import partial
from itertools import chain
from pathlib import Path

import torch

from aragorn.errors import UsageError
from aragorn.ir_metadata import detect_cpu
from aragorn.paths import SAMPLE_INPUT
from aragorn_training.report.sections import replace_section
from tests.benchmarks import (
    encoders,
    engine,
    indexes,
    rank,
    reading,
    scaling,
    search,
    training,
    word_networks,
)
from tests.benchmarks.benchmark import Inputs

README = Path(__file__).with_name("README.md")
# benchmarks whose results are all in the README
COMPLETE = ("inference_engines", "memory", "default_system")


# functions of the inputs that return one or several results
BENCHMARKS = {
    "corpus": reading.measure_corpus,
    "read_runs": reading.measure_run,
    "bm25": indexes.measure_bm25,
    "term_index": indexes.measure_term_index,
    "knrm": partial(word_networks.measure, "knrm", 5),
    "drmm": partial(word_networks.measure, "drmm", 5),
    "conv_knrm": partial(word_networks.measure, "conv_knrm", 3),
    "gru": partial(word_networks.measure, "gru", 1.5),
    "snrm": word_networks.measure_snrm,
    "vanilla_bert": partial(encoders.measure_bert, "vanilla_bert", 1.1),
    "cedr_drmm": partial(encoders.measure_bert, "cedr_drmm", 0.9),
    "cedr_knrm": partial(encoders.measure_bert, "cedr_knrm", 0.9),
    "sbert": lambda inputs: [encoders.measure_sbert(inputs), indexes.measure_dense_search()],
    "deepct": encoders.measure_deepct,
    "targer": encoders.measure_tagging,
    "bfloat16": encoders.measure_bfloat16,
    "inference_engines": encoders.measure_engines,
    "gpu": word_networks.measure_on_gpu,
    "knrm_training": partial(training.measure, "knrm", 20, 5),
    "conv_knrm_training": partial(training.measure, "conv_knrm", 5, 2),
    "gru_training": partial(training.measure, "gru", 3, 1.2),
    "snrm_training": training.measure_snrm,
    "engine": engine.measure,
    "memory": rank.measure_memory,
    "default_system": rank.measure_default_system,
    "all_systems": rank.measure_all_systems,
    "search": lambda inputs: search.measure_search(
        inputs.directory, inputs.work_dir / "index", 0.3, inputs.repetitions
    ),
    "search_full_size": lambda inputs: search.measure_search(
        inputs.full_size, inputs.work_dir / "full-index", 1, 1
    ),
}
OPTIONS = {  # metavariable, type, default and help
    ("-i", "--input"): ("DIR", Path, SAMPLE_INPUT, "input of the networks' benchmarks"),
    ("--full",): ("DIR", Path, None, "input with a full-size corpus (default: generated)"),
    ("--repetitions",): ("N", int, 3, "timed repetitions of each benchmark (default: 3)"),
    ("--json",): ("FILE", Path, None, "results (JSON) to update with those of this execution"),
    ("--scaling",): ("FILE", Path, None, "plot (PNG) of time against input size to write instead"),
    ("--readme",): ("FILE", Path, None, "results (JSON) to write to the README instead"),
}


def parse_arguments():
    """Parse the command line; exit with a message if a benchmark is unknown."""
    parser = argparse.ArgumentParser(prog="tests.benchmarks", description=__doc__)
    names = f"benchmarks to run (default: all): {', '.join(BENCHMARKS)}"
    parser.add_argument("names", nargs="*", metavar="NAME", help=names)
    for flags, (metavar, kind, default, text) in OPTIONS.items():
        parser.add_argument(*flags, metavar=metavar, type=kind, default=default, help=text)
    args = parser.parse_args()
    if unknown := set(args.names) - set(BENCHMARKS):
        parser.error(f"unknown benchmark {', '.join(sorted(unknown))}; see --help")
    return args


def main():
    """Run the benchmarks and print their results, plot the scaling, or update the README."""
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
                results = BENCHMARKS[name](inputs)
            except UsageError as error:  # the machine or the options do not suffice
                print(f"{name}: skipped: {error}")
                continue
            rows = results if isinstance(results, list) else [results]
            print("\n".join(result.format() for result in rows), flush=True)
            if args.json:
                _save(args.json, name, rows)


def _save(file, name, rows):
    """Replace the results of a benchmark in a JSON file, which has the order of `BENCHMARKS`."""
    machine = {"processor": detect_cpu(), "torch": torch.__version__}
    machine["threads"] = torch.get_num_threads()
    merged = (json.loads(file.read_text())["results"] if file.exists() else {}) | {
        name: [asdict(row) for row in rows]
    }
    ordered = {name: merged[name] for name in BENCHMARKS if name in merged}
    file.write_text(
        json.dumps({"machine": machine, "results": ordered}, indent=1, ensure_ascii=False) + "\n"
    )


def update_readme(results, readme=README):
    """Write a table of the first result of each benchmark (of those in COMPLETE all) to a README,
    and mark ratios below their target."""
    content = json.loads(results.read_text(encoding="utf-8"))
    lines = ["| task | ours | baseline | ratio | target |", "|---|---|---|---|---|"]
    results = content["results"].items()
    shown = [rows if name in COMPLETE else rows[:1] for name, rows in results]
    for result in chain.from_iterable(shown):
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
