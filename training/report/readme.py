"""Update the generated sections of the READMEs from the catalogue, result tables and checkpoint metrics."""

import json
from pathlib import Path
from typing import Any

import pandas as pd

from submission.errors import InputError
from submission.paths import CHECKPOINT_DIR, PROJECT_DIR
from submission.storage.atomic_files import write_atomic
from submission.storage.checkpoint_directory import METRICS
from submission.systems.catalogue import PRIMARY_SYSTEM, SYSTEMS
from submission.systems.execution import CheckpointStore, iter_components
from training.evaluation.evaluate import HEADLINE_MEASURES
from training.evaluation.similarity import parse_system_name
from training.evaluation.tables import ALL_TOPICS
from training.formatting import CROSS_VALIDATED
from training.paths import SYSTEM_MEANS
from training.report.experiments import (
    format_collection_table,
    format_deepct_table,
    format_enrichments_table,
    format_fusion_table,
    format_step_seconds,
    format_students_table,
    format_trials_table,
)

CROSS_VALIDATED_RUN = f"{PRIMARY_SYSTEM} (cross-validated)"
TABLE_MEASURES = (*HEADLINE_MEASURES, "nDCG@10 all", "MAP all", "judged@5")
N_BEST = 8  # number of systems in the main README
REMARKS = {"gru": "query-independent ranking"}  # printed after the name in the table of all systems
SECTION_FILES = {  # file of each generated section
    "best": "README.md",
    "commands": "submission/README.md",
    "systems": "submission/systems/README.md",
    "collection": "training/README.md",
    "steps": "training/README.md",
    "results": "training/results/README.md",
    "fusion": "training/studies/README.md",
    "trials": "training/studies/README.md",
    "enrichments": "training/studies/README.md",
    "deepct": "training/studies/README.md",
    "students": "training/studies/README.md",
}


def update_readmes(means_csv: Path = SYSTEM_MEANS, checkpoints: Path = CHECKPOINT_DIR, root: Path = PROJECT_DIR) -> None:
    """Update all generated sections of the READMEs below `root`.

    Raises:
        InputError: If the means are missing or malformed, or a section marker is missing.
        OutputError: If a README cannot be written.
    """
    best_systems, results = format_best_table(means_csv, checkpoints), format_results_table(means_csv, checkpoints)
    commands, systems = format_system_names(checkpoints), format_systems_table()
    contents = {
        "best": best_systems, "commands": commands, "systems": systems, "results": results, "trials": format_trials_table(),
        "deepct": format_deepct_table(), "collection": format_collection_table(), "fusion": format_fusion_table(),
        "enrichments": format_enrichments_table(), "students": format_students_table(), "steps": format_step_seconds(),
    }  # fmt: skip
    for name, content in contents.items():
        replace_section(root / SECTION_FILES[name], name, content)


def replace_section(readme: Path, name: str, content: str) -> None:
    """Replace the text between a section's markers; raise InputError unless each marker occurs once."""
    text, begin, end = readme.read_text(encoding="utf-8"), f"<!-- {name}: generated -->", f"<!-- end of {name} -->"
    if text.count(begin) != 1 or text.count(end) != 1:
        raise InputError(f"{readme}: a marker is missing or duplicate; restore {begin} and {end}, once each")
    before, after = text.split(begin)[0], text.split(end)[1]
    write_atomic(readme, f"{before}{begin}\n\n{content}\n{end}{after}")


def format_system_names(checkpoints: Path) -> str:
    """Format the names of the systems whose checkpoints all exist in `checkpoints` in one line."""
    available_names = [
        name for name, system in SYSTEMS.items() if not system.stage.find_missing_checkpoints(CheckpointStore(checkpoints))
    ]
    return f"`SYSTEM`: {', '.join(f'`{name}`' for name in available_names)}.\n"


def format_systems_table() -> str:
    """Format the systems of the catalogue, with descriptions and checkpoint names, as a Markdown table."""
    lines = ["| system | description | checkpoints |", "|---|---|---|"]
    for system in SYSTEMS.values():
        checkpoints = dict.fromkeys(part.checkpoint for part in iter_components(system.stage) if part.checkpoint)
        lines.append(f"| {system.name} | {system.description} | {', '.join(checkpoints)} |")
    return "\n".join(lines) + "\n"


