"""Write the generated sections of the READMEs from the catalogue, measured files (`evaluate -o`) and checkpoints' metrics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd

from submission.disk.files import write_whole
from submission.disk.provenance import METRICS
from submission.errors import InputError
from submission.input import formats
from submission.paths import CHECKPOINTS, ROOT
from submission.systems.catalogue import PRIMARY_SYSTEM, SYSTEMS
from submission.systems.execution import walk
from submission.systems.remembered import Checkpoints
from training.figures import CROSS_VALIDATED
from training.measuring.analysis import system as system_of
from training.measuring.evaluate import HEADLINES
from training.measuring.results import JUDGED
from training.paths import MEASURED

MEASURES_SHOWN = (*HEADLINES, "nDCG@10 all", "MAP all", "judged@5")
BEST = 8  # systems in the first table
PLACES = {  # of the generated sections
    "best": "README.md",
    "commands": "submission/README.md",
    "formats": "submission/input/README.md",
    "systems": "submission/systems/README.md",
    "results": "training/measured/README.md",
}


def update(measured: Path = MEASURED, checkpoints: Path = CHECKPOINTS, root: Path = ROOT) -> None:
    """Write all generated sections into their READMEs below `root`.

    Raises:
        InputError: the measured file or a section's marks are missing. OutputError: a README cannot be written.
    """
    contents = {
        "best": best_table(measured, checkpoints),
        "commands": commands(checkpoints),
        "formats": formats.markdown(),
        "systems": systems(),
        "results": results_table(measured, checkpoints),
    }
    for name, content in contents.items():
        write_section(root / PLACES[name], name, content)


def write_section(readme: Path, name: str, content: str) -> None:
    """Replace the text between the two marks of a section in a README.

    Raises:
        InputError: each mark is not there once. OutputError: the README cannot be written.
    """
    text, begin, end = readme.read_text(encoding="utf-8"), f"<!-- {name}: generated -->", f"<!-- end of {name} -->"
    if text.count(begin) != 1 or text.count(end) != 1:
        raise InputError(f"{readme}: expected the lines {begin} and {end} once, with what is generated between them")
    before, rest = text.split(begin)
    write_whole(readme, f"{before}{begin}\n\n{content}\n{end}{rest.split(end)[1]}")


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


def best_table(measured: Path, checkpoints: Path) -> str:
    """Format the systems that are best by Touché's measure as Markdown, each by its cross-validated means where it has some.

    Raises:
        InputError: the measured file is missing or another kind of file.
    """
    means = _means(measured)
    rows: list[tuple[list[float], str, str]] = []
    for run, values in means.iterrows():
        name = system_of(str(run)) if "," not in str(run) else PRIMARY_SYSTEM
        found = [float(values["mean", measure]) for measure in HEADLINES]
        bounds = f" ({values['low', HEADLINES[0]]:.2f}–{values['high', HEADLINES[0]]:.2f})"  # noqa: RUF001 a range
        tuned = _metrics(checkpoints, name).get(CROSS_VALIDATED, {})
        if all(measure in tuned for measure in HEADLINES):
            found, bounds = [tuned[measure] for measure in HEADLINES], ""
        if name != PRIMARY_SYSTEM or "," in str(run):
            rows.append((found, name, bounds))
    lines = [f"| system | what it is | {' | '.join(HEADLINES)} |", "|---" * (2 + len(HEADLINES)) + "|"]
    for found, name, bounds in sorted(rows, reverse=True)[:BEST]:
        first, *others = (f"{value:.3f}" for value in found)
        lines.append(f"| {name} | {SYSTEMS[name].about} | {first}{bounds} | {' | '.join(others)} |")
    return "\n".join(lines) + "\n"


REMARKS = {"gru": "no topic changes its order"}


def results_table(measured: Path, checkpoints: Path) -> str:
    """Format the means of all systems as Markdown, the best first. Raises InputError: the measured file is none."""
    means = _means(measured)
    first, *others = MEASURES_SHOWN
    heads = ["system", "validation MAP@20", first, "topics of it", *others]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for run, values in means.iterrows():
        name = str(run) if str(run).startswith(PRIMARY_SYSTEM) else system_of(str(run))
        bounds = f"{values['low', first]:.2f}–{values['high', first]:.2f}"  # noqa: RUF001 a range
        cells = [f"{values['mean', first]:.3f} ({bounds})", f"{values['topics', first]:.0f}"]
        cells += [f"{values['mean', measure]:.3f}" for measure in others]
        remark = f" ({REMARKS[name]})" if name in REMARKS else ""
        lines.append(f"| {name}{remark} | {_validation(checkpoints, name)} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _means(measured: Path) -> pd.DataFrame:
    """Read means with intervals: a row a run, the best first. Raises InputError: the file is missing or of another kind."""
    try:
        rows = pd.concat([pd.read_csv(measured), *_cross_validated(measured.parent)])
        rows = rows[rows["over"] == JUDGED]
        means = rows.pivot(index="run", columns="measure", values=["mean", "low", "high", "topics"])
        return means.sort_values(("mean", MEASURES_SHOWN[0]), ascending=False)
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{measured}: no measured means ({error}); `python -m training evaluate -o` writes them") from None


def _cross_validated(directory: Path) -> list[pd.DataFrame]:
    """The primary system's means on topics of folds that it was not fitted to, if they are there."""
    file = directory / f"{PRIMARY_SYSTEM}.csv"
    if not file.exists():
        return []
    rows = pd.read_csv(file)
    own = rows[(rows["run"] == PRIMARY_SYSTEM) & (rows["qrels"] == rows["qrels"].iloc[0])]
    return [own.assign(run=f"{PRIMARY_SYSTEM}, on topics of other folds")]


def _validation(checkpoints: Path, name: str) -> str:
    value = _metrics(checkpoints, name).get("validation", {}).get("MAP@20")
    return "" if value is None else f"{value:.1f}"


def _metrics(checkpoints: Path, name: str) -> dict[str, Any]:
    """Read the metrics of a system's checkpoint; nothing where it has none."""
    checkpoint = SYSTEMS[name].stage.checkpoint if name in SYSTEMS else None
    file = checkpoints / (checkpoint or name) / METRICS
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
