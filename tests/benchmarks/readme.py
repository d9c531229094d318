"""Write the READMEs' tables of speed and of a simulated cluster from a file of results."""

from __future__ import annotations

import json
from pathlib import Path

from submission.paths import PROJECT_DIR
from tests.benchmarks import simulation
from training.report.readme import replace_section

PLACES = {"speed": "tests/benchmarks/README.md", "simulation": "submission/engine/README.md"}


def update(results: Path, root: Path = PROJECT_DIR) -> None:
    """Write the tables into their READMEs below `root`. Raises InputError: the marks are missing."""
    content = json.loads(results.read_text(encoding="utf-8"))
    replace_section(root / PLACES["speed"], "speed", speed_table(content))
    replace_section(root / PLACES["simulation"], "simulation", simulation.table(content["results"]))


def speed_table(content: dict[str, object]) -> str:
    """The table in Markdown."""
    machine: dict[str, object] = content["machine"]  # type: ignore[assignment]
    results: dict[str, list[dict[str, object]]] = content["results"]  # type: ignore[assignment]
    lines = ["| what | ours | baseline | ratio | at least |", "|---|---|---|---|---|"]
    for result in (result for found in results.values() for result in found):
        at_least = "" if result["at_least"] is None else f"{result['at_least']:g}"
        baseline = f"{result['against']}: {result['baseline']}"
        lines.append(f"| {result['what']} | {result['ours']} | {baseline} | {result['ratio']:.2f} | {at_least} |")
    return "\n".join(lines) + f"\n\n{machine['processor']}, {machine['threads']} threads, torch {machine['torch']}.\n"
