"""Update the generated sections of the READMEs from the catalogue, result tables and checkpoint
metrics."""

from pathlib import Path

from aragorn.errors import InputError
from aragorn.paths import CHECKPOINT_DIR, PROJECT_DIR
from aragorn.storage.atomic_files import write_atomic
from aragorn.systems.catalogue import SYSTEMS
from aragorn.systems.execution import CheckpointStore, iter_components

from aragorn_training.paths import RESULTS
from aragorn_training.report.experiments import (
    format_collection_table,
    format_deepct_table,
    format_enrichments_table,
    format_fusion_table,
    format_step_seconds,
    format_students_table,
    format_trials_table,
)
from aragorn_training.report.system_table import format_best_table, format_results_tables

SECTION_FILES = {  # file of each generated section
    "best": "README.md",
    "commands": "submission/README.md",
    "systems": "submission/aragorn/systems/README.md",
    "collection": "training/README.md",
    "steps": "training/README.md",
    "results": "training/results/README.md",
    "fusion": "training/aragorn_training/studies/README.md",
    "trials": "training/aragorn_training/studies/README.md",
    "enrichments": "training/aragorn_training/studies/README.md",
    "deepct": "training/aragorn_training/studies/README.md",
    "students": "training/aragorn_training/studies/README.md",
}


def update_readmes(
    results: Path = RESULTS, checkpoints: Path = CHECKPOINT_DIR, root: Path = PROJECT_DIR
) -> None:
    """Update all generated sections of the READMEs below `root`.

    Raises:
        InputError: If results are missing or malformed, or a section marker is missing.
        OutputError: If a README cannot be written.
    """
    contents = {
        "best": format_best_table(results), "commands": format_system_names(checkpoints), "systems": format_systems_table(),
        "results": format_results_tables(results), "trials": format_trials_table(), "deepct": format_deepct_table(),
        "collection": format_collection_table(), "fusion": format_fusion_table(),
        "enrichments": format_enrichments_table(), "students": format_students_table(), "steps": format_step_seconds(),
    }  # fmt: skip
    for name, content in contents.items():
        replace_section(root / SECTION_FILES[name], name, content)


def replace_section(readme: Path, name: str, content: str) -> None:
    """Replace the text between a section's markers; raise InputError unless each marker occurs
    once."""
    text, begin, end = (
        readme.read_text(encoding="utf-8"),
        f"<!-- {name}: generated -->",
        f"<!-- end of {name} -->",
    )
    if text.count(begin) != 1 or text.count(end) != 1:
        raise InputError(
            f"{readme}: a marker is missing or duplicate; restore {begin} and {end}, once each"
        )
    before, after = text.split(begin)[0], text.split(end)[1]
    write_atomic(readme, f"{before}{begin}\n\n{content}\n{end}{after}")


def format_system_names(checkpoints: Path) -> str:
    """Format the names of the systems whose checkpoints all exist in `checkpoints` in one line."""
    available_names = [
        name
        for name, system in SYSTEMS.items()
        if not system.stage.find_missing_checkpoints(CheckpointStore(checkpoints))
    ]
    return f"`SYSTEM`: {', '.join(f'`{name}`' for name in available_names)}.\n"


def format_systems_table() -> str:
    """Format the systems of the catalogue, with descriptions and checkpoint names, as a Markdown
    table."""
    lines = ["| system | description | checkpoints |", "|---|---|---|"]
    for system in SYSTEMS.values():
        checkpoints = dict.fromkeys(
            part.checkpoint for part in iter_components(system.stage) if part.checkpoint
        )
        lines.append(f"| {system.name} | {system.description} | {', '.join(checkpoints)} |")
    return "\n".join(lines) + "\n"
