"""Tests that the imports between packages match a table, and that modules do not import each other in cycles."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.conftest import ROOT

# Packages in topological order, and the packages that they import.
ALLOWED: dict[str, set[str]] = {
    "submission": set(),
    "submission/fusion": {"submission"},
    "submission/storage": {"submission"},
    "submission/text": {"submission"},
    "submission/data": {"submission", "submission/storage"},
    "submission/engine": {"submission", "submission/storage"},
    "training": {"submission", "submission/storage"},
    "submission/models": {"submission/text"},
    "training/data/datasets": {"submission", "submission/storage", "submission/text"},
    "training/cards": {"training"},
    "training/evaluation": {"submission", "submission/data", "submission/storage", "submission/text", "training"},
    "submission/models/enrichers": {"submission", "submission/models", "submission/text"},
    "submission/models/rankers": {"submission", "submission/models", "submission/text"},
    "submission/inference": {
        "submission", "submission/engine", "submission/models", "submission/models/enrichers",
        "submission/models/rankers", "submission/storage", "submission/text",
    },
    "submission/retrieval": {
        "submission", "submission/engine", "submission/inference", "submission/models", "submission/storage",
        "submission/text",
    },
    "submission/systems": {
        "submission", "submission/data", "submission/engine", "submission/fusion", "submission/inference",
        "submission/models", "submission/retrieval", "submission/storage",
    },
    "submission/output": {"submission", "submission/storage", "submission/systems"},
    "submission/search": {
        "submission", "submission/data", "submission/inference", "submission/models", "submission/retrieval",
        "submission/storage", "submission/systems", "submission/text",
    },
    "training/data": {
        "submission", "submission/data", "submission/inference", "submission/models", "submission/retrieval", "submission/storage",
        "submission/systems", "submission/text", "training", "training/data/datasets", "training/evaluation",
    },
    "submission's commands": {
        "submission", "submission/data", "submission/engine", "submission/inference", "submission/output",
        "submission/search", "submission/storage", "submission/systems", "submission/text",
    },
    "training/fitting": {
        "submission", "submission/inference", "submission/models", "submission/models/enrichers",
        "submission/models/rankers", "submission/storage", "submission/text", "training", "training/cards",
        "training/data", "training/evaluation",
    },
    "training/fusion": {
        "submission", "submission/fusion", "submission/inference", "submission/storage",
        "submission/systems", "training", "training/cards", "training/data", "training/evaluation", "training/fitting",
    },
    "training/sbert": {
        "submission/inference", "submission/retrieval", "submission/storage", "submission/text", "training",
        "training/data", "training/fitting",
    },
    "training/tuning": {
        "submission", "submission/fusion", "submission/inference", "submission/retrieval",
        "submission/storage", "submission/systems", "submission/text", "training", "training/cards", "training/data",
        "training/data/datasets", "training/evaluation", "training/fitting",
    },
    "training/studies/augmented_sbert": {
        "submission", "submission/inference", "submission/retrieval", "submission/storage", "training",
        "training/data/datasets", "training/fitting", "training/sbert",
    },
    "training/tasks": {
        "submission", "submission/data", "submission/inference", "submission/models", "submission/models/enrichers",
        "submission/storage", "submission/text", "training", "training/cards", "training/data",
        "training/data/datasets", "training/evaluation", "training/fitting", "training/sbert",
    },
    "training/studies": {
        "submission", "submission/inference", "submission/retrieval", "submission/systems",
        "training/evaluation", "training/tuning",
    },
    "training/report": {
        "submission", "submission/data", "submission/models", "submission/output", "submission/storage",
        "submission/systems", "submission/text", "training", "training/evaluation", "training/fitting",
        "training/tasks",
    },
    "training/studies/argument_quality": {
        "submission", "submission/inference", "submission/models", "submission/retrieval", "submission/storage",
        "training", "training/data", "training/evaluation", "training/fitting", "training/tasks",
        "training/tuning",
    },
    "training's commands": {
        "submission", "submission's commands", "submission/data", "submission/inference", "submission/models",
        "submission/storage", "submission/systems", "training", "training/data",
        "training/evaluation", "training/fitting", "training/fusion", "training/report", "training/sbert", "training/studies",
        "training/studies/argument_quality", "training/studies/augmented_sbert", "training/tasks", "training/tuning",
    },
}  # fmt: skip
COMMANDS = {"__main__", "cli", "rank", "check", "explain", "environment"}
FILES = sorted([*(ROOT / "submission").rglob("*.py"), *(ROOT / "training").rglob("*.py")])


def imported_modules(file: Path) -> set[str]:
    """Return the modules that a file imports, also inside functions."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            members = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {name for name in members if module_file(name)} or {node.module}
    return names


def module_file(module: str) -> Path | None:
    """Return the file of a module of this project, or None for other modules."""
    path = ROOT / module.replace(".", "/")
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.exists()), None)


def imported_files(file: Path) -> set[Path]:
    """Return this project's files that a file imports."""
    names = (name for name in imported_modules(file) if name.startswith(("submission", "training")))
    return {imported for name in names if (imported := module_file(name))}


def package(file: Path) -> str:
    """Return the package of a file; the commands of a program count as one package."""
    path = file.relative_to(ROOT)
    is_command = path.parts[1] == "cli" or (len(path.parts) == 2 and path.stem in COMMANDS)
    return f"{path.parts[0]}'s commands" if is_command else path.parent.as_posix()


def test_import_table_covers_all_packages() -> None:
    assert len(FILES) > 80
    assert ROOT / "submission/text/vocabulary.py" in imported_files(ROOT / "submission/text/tokenisers.py")
    assert {package(file) for file in FILES} == set(ALLOWED)


def test_packages_have_no_import_cycle() -> None:
    assert len(list(TopologicalSorter(ALLOWED).static_order())) == len(ALLOWED)  # raises CycleError


def test_imports_between_packages() -> None:
    imports: dict[str, set[str]] = {name: set() for name in ALLOWED}
    for file in FILES:
        imports[package(file)] |= {package(imported) for imported in imported_files(file)}
    assert {name: packages - {name} for name, packages in imports.items()} == ALLOWED


def test_modules_have_no_import_cycle() -> None:
    list(TopologicalSorter({file: imported_files(file) - {file} for file in FILES}).static_order())  # raises CycleError


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_libraries_are_imported_in_one_place(file: Path) -> None:
    path = file.relative_to(ROOT)
    libraries = {name.split(".")[0] for name in imported_modules(file)}
    if path.parent.as_posix() == "submission/models/rankers":  # networks access neither files nor frames
        assert not libraries & {"pandas", "pathlib", "json", "numpy"}
    if path.parent.as_posix() != "submission/text":
        assert not libraries & {"tokenizers", "inflect", "nltk"}
    if path.as_posix() != "submission/engine/ray_engine.py":  # optional
        assert "ray" not in libraries
    if path.parts[0] == "submission":
        assert "training" not in libraries
        assert "jinja2" not in libraries or path.as_posix() == "submission/search/page.py"
        assert "rich" not in libraries or path.parent.as_posix() == "submission/search"
