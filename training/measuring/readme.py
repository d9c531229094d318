"""The README's table of results, written from measured files: what `evaluate -o` wrote, and the checkpoints' metrics."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd

from submission.disk.files import write_whole
from submission.disk.provenance import METRICS
from submission.errors import InputError
from submission.paths import CHECKPOINTS
from training.measuring.analysis import system
from training.paths import MEASURED, README

BEGIN, END = "<!-- results: written by `python -m training results` -->", "<!-- end of results -->"
SHOWN = ("nDCG@5 judged", "nDCG@5 all", "nDCG@10 all", "MAP all", "judged@5")


def update(measured: Path = MEASURED, checkpoints: Path = CHECKPOINTS, readme: Path = README) -> None:
    """Write the table into the README, between its two marks.

    Raises:
        InputError: the measured file or the marks are missing. OutputError: the README cannot be written.
    """
    text = readme.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise InputError(f"{readme}: expected the lines {BEGIN} and {END} once, with the table between them")
    before, rest = text.split(BEGIN)
    write_whole(readme, f"{before}{BEGIN}\n\n{table(measured, checkpoints)}\n{END}{rest.split(END)[1]}")


def table(measured: Path, checkpoints: Path) -> str:
    """The table in Markdown, the best system first. Raises InputError: the measured file is missing or another kind of file."""
    try:
        rows = pd.read_csv(measured)
        means = rows.pivot(index="run", columns="measure", values=["mean", "low", "high"])
        means = means.sort_values(("mean", SHOWN[0]), ascending=False)
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{measured}: no measured means ({error}); `python -m training evaluate -o` writes them") from None
    lines = [f"| system | validation MAP@20 | {' | '.join(SHOWN)} |", f"|---|---|{'---|' * len(SHOWN)}"]
    for run, values in means.iterrows():
        name = system(str(run))
        cells = [f"{values['mean', measure]:.3f}" for measure in SHOWN]
        cells[0] += f" ({values['low', SHOWN[0]]:.2f}–{values['high', SHOWN[0]]:.2f})"  # noqa: RUF001 a range
        lines.append(f"| {name} | {_validation(checkpoints / name / METRICS)} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _validation(file: Path) -> str:
    if not file.is_file():
        return ""
    value = json.loads(file.read_text(encoding="utf-8")).get("validation", {}).get("MAP@20")
    return "" if value is None else f"{value:.1f}"
