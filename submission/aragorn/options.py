"""Declare options and positional arguments as fields of dataclasses, and add them to a parser.

Imports no library, so that `--help` is fast.
"""

import argparse
import os
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, field, fields
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from aragorn.errors import abbreviate


def argument(help: str, *, default: Any = MISSING, metavar: str = "NAME", **settings: Any) -> Any:
    """Return the field of a positional argument, see `option`; a tuple takes several."""
    metadata = {"help": help, "metavar": metavar, "flags": (), **settings}
    return field(default=default, metadata=metadata, kw_only=True)


def option(
    default: Any = MISSING,
    *flags: str,
    help: str,
    metavar: str | tuple[str, ...] | None = None,
    parse: Callable[[str], Any] | None = None,
    variables: Sequence[str] = (),
    **settings: Any,
) -> Any:
    """Return the field of an option.

    Args:
        default: Default; without one, the option is mandatory.
        flags: Names; by default that of the field.
        help: Description: a noun phrase.
        metavar: Placeholder of the value; by default that of the field's type.
        parse: Parser of a value; by default that of the type: a path, an integer from 0, a text,
            one of a Literal. A tuple is a repeatable option.
        variables: Environment variables; the first that is not empty is the default.
        settings: Further arguments of `add_argument`.
    """
    metadata = {
        "help": help,
        "metavar": metavar,
        "flags": flags or None,
        "type": parse,
        "variables": variables,
        **settings,
    }
    return field(default=default, metadata=metadata, kw_only=True)


def add_arguments(parser: argparse.ArgumentParser, options_type: type[Any]) -> None:
    hints = get_type_hints(options_type)
    for item in fields(options_type):
        if not item.metadata:
            continue
        settings = dict(item.metadata)
        settings["help"] = settings["help"].replace("%", "%%")
        settings.pop("variables", None)
        flags = settings.pop("flags")
        kind, is_repeatable = _simplify(hints[item.name])
        default = _get_default(item, kind, is_repeatable)
        if flags == ():
            names = [item.name]
            if is_repeatable:
                settings["nargs"] = "+" if default is MISSING else "*"
            elif default is not MISSING:
                settings["nargs"] = "?"
        else:
            names = [*(flags or [f"--{item.name.replace('_', '-')}"])]
            settings["dest"] = item.name
            settings["required"] = default is MISSING
            if is_repeatable:
                settings.setdefault("action", "append")
        if default is MISSING:
            default = None
        if is_repeatable:  # a default would be extended, not replaced
            if default and "(default" not in settings["help"]:
                text = ", ".join(map(str, default)).replace("%", "%%")
                settings["help"] += f" (default: {text})"
            default = None
        if kind is bool:
            settings["action"] = "store_true"
            settings.pop("type")
            settings.pop("metavar")
        elif get_origin(kind) is Literal or "choices" in settings:
            settings.setdefault("choices", get_args(kind))
            settings.pop("metavar", None)
        else:
            metavar = {Path: "DIR", int: "N"}.get(kind, "NAME")
            settings["type"] = settings.get("type") or _get_parser(kind)
            settings["metavar"] = settings.get("metavar") or metavar
        parser.add_argument(*names, default=default, **settings)


def build_options(options_type: type[Any], args: argparse.Namespace) -> Any:
    """Build a dataclass of options from parsed arguments; other fields are taken by name."""
    hints = get_type_hints(options_type)
    values = {}
    for item in fields(options_type):
        value = getattr(args, item.name)
        if value is None and item.metadata:
            default = _get_default(item, *_simplify(hints[item.name]))
            value = None if default is MISSING else default
        values[item.name] = tuple(value) if isinstance(value, list) else value
    return options_type(**values)


def _get_default(item: Field[Any], kind: Any, is_repeatable: bool) -> Any:
    """Return the first environment variable that is not empty, else the default or MISSING."""
    texts = filter(None, map(os.environ.get, item.metadata.get("variables", ())))
    if text := next(texts, None):
        parse = item.metadata["type"] or _get_parser(kind)
        return (parse(text),) if is_repeatable else parse(text)
    return item.default


def _get_parser(kind: type) -> Callable[[str], Any]:
    return {Path: parse_path, int: non_negative_int}.get(kind, kind)


def _simplify(hint: Any) -> tuple[Any, bool]:
    """Return the type of a single value, without None, and whether there may be several."""
    if get_origin(hint) in (Union, UnionType):
        [hint] = [part for part in get_args(hint) if part is not NoneType]
    is_repeatable = get_origin(hint) is tuple and get_args(hint)[-1] is ...
    return (get_args(hint)[0] if is_repeatable else hint), is_repeatable


def parse_path(text: str) -> Path:
    """Parse a path; raise ArgumentTypeError if it is empty or has a null character."""
    if not text.strip() or "\0" in text:
        raise argparse.ArgumentTypeError(
            f"'{abbreviate(text)}': expected a non-empty path without null characters"
        )
    return Path(text)


def integer_between(minimum: int, maximum: int) -> Callable[[str], int]:
    """Return a parser of integers from `minimum` to `maximum`, else ArgumentTypeError."""

    def parse(text: str) -> int:
        if (
            not text.isdecimal()
            or len(text) > len(str(maximum))
            or not minimum <= int(text) <= maximum
        ):
            raise argparse.ArgumentTypeError(
                f"'{abbreviate(text)}': expected an integer from {minimum} to {maximum}"
            )
        return int(text)

    return parse


non_negative_int = integer_between(0, 2**32 - 1)
