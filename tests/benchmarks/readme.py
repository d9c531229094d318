"""Update the table of benchmark results in the README."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from training.report.readme import replace_section

README = Path(__file__).with_name("README.md")


def update(results: Path, readme: Path = README) -> None:
    """Replace the generated section of a README by a table of the benchmark results in a JSON file.

    Raises:
        InputError: If the markers of the section are missing.
    """
    replace_section(readme, "speed", render_table(json.loads(results.read_text(encoding="utf-8"))))


def render_table(content: dict[str, Any]) -> str:
    """Render the results as a Markdown table, followed by a description of the machine."""
    lines = ["| task | ours | baseline | ratio | target |", "|---|---|---|---|---|"]
    for result in (result for rows in content["results"].values() for result in rows):
        target = "" if result["target"] is None else f"{result['target']:g}"
        baseline = f"{result['baseline_name']}: {result['baseline']}"
        lines.append(f"| {result['task']} | {result['ours']} | {baseline} | {result['ratio']:.2f} | {target} |")
    machine = content["machine"]
    return "\n".join(lines) + f"\n\n{machine['processor']}, {machine['threads']} threads, torch {machine['torch']}.\n"
