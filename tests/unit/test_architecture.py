"""Who may import whom."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from submission.rankers import SHARED
from tests.conftest import ROOT

FILES = sorted([*(ROOT / "submission").rglob("*.py"), *(ROOT / "training").rglob("*.py")])


def imports(file: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


def test_there_is_something_to_check() -> None:
    assert len(FILES) > 30
    assert "submission.text" in imports(ROOT / "submission" / "encoding.py")


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_arrows(file: Path) -> None:
    found = imports(file)
    place = file.relative_to(ROOT)
    if place.parts[0] == "submission":
        assert not {name for name in found if name.split(".")[0] == "training"}
    if place.parts[:2] == ("submission", "rankers") and place.name != "__init__.py":
        own = {name for name in found if name.split(".")[0] == "submission"}
        assert own <= {"submission.ids", *(f"submission.rankers.{shared}" for shared in SHARED)}
        assert not found & {"pandas", "pathlib", "json", "nltk", "transformers.tokenization_utils"}
    if place.name not in ("text.py", "encoding.py"):
        assert not {name for name in found if name.split(".")[0] == "nltk"}
