"""The README's tables of speed and of what a cluster would do, written from a file of results."""

from __future__ import annotations

import json
from pathlib import Path

from submission.disk.files import write_whole
from tests.benchmarks import simulation
from training.measuring.readme import replaced
from training.paths import README


def update(results: Path, readme: Path = README) -> None:
    """Write the tables into the README, each between its two marks. Raises InputError: they are not there."""
    content = json.loads(results.read_text(encoding="utf-8"))
    text = replaced(readme.read_text(encoding="utf-8"), "speed", speed_table(content), readme)
    write_whole(readme, replaced(text, "simulation", simulation.table(content["results"]), readme))


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
