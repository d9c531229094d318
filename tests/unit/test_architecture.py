"""Who may import whom: folders by one table, files without a circle."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from submission.models.rankers import SHARED
from tests.conftest import ROOT

# Each folder with those that it imports, and no others; a folder stands below those that import it.
ALLOWED: dict[str, set[str]] = {
    "submission": set(),  # errors, paths, logs, progress, stopwatch, lists
    "submission/storage": {"submission"},
    "submission/text": {"submission"},
    "submission/data": {"submission", "submission/storage"},
    "submission/models/rankers": {"submission", "submission/text"},
    "submission/engine": {"submission", "submission/storage"},
    "submission/inference": {"submission", "submission/storage", "submission/engine", "submission/models/rankers", "submission/text"},
    "submission/retrieval": {
        "submission", "submission/storage", "submission/engine", "submission/models/rankers", "submission/inference", "submission/text",
    },
    "submission/models/enrichers": {
        "submission", "submission/storage", "submission/engine", "submission/models/rankers", "submission/inference", "submission/text",
    },
    "submission/fusion": {"submission"},
    "submission/systems": {
        "submission", "submission/storage", "submission/engine", "submission/models/enrichers", "submission/fusion",
        "submission/data", "submission/models/rankers", "submission/retrieval", "submission/inference",
    },
    "submission/output": {"submission", "submission/storage", "submission/data", "submission/systems"},
    "submission/search": {
        "submission", "submission/storage", "submission/models/enrichers", "submission/data", "submission/retrieval",
        "submission/inference", "submission/systems", "submission/text",
    },
    "submission's commands": {
        "submission", "submission/storage", "submission/engine", "submission/models/enrichers", "submission/data",
        "submission/output", "submission/inference", "submission/search", "submission/systems",
    },
    "training": {"submission", "submission/storage"},  # experiment, figures, paths, pictures, side_by_side
    "training/cards": {"training"},
    "training/data": {
        "submission", "submission/storage", "submission/data", "submission/retrieval", "submission/inference",
        "submission/text", "training",
    },
    "training/fitting": {
        "submission", "submission/storage", "submission/models/enrichers", "submission/models/rankers", "submission/inference",
        "submission/text", "training", "training/cards", "training/data",
    },
    "training/results/deepct.md": {"submission", "submission/storage", "submission/data", "submission/text", "training/data"},
    "training/quality": {
        "submission", "submission/storage", "submission/models/rankers", "submission/inference", "submission/text", "training/data",
        "training/fitting",
    },
    "training/results/targer.md": {
        "submission", "submission/storage", "submission/models/enrichers", "submission/retrieval", "submission/inference",
        "submission/systems", "submission/text", "training/data",
    },
    "training/results/distillation.md": {
        "submission", "submission/storage", "submission/data", "submission/systems", "submission/text", "training/data",
        "training/quality",
    },
    "training/studies/augmented_sbert": {
        "submission", "submission/storage", "submission/retrieval", "submission/inference", "submission/text", "training",
        "training/data", "training/fitting",
    },
    "training/tasks": {
        "submission", "submission/storage", "submission/models/enrichers", "submission/data", "submission/models/rankers",
        "submission/inference", "submission/text", "training", "training/studies/augmented_sbert", "training/cards", "training/data",
        "training/results/deepct.md", "training/results/distillation.md", "training/fitting", "training/quality", "training/results/targer.md",
    },
    "training/evaluation": {
        "submission", "submission/storage", "submission/models/enrichers", "submission/data", "submission/output",
        "submission/systems", "submission/text", "training", "training/fitting", "training/tasks",
    },
    "training/fusion": {
        "submission", "submission/storage", "submission/fusion", "submission/inference", "submission/systems", "training",
        "training/cards", "training/data", "training/fitting", "training/evaluation",
    },
    "training/studies": {"training", "training/studies/augmented_sbert", "training/fitting"},
    "training/studies/argument_quality": {
        "submission", "submission/storage", "submission/fusion", "submission/data", "submission/models/rankers",
        "submission/retrieval", "submission/inference", "submission/systems", "submission/text", "training",
        "training/cards", "training/fitting", "training/evaluation", "training/quality", "training/tasks",
    },
    "training's commands": {
        "submission", "submission's commands", "submission/storage", "submission/fusion", "submission/data", "submission/models/rankers",
        "submission/retrieval", "submission/inference", "submission/systems", "training", "training/studies/augmented_sbert",
        "training/cards", "training/data", "training/results/deepct.md", "training/results/distillation.md", "training/fitting",
        "training/fusion", "training/evaluation", "training/quality", "training/studies",
        "training/studies/argument_quality",
        "training/results/targer.md", "training/tasks",
    },
}  # fmt: skip
COMMANDS = {
    "__main__", "command", "rank", "check", "explain", "environment", "enrichments", "fuse", "jobs", "reproduce", "tune",
}  # fmt: skip
FILES = sorted([*(ROOT / "submission").rglob("*.py"), *(ROOT / "training").rglob("*.py")])


def imports(file: Path) -> set[str]:
    """All modules that a file imports, also within functions; of ours those of single files."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            within = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {name for name in within if source(name)} or {node.module}
    return names


def source(module: str) -> Path | None:
    """The file of one of our modules."""
    path = ROOT / module.replace(".", "/")
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.exists()), None)


def ours(file: Path) -> set[Path]:
    return {found for name in imports(file) if name.startswith(("submission", "training")) and (found := source(name))}


def folder(file: Path) -> str:
    place = file.relative_to(ROOT)
    command = place.parts[1] == "commands" or (len(place.parts) == 2 and place.stem in COMMANDS)
    return f"{place.parts[0]}'s commands" if command else place.parent.as_posix()


def test_there_is_something_to_check() -> None:
    assert len(FILES) > 80
    assert ROOT / "submission/text/token_ids.py" in ours(ROOT / "submission/text/tokenisers.py")
    assert {folder(file) for file in FILES} == set(ALLOWED)


def test_folders_stand_upon_each_other() -> None:
    assert len(list(TopologicalSorter(ALLOWED).static_order())) == len(ALLOWED)  # it raises CycleError


def test_arrows_between_folders() -> None:
    found: dict[str, set[str]] = {name: set() for name in ALLOWED}
    for file in FILES:
        found.setdefault(folder(file), set()).update(folder(other) for other in ours(file))
    assert {name: arrows - {name} for name, arrows in found.items()} == ALLOWED


def test_no_circle_of_files() -> None:
    list(TopologicalSorter({file: ours(file) - {file} for file in FILES}).static_order())  # it raises CycleError


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_who_touches_what(file: Path) -> None:
    found, place = imports(file), file.relative_to(ROOT)
    packages = {name.split(".")[0] for name in found}
    if place.parent.as_posix() == "submission/models/rankers" and place.name != "__init__.py":
        shared = {ROOT / "submission" / "rankers" / f"{name}.py" for name in SHARED}
        assert ours(file) <= {ROOT / "submission" / "text" / "ids.py", *shared}
        assert not packages & {"pandas", "pathlib", "json", "numpy"}
    if place.parent.as_posix() != "submission/text":
        assert not packages & {"tokenizers", "inflect", "nltk"}
    if place.as_posix() != "submission/engine/ray_engine.py":  # no requirement
        assert "ray" not in packages
    if place.parts[0] == "submission":
        assert "training" not in packages
