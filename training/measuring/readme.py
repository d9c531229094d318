"""The parts of the README that are generated: from the catalogue, measured files (`evaluate -o`), checkpoints' metrics."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd

from submission.disk.files import write_whole
from submission.disk.provenance import METRICS
from submission.errors import InputError
from submission.input import formats
from submission.paths import CHECKPOINTS
from submission.systems.catalogue import PRIMARY_SYSTEM, SYSTEMS
from submission.systems.execution import walk
from submission.systems.remembered import Checkpoints
from training.measuring.analysis import system as system_of
from training.measuring.evaluate import HEADLINES
from training.measuring.results import JUDGED
from training.paths import MEASURED, README

MEASURES_SHOWN = (*HEADLINES, "nDCG@10 all", "MAP all", "judged@5")


def update(measured: Path = MEASURED, checkpoints: Path = CHECKPOINTS, readme: Path = README) -> None:
    """Write what is generated into the README.

    Raises:
        InputError: the measured file or a section's marks are missing. OutputError: the README cannot be written.
    """
    text = readme.read_text(encoding="utf-8")
    for name, content in {
        "commands": commands(checkpoints),
        "formats": formats.markdown(),
        "systems": systems(),
        "results": results_table(measured, checkpoints),
    }.items():
        text = replaced(text, name, content, readme)
    write_whole(readme, text)


def replaced(text: str, name: str, content: str, readme: Path) -> str:
    """A README's text with a section between its two marks, which name it. Raises InputError: they are not there once."""
    begin, end = f"<!-- {name}: generated -->", f"<!-- end of {name} -->"
    if text.count(begin) != 1 or text.count(end) != 1:
        raise InputError(f"{readme}: expected the lines {begin} and {end} once, with what is generated between them")
    before, rest = text.split(begin)
    return f"{before}{begin}\n\n{content}\n{end}{rest.split(end)[1]}"


def commands(checkpoints: Path) -> str:
    """TIRA's commands, one a system whose checkpoints are there."""
    there = [name for name, system in SYSTEMS.items() if not system.missing(Checkpoints(checkpoints))]
    lines = [f"/aragorn/run.sh -i $inputDataset -o $outputDir --system {name}" for name in there]
    return "\n".join(["```", *lines, "```"]) + "\n"


def systems() -> str:
    """The systems in Markdown: what each is, and the checkpoints that it reads."""
    lines = ["| system | what it is | checkpoints |", "|---|---|---|"]
    for system in SYSTEMS.values():
        read = dict.fromkeys(part.checkpoint for part in walk(system.stage) if part.checkpoint)
        lines.append(f"| {system.name} | {system.about} | {', '.join(read)} |")
    return "\n".join(lines) + "\n"


def results_table(measured: Path, checkpoints: Path) -> str:
    """The table in Markdown, the best system first. Raises InputError: the measured file is missing or another kind of file."""
    try:
        rows = pd.concat([pd.read_csv(measured), *_cross_validated(measured.parent)])
        rows = rows[rows["over"] == JUDGED]
        means = rows.pivot(index="run", columns="measure", values=["mean", "low", "high", "topics"])
        means = means.sort_values(("mean", MEASURES_SHOWN[0]), ascending=False)
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{measured}: no measured means ({error}); `python -m training evaluate -o` writes them") from None
    first, *others = MEASURES_SHOWN
    heads = ["system", "validation MAP@20", first, "topics of it", *others]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for run, values in means.iterrows():
        name = str(run) if str(run).startswith(PRIMARY_SYSTEM) else system_of(str(run))
        bounds = f"{values['low', first]:.2f}–{values['high', first]:.2f}"  # noqa: RUF001 a range
        cells = [f"{values['mean', first]:.3f} ({bounds})", f"{values['topics', first]:.0f}"]
        cells += [f"{values['mean', measure]:.3f}" for measure in others]
        lines.append(f"| {name} | {_validation(checkpoints, name)} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cross_validated(directory: Path) -> list[pd.DataFrame]:
    """The primary system's means on topics of folds that it was not fitted to, if they are there."""
    file = directory / f"{PRIMARY_SYSTEM}.csv"
    if not file.exists():
        return []
    rows = pd.read_csv(file)
    own = rows[(rows["run"] == PRIMARY_SYSTEM) & (rows["qrels"] == rows["qrels"].iloc[0])]
    return [own.assign(run=f"{PRIMARY_SYSTEM}, on topics of other folds")]


def _validation(checkpoints: Path, name: str) -> str:
    checkpoint = SYSTEMS[name].stage.checkpoint if name in SYSTEMS else None
    file = checkpoints / (checkpoint or name) / METRICS
    if not file.is_file():
        return ""
    value = json.loads(file.read_text(encoding="utf-8")).get("validation", {}).get("MAP@20")
    return "" if value is None else f"{value:.1f}"