def format_best_table(means_csv: Path, checkpoints: Path) -> str:
    """Format the N_BEST systems by Touché's nDCG@5 as a Markdown table, with their cross-validated means if available."""
    means = _load_means(means_csv)
    rows: list[tuple[list[float], str, str]] = []
    for run, values in means.iterrows():
        name = PRIMARY_SYSTEM if run == CROSS_VALIDATED_RUN else parse_system_name(str(run))
        scores = [float(values["mean", measure]) for measure in HEADLINE_MEASURES]
        interval = f" ({values['ci_low', HEADLINE_MEASURES[0]]:.2f}–{values['ci_high', HEADLINE_MEASURES[0]]:.2f})"  # noqa: RUF001 a range
        cross_validated = _load_metrics(checkpoints, name).get(CROSS_VALIDATED, {})
        if all(measure in cross_validated for measure in HEADLINE_MEASURES):
            scores, interval = [cross_validated[measure] for measure in HEADLINE_MEASURES], ""
        if name != PRIMARY_SYSTEM or run == CROSS_VALIDATED_RUN:
            rows.append((scores, name, interval))
    lines = [f"| system | description | {' | '.join(HEADLINE_MEASURES)} |", "|---" * (2 + len(HEADLINE_MEASURES)) + "|"]
    for scores, name, interval in sorted(rows, reverse=True)[:N_BEST]:
        touche_ndcg, *remaining_scores = (f"{score:.3f}" for score in scores)
        lines.append(f"| {name} | {SYSTEMS[name].description} | {touche_ndcg}{interval} | {' | '.join(remaining_scores)} |")
    return "\n".join(lines) + "\n"


def format_results_table(means_csv: Path, checkpoints: Path) -> str:
    """Format the means of all systems as a Markdown table, sorted by descending nDCG@5 (Touché)."""
    means = _load_means(means_csv)
    first, *remaining_measures = TABLE_MEASURES
    header = ["system", "validation MAP@20", first, "topics", *remaining_measures]
    lines = [f"| {' | '.join(header)} |", "|---" * len(header) + "|"]
    for run, values in means.iterrows():
        name = str(run) if str(run).startswith(PRIMARY_SYSTEM) else parse_system_name(str(run))
        interval = f"{values['ci_low', first]:.2f}–{values['ci_high', first]:.2f}"  # noqa: RUF001 a range
        cells = [f"{values['mean', first]:.3f} ({interval})", f"{values['n_topics', first]:.0f}"]
        cells += [f"{values['mean', measure]:.3f}" for measure in remaining_measures]
        remark = f" ({REMARKS[name]})" if name in REMARKS else ""
        lines.append(f"| {name}{remark} | {_format_validation_map(checkpoints, name)} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _load_means(means_csv: Path) -> pd.DataFrame:
    """Load means with intervals, one row per run, best first; raise InputError if they are missing or malformed."""
    try:
        rows = pd.concat([pd.read_csv(means_csv), *_load_cross_validated_means(means_csv.parent)])
        rows = rows[rows["topic_set"] == ALL_TOPICS]
        means = rows.pivot(index="run", columns="measure", values=["mean", "ci_low", "ci_high", "n_topics"])
        return means.sort_values(("mean", TABLE_MEASURES[0]), ascending=False)
    except (OSError, ValueError, KeyError) as error:
        command = f"`python -m training evaluate --qrels QRELS -o {means_csv.parent} RUN…`"
        raise InputError(f"{means_csv}: cannot read means ({error}); run {command}") from None


def _load_cross_validated_means(directory: Path) -> list[pd.DataFrame]:
    """Load the primary system's cross-validated means as a list of one frame; return an empty list if the file is missing."""
    file = directory / f"{PRIMARY_SYSTEM}_means.csv"
    if not file.exists():
        return []
    rows = pd.read_csv(file)
    means = rows[(rows["run"] == PRIMARY_SYSTEM) & (rows["qrels"] == rows["qrels"].iloc[0])]
    return [means.assign(run=CROSS_VALIDATED_RUN)]


def _format_validation_map(checkpoints: Path, name: str) -> str:
    value = _load_metrics(checkpoints, name).get("validation", {}).get("MAP@20")
    return "" if value is None else f"{value:.1f}"


def _load_metrics(checkpoints: Path, name: str) -> dict[str, Any]:
    """Load the metrics of a system's checkpoint; return an empty dictionary if the checkpoint has none."""
    checkpoint = SYSTEMS[name].stage.checkpoint if name in SYSTEMS else None
    file = checkpoints / (checkpoint or name) / METRICS
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
