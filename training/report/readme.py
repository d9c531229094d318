"""Update the generated README sections from the catalogue, result tables and checkpoint metrics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd

from submission.errors import InputError
from submission.paths import CHECKPOINTS, ROOT
from submission.storage.atomic_files import write_whole
from submission.storage.checkpoint_directory import METRICS
from submission.systems.catalogue import PRIMARY_SYSTEM, SYSTEMS
from submission.systems.checkpoint_store import Checkpoints
from submission.systems.execution import walk
from training.evaluation.evaluate import HEADLINES
from training.evaluation.similarity import system as system_of
from training.evaluation.tables import JUDGED
from training.formatting import CROSS_VALIDATED
from training.paths import MEASURED

CROSS_VALIDATED_RUN = f"{PRIMARY_SYSTEM} (cross-validated)"
MEASURES_SHOWN = (*HEADLINES, "nDCG@10 all", "MAP all", "judged@5")
BEST = 8  # systems in the main README
PLACES = {  # file of each generated section
    "best": "README.md",
    "commands": "submission/README.md",
    "systems": "submission/systems/README.md",
    "results": "training/results/README.md",
}


def update(measured: Path = MEASURED, checkpoints: Path = CHECKPOINTS, root: Path = ROOT) -> None:
    """Update all generated sections of the READMEs below `root`.

    Raises:
        InputError: If the means file or a section marker is missing, or malformed.
        OutputError: If a README cannot be written.
    """
    contents = {
        "best": best_table(measured, checkpoints),
        "commands": commands(checkpoints),
        "systems": systems(),
        "results": results_table(measured, checkpoints),
    }
    for name, content in contents.items():
        write_section(root / PLACES[name], name, content)


def write_section(readme: Path, name: str, content: str) -> None:
    """Replace the text between a section's markers."""
    text, begin, end = readme.read_text(encoding="utf-8"), f"<!-- {name}: generated -->", f"<!-- end of {name} -->"
    if text.count(begin) != 1 or text.count(end) != 1:
        raise InputError(f"{readme}: expected each of the markers {begin} and {end} exactly once")
    before, rest = text.split(begin)
    write_whole(readme, f"{before}{begin}\n\n{content}\n{end}{rest.split(end)[1]}")


def commands(checkpoints: Path) -> str:
    """List TIRA's command of every system with checkpoints."""
    available = [name for name, system in SYSTEMS.items() if not system.missing(Checkpoints(checkpoints))]
    lines = [f"/aragorn/run.sh -i $inputDataset -o $outputDir --system {name}" for name in available]
    return "\n".join(["```", *lines, "```"]) + "\n"


def systems() -> str:
    """Format the systems as a Markdown table."""
    lines = ["| system | description | checkpoints |", "|---|---|---|"]
    for system in SYSTEMS.values():
        checkpoints = dict.fromkeys(part.checkpoint for part in walk(system.stage) if part.checkpoint)
        lines.append(f"| {system.name} | {system.about} | {', '.join(checkpoints)} |")
    return "\n".join(lines) + "\n"


def best_table(measured: Path, checkpoints: Path) -> str:
    """Format the best systems by Touché's nDCG@5 as a Markdown table, with cross-validated means if available."""
    means = _means(measured)
    rows: list[tuple[list[float], str, str]] = []
    for run, values in means.iterrows():
        name = PRIMARY_SYSTEM if run == CROSS_VALIDATED_RUN else system_of(str(run))
        scores = [float(values["mean", measure]) for measure in HEADLINES]
        interval = f" ({values['low', HEADLINES[0]]:.2f}–{values['high', HEADLINES[0]]:.2f})"  # noqa: RUF001 a range
        tuned = _metrics(checkpoints, name).get(CROSS_VALIDATED, {})
        if all(measure in tuned for measure in HEADLINES):
            scores, interval = [tuned[measure] for measure in HEADLINES], ""
        if name != PRIMARY_SYSTEM or run == CROSS_VALIDATED_RUN:
            rows.append((scores, name, interval))
    lines = [f"| system | description | {' | '.join(HEADLINES)} |", "|---" * (2 + len(HEADLINES)) + "|"]
    for scores, name, interval in sorted(rows, reverse=True)[:BEST]:
        touche_ndcg, *remaining = (f"{score:.3f}" for score in scores)
        lines.append(f"| {name} | {SYSTEMS[name].about} | {touche_ndcg}{interval} | {' | '.join(remaining)} |")
    return "\n".join(lines) + "\n"


REMARKS = {"gru": "query-independent ranking"}


def results_table(measured: Path, checkpoints: Path) -> str:
    """Format the means of all systems as a Markdown table, best first."""
    means = _means(measured)
    first, *remaining = MEASURES_SHOWN
    header = ["system", "validation MAP@20", first, "topics", *remaining]
    lines = [f"| {' | '.join(header)} |", "|---" * len(header) + "|"]
    for run, values in means.iterrows():
        name = str(run) if str(run).startswith(PRIMARY_SYSTEM) else system_of(str(run))
        interval = f"{values['low', first]:.2f}–{values['high', first]:.2f}"  # noqa: RUF001 a range
        cells = [f"{values['mean', first]:.3f} ({interval})", f"{values['topics', first]:.0f}"]
        cells += [f"{values['mean', measure]:.3f}" for measure in remaining]
        remark = f" ({REMARKS[name]})" if name in REMARKS else ""
        lines.append(f"| {name}{remark} | {_validation(checkpoints, name)} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _means(measured: Path) -> pd.DataFrame:
    """Load means with intervals, one row per run, best first; raise InputError if they are missing or malformed."""
    try:
        rows = pd.concat([pd.read_csv(measured), *_cross_validated(measured.parent)])
        rows = rows[rows["over"] == JUDGED]
        means = rows.pivot(index="run", columns="measure", values=["mean", "low", "high", "topics"])
        return means.sort_values(("mean", MEASURES_SHOWN[0]), ascending=False)
    except (OSError, ValueError, KeyError) as error:
        raise InputError(
            f"{measured}: cannot read means ({error}); create them with `python -m training evaluate -o`"
        ) from None


def _cross_validated(directory: Path) -> list[pd.DataFrame]:
    """Load the primary system's cross-validated means, if available."""
    file = directory / f"{PRIMARY_SYSTEM}.csv"
    if not file.exists():
        return []
    rows = pd.read_csv(file)
    means = rows[(rows["run"] == PRIMARY_SYSTEM) & (rows["qrels"] == rows["qrels"].iloc[0])]
    return [means.assign(run=CROSS_VALIDATED_RUN)]


def _validation(checkpoints: Path, name: str) -> str:
    value = _metrics(checkpoints, name).get("validation", {}).get("MAP@20")
    return "" if value is None else f"{value:.1f}"


def _metrics(checkpoints: Path, name: str) -> dict[str, Any]:
    """Load a checkpoint's metrics; empty if missing."""
    checkpoint = SYSTEMS[name].stage.checkpoint if name in SYSTEMS else None
    file = checkpoints / (checkpoint or name) / METRICS
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
