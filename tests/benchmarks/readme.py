"""Update the READMEs' tables of benchmark results and of simulated clusters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from submission.paths import PROJECT_DIR
from tests.benchmarks import simulation
from training.report.readme import replace_section

README_FILES = {"speed": "tests/benchmarks/README.md", "simulation": "submission/engine/README.md"}


def update(results: Path, root: Path = PROJECT_DIR) -> None:
    """Replace the generated sections of the READMEs below `root` by tables of the benchmark results in a JSON file.

    Raises:
        InputError: If the markers of a section are missing.
    """
    content = json.loads(results.read_text(encoding="utf-8"))
    replace_section(root / README_FILES["speed"], "speed", render_speed_table(content))
    replace_section(root / README_FILES["simulation"], "simulation", simulation.render_table(content["results"]))


def render_speed_table(content: dict[str, Any]) -> str:
    """Render the results as a Markdown table, followed by a description of the machine."""
    lines = ["| task | ours | baseline | ratio | target |", "|---|---|---|---|---|"]
    for result in (result for rows in content["results"].values() for result in rows):
        target = "" if result["target"] is None else f"{result['target']:g}"
        baseline = f"{result['baseline_name']}: {result['baseline']}"
        lines.append(f"| {result['task']} | {result['ours']} | {baseline} | {result['ratio']:.2f} | {target} |")
    machine = content["machine"]
    return "\n".join(lines) + f"\n\n{machine['processor']}, {machine['threads']} threads, torch {machine['torch']}.\n"
