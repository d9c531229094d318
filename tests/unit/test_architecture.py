"""Tests that imports respect layers, contain no cycle and stay in a library's places."""

import ast
from functools import cache
from graphlib import TopologicalSorter

from tests.conftest import ROOT

SOURCE_DIRS = {"aragorn": ROOT / "submission", "aragorn_training": ROOT / "training"}
# a package may import from the layers above its own; aragorn never imports aragorn_training
LAYERS = """
aragorn
aragorn/storage, aragorn/text
aragorn/io, aragorn/engine, aragorn/models, aragorn_training, aragorn_training/data/datasets
aragorn/models/taggers, aragorn/models/rankers, aragorn_training/cards, aragorn_training/evaluation, aragorn_training/options
aragorn/inference, aragorn/verbs
aragorn/index
aragorn/pipeline
aragorn/systems
aragorn/search, aragorn_training/data
aragorn's commands, aragorn_training/fitting
aragorn_training/fusion, aragorn_training/sbert, aragorn_training/tuning
aragorn_training/studies/augmented_sbert, aragorn_training/tasks
aragorn_training/report, aragorn_training/studies/argument_quality
aragorn_training/studies/results
aragorn_training/studies
aragorn_training's commands
"""
LAYER_BY_PACKAGE = {
    package: layer
    for layer, line in enumerate(LAYERS.strip().splitlines())
    for package in line.split(", ")
}
STORAGE = {"cache", "versions"}  # modules in the layer of the package storage
# or front ends
COMMANDS = {"__main__", "cli", "commands", "rank", "check", "explain", "ir_metadata", "pyterrier"}
IMPORTERS = {  # libraries, and the start of the paths that may import them
    "tokenizers": ("aragorn/text/",),
    "inflect": ("aragorn/text/",),
    "transformers": ("aragorn_training/",),  # slow to import
    "ray": ("aragorn/engine/ray_engine.py",),  # optional
    "openvino": ("aragorn/models/openvino_bert.py",),  # optional
    "pyterrier": ("aragorn/pyterrier.py",),  # optional
    "ir_datasets": ("aragorn/io/irds.py",),  # optional
    "jinja2": ("aragorn/search/page.py", "aragorn_training/"),
    "rich": ("aragorn/search/", "aragorn_training/"),
    "aragorn_training": ("aragorn_training/",),
}
NOT_IN_RANKERS = {"pandas", "pathlib", "json", "numpy"}  # networks access neither files nor frames
FILES = sorted(file for source in SOURCE_DIRS.values() for file in source.rglob("*/**/*.py"))
TYPE_CHECKING = "if TYPE_CHECKING:"
FRONT = SOURCE_DIRS["aragorn"] / "aragorn" / "__init__.py"  # offers `aragorn.search` on first use


def find_module_file(module):
    """Return the file of a project module from its dotted name; None for other modules."""
    package, *names = module.split(".")
    if package not in SOURCE_DIRS:
        return None
    stem = SOURCE_DIRS[package].joinpath(package, *names)
    files = (stem.with_suffix(".py"), stem / "__init__.py")
    return next((file for file in files if file.is_file()), None)


@cache
def list_imports(file, runtime_only=False):
    """Return the names of the modules that a file imports, including imports inside functions;
    `runtime_only` omits those for the type checker."""
    names = set()
    tree = ast.parse(file.read_text(encoding="utf-8"))
    if runtime_only:
        tree.body = [node for node in tree.body if not ast.unparse(node).startswith(TYPE_CHECKING)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            members = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {name for name in members if find_module_file(name)} or {node.module}
    return names


def list_imported_files(file, runtime_only=False):
    """Return the files of this project that another one imports; none for FRONT."""
    if file == FRONT:
        return set()
    names = (
        name for name in list_imports(file, runtime_only) if name.startswith(tuple(SOURCE_DIRS))
    )
    return {imported for name in names if (imported := find_module_file(name))} - {file}


def get_path(file):
    """Return the path of a file from the directory that contains its package."""
    return next(
        file.relative_to(source) for source in SOURCE_DIRS.values() if file.is_relative_to(source)
    )


def get_package(file):
    """Return the package of a file as a path; the commands of a program count as one package."""
    path = get_path(file)
    if len(path.parts) == 2 and path.stem in STORAGE:
        return f"{path.parts[0]}/storage"
    if path.as_posix() in ("aragorn/verbs.py", "aragorn_training/options.py"):
        return path.with_suffix("").as_posix()
    is_command = path.parts[1] == "commands" or (len(path.parts) == 2 and path.stem in COMMANDS)
    return f"{path.parts[0]}'s commands" if is_command else path.parent.as_posix()


def test_packages_import_only_from_lower_layers():
    assert {get_package(file) for file in FILES} == set(LAYER_BY_PACKAGE)
    imports = {
        (get_package(file), get_package(imported))
        for file in FILES
        for imported in list_imported_files(file)
    }
    assert ("aragorn/systems", "aragorn/index") in imports
    wrong = {
        pair
        for pair in imports
        if LAYER_BY_PACKAGE[pair[0]] <= LAYER_BY_PACKAGE[pair[1]] and pair[0] != pair[1]
    }
    assert wrong == set()


def test_modules_have_no_import_cycle():
    # raises CycleError
    list(TopologicalSorter({file: list_imported_files(file) for file in FILES}).static_order())


def test_libraries_are_imported_in_their_places():
    pairs = ((get_path(file).as_posix(), name) for file in FILES for name in list_imports(file))
    imports = {(path, name.split(".")[0]) for path, name in pairs}
    assert {library for _, library in imports} >= set(IMPORTERS)
    wrong = [pair for pair in imports if not pair[0].startswith(IMPORTERS.get(pair[1], ""))]
    assert wrong == []
    rankers = {
        (path, library) for path, library in imports if path.startswith("aragorn/models/rankers/")
    }
    assert [(path, library) for path, library in rankers if library in NOT_IN_RANKERS] == []
