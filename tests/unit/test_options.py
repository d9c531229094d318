"""Tests of options as fields of dataclasses, and of the parser that they make."""

import argparse
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from aragorn.__main__ import main
from aragorn.options import add_arguments, argument, build_options, integer_between, option
from aragorn.verbs import COMMANDS


@dataclass(frozen=True)
class Shared:
    """Options of several verbs."""

    inputs: tuple[Path, ...] = option(
        (Path("sample"),), "-i", "--input", help="input", variables=("FIRST", "SECOND")
    )


@dataclass(frozen=True)
class Toy(Shared):
    """Options of one verb."""

    name: str = option(help="name, 100 % required")
    query: str | None = argument("text", default=None)
    order: Literal["rank", "score"] = option("rank", help="order")
    depth: int = option(5, parse=integer_between(1, 9), help="depth")
    serve: int | None = option(None, nargs="?", const=8040, help="port")
    force: bool = option(False, help="whether")
    rest: str = "no option"


def parse(*words):
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_arguments(parser, Toy)
    args = parser.parse_args(words)
    args.rest = "taken by name"
    return build_options(Toy, args)


def make(**values):
    """Return the options of `--name x`, except `values`."""
    return Toy(**{"name": "x", "rest": "taken by name"} | values)


@pytest.mark.parametrize(
    ("words", "values"),
    [
        ("", {}),
        ("-i a --input b", {"inputs": (Path("a"), Path("b"))}),
        ("zoos --order score", {"query": "zoos", "order": "score"}),
        ("--depth 9 --force", {"depth": 9, "force": True}),
        ("--serve", {"serve": 8040}),
        ("--serve 0", {"serve": 0}),
    ],
)
def test_values_of_options(words, values):
    assert parse("--name", "x", *words.split()) == make(**values)


def test_first_variable_that_is_not_empty_replaces_the_default(monkeypatch):
    monkeypatch.setenv("FIRST", "")
    assert parse("--name", "x") == make()
    monkeypatch.setenv("SECOND", "second")
    assert parse("--name", "x") == make(inputs=(Path("second"),))
    assert parse("--name", "x", "-i", "a") == make(inputs=(Path("a"),))
    monkeypatch.setenv("FIRST", "first")
    assert parse("--name", "x") == make(inputs=(Path("first"),))


@pytest.mark.parametrize(
    "words", ["", "--name x --depth 10", "--name x --order best", "--name x -i ''"]
)
def test_invalid_values_are_refused(words):
    with pytest.raises((argparse.ArgumentError, SystemExit)):
        parse(*(word.strip("'") for word in words.split()))


def test_help_lists_all_verbs_with_a_line_each(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    text = " ".join(capsys.readouterr().out.split())
    for name, (_, options) in COMMANDS.items():
        description = options.__doc__.rstrip(".")
        assert f" {name} {description[0].lower()}{description[1:]}" in text
    with pytest.raises(SystemExit):
        main(["rank", "--hel"])  # no abbreviations
    assert "unrecognized arguments: --hel" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["", *COMMANDS])
def test_help_imports_no_libraries(verb):
    script = """
import atexit, sys
atexit.register(lambda: print(sorted({name.split(".")[0] for name in sys.modules})))
from aragorn.__main__ import main
main(sys.argv[1:])
"""
    command = [sys.executable, "-c", script, *verb.split(), "--help"]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    packages = {*eval(process.stdout.splitlines()[-1])} - sys.stdlib_module_names
    actual = {name for name in packages if not name.startswith("_")} - {"sitecustomize"}
    assert actual == {"aragorn"}
