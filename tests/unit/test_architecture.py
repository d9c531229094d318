"""Tests that imports respect layers, contain no cycle and stay in a library's places."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

from submission.storage.code_fingerprint import find_module_file
from tests.conftest import ROOT

LAYERS = [  # a package may import from the layers above its own in this list; submission never imports training
    ["submission"],
    ["submission/fusion", "submission/storage", "submission/text"],
    ["submission/data", "submission/engine", "submission/models", "training", "training/data/datasets"],
    ["submission/models/enrichers", "submission/models/rankers", "training/cards", "training/evaluation"],
    ["submission/inference"],
    ["submission/retrieval"],
    ["submission/systems"],
    ["submission/output", "submission/search", "training/data"],
    ["submission's commands", "training/fitting"],
    ["training/fusion", "training/sbert", "training/tuning"],
    ["training/studies/augmented_sbert", "training/tasks"],
    ["training/report", "training/studies/argument_quality"],
    ["training/studies"],
    ["training's commands"],
]
LAYER_BY_PACKAGE = {package: layer for layer, packages in enumerate(LAYERS) for package in packages}
COMMANDS = {"__main__", "cli", "rank", "check", "explain", "environment"}
PLACES = {  # libraries, and the start of the paths that may import them
    "tokenizers": ("submission/text/",),
    "inflect": ("submission/text/",),
    "nltk": ("submission/text/",),
    "transformers": ("training/",),  # slow to import
    "ray": ("submission/engine/ray_engine.py",),  # optional
    "openvino": ("submission/models/openvino_bert.py",),  # optional
    "jinja2": ("submission/search/page.py", "training/"),
    "rich": ("submission/search/", "training/"),
    "training": ("training/",),
}
NOT_IN_RANKERS = {"pandas", "pathlib", "json", "numpy"}  # networks access neither files nor frames
FILES = sorted([*(ROOT / "submission").rglob("*.py"), *(ROOT / "training").rglob("*.py")])


def list_imports(file: Path) -> set[str]:
    """Return the names of the modules that a file imports, including imports inside functions."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            members = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {name for name in members if find_module_file(name)} or {node.module}
    return names


def list_imported_files(file: Path) -> set[Path]:
    """Return the files of this project that a file imports, except the file itself."""
    names = (name for name in list_imports(file) if name.startswith(("submission", "training")))
    return {imported for name in names if (imported := find_module_file(name))} - {file}


def get_package(file: Path) -> str:
    """Return the package of a file as a path; the commands of a program count as one package."""
    path = file.relative_to(ROOT)
    is_command = path.parts[1] == "cli" or (len(path.parts) == 2 and path.stem in COMMANDS)
    return f"{path.parts[0]}'s commands" if is_command else path.parent.as_posix()


def test_packages_import_only_from_lower_layers() -> None:
    assert {get_package(file) for file in FILES} == set(LAYER_BY_PACKAGE)
    imports = {(get_package(file), get_package(imported)) for file in FILES for imported in list_imported_files(file)}
    assert ("submission/systems", "submission/retrieval") in imports
    wrong = {pair for pair in imports if LAYER_BY_PACKAGE[pair[0]] <= LAYER_BY_PACKAGE[pair[1]] and pair[0] != pair[1]}
    assert wrong == set()


def test_modules_have_no_import_cycle() -> None:
    list(TopologicalSorter({file: list_imported_files(file) for file in FILES}).static_order())  # raises CycleError


def test_libraries_are_imported_in_their_places() -> None:
    imports = {(file.relative_to(ROOT).as_posix(), name.split(".")[0]) for file in FILES for name in list_imports(file)}
    assert {library for _, library in imports} >= set(PLACES)
    assert [(path, library) for path, library in imports if not path.startswith(PLACES.get(library, ""))] == []
    rankers = {(path, library) for path, library in imports if path.startswith("submission/models/rankers/")}
    assert [(path, library) for path, library in rankers if library in NOT_IN_RANKERS] == []
