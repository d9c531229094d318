"""Read configurations, which are TOML files: recipes, grids, fusions and plans of trials."""

import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_type_hints

import msgspec

from aragorn.errors import UsageError, abbreviate, describe_read_error, suggest
from aragorn.storage.atomic_files import read_regular

T = TypeVar("T")
Kind = Literal["recipe", "grid", "fusion", "plan"]

CONFIGS = Path(__file__).resolve().parent / "configs"


def list_names(kind: Kind) -> list[str]:
    """Return the names of the shipped configurations of a kind, sorted."""
    return sorted(file.stem for file in (CONFIGS / f"{kind}s").glob("*.toml"))


def find(kind: Kind, name: str, directory: Path | None = None) -> Path:
    """Return NAME if it ends in .toml, else the path of NAME.toml in `directory` or as shipped."""
    if name.endswith(".toml"):
        return Path(name)
    file = f"{name}.toml"
    if directory and (directory / file).is_file():
        return directory / file
    return CONFIGS / f"{kind}s" / file


def read(kind: Kind, name: str) -> tuple[Path, dict[str, Any]]:
    """Read a configuration, see `find`, and return its path and values; raise UsageError if it is
    missing or no TOML."""
    path = find(kind, name)
    try:
        return path, tomllib.loads(read_regular(path).decode())
    except FileNotFoundError:
        hint = suggest(name, list_names(kind))
        raise UsageError(f"unknown {kind} '{abbreviate(name)}'; {hint}") from None
    except RecursionError:
        raise UsageError(f"{path}: nested too deeply; correct the {kind}") from None
    except OSError as error:
        raise UsageError(f"{path}: {describe_read_error(error)}") from None
    except ValueError as error:
        raise UsageError(f"{path}: cannot be read as TOML ({error}); correct the {kind}") from None


def convert(
    path: Path,
    values: Mapping[str, Any],
    struct: type[T],
    table: str = "",
    other_keys: Collection[str] = (),
) -> T:
    """Convert values that were read from `path` to a msgspec struct.

    `table` is the name of the table that contains the values; `other_keys` are valid ones that
    `values` no longer has, to suggest them for unknown ones. Raises UsageError with file and key if
    a key is unknown or a value is invalid.
    """
    with locate_errors(path):
        _check_keys(f"{table}." if table else "", values, struct, other_keys)
        try:
            return msgspec.convert(values, struct)
        except msgspec.ValidationError as error:
            raise ValueError(str(error).replace("`$", f"`$.{table}") if table else error) from None


@contextmanager
def locate_errors(path: Path) -> Iterator[None]:
    """Convert a ValueError to a UsageError that begins with file and, if from msgspec, key."""
    try:
        yield
    except ValueError as error:
        cause = re.sub(r"(.+) - at `\$\.(.+)`", r"\2: \1", str(error))
        raise UsageError(f"{path}: {cause}") from None


def _check_keys(prefix: str, values: object, struct: Any, other_keys: Collection[str] = ()) -> None:
    """Raise ValueError if `values`, or a table in it, is no table or has an unknown key."""
    if not isinstance(values, Mapping):
        raise ValueError(f"{prefix.rstrip('.')} must be a table")
    types = _list_key_types(struct)
    for key, value in values.items():
        if key not in types:
            raise ValueError(f"unknown key {prefix}{key}; {suggest(key, {*types, *other_keys})}")
        tables = [
            table for table in get_args(types[key]) or (types[key],) if _list_key_types(table)
        ]
        # X or `X | None`; msgspec checks the keys of a union of tables
        if len(tables) == 1 and value is not None:
            _check_keys(f"{prefix}{key}.", value, tables[0])


@cache
def _list_key_types(struct: Any) -> dict[str, Any]:
    """Return the types of a struct's or dataclass's fields by key; empty for other types."""
    if hasattr(struct, "__struct_fields__"):
        return {field.encode_name: field.type for field in msgspec.structs.fields(struct)}
    if not hasattr(struct, "__dataclass_fields__"):
        return {}
    hints = get_type_hints(struct)
    return {name: hints[name] for name in struct.__dataclass_fields__}
