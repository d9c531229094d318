"""What arguments' contexts say they are about."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from submission.errors import InputError
from training.deepct.contexts import topics_of


def write(directory: Path, name: str, contexts: list[Any]) -> Path:
    arguments = [{"id": f"{name}{number}", **context} for number, context in enumerate(contexts)]
    (directory / name).write_text(json.dumps({"arguments": arguments}), encoding="utf-8-sig")
    return directory / name


def test_the_topic_else_the_title_of_the_discussion(tmp_path: Path) -> None:
    both = {"context": {"topic": "Tenure", "discussionTitle": "Teachers"}}
    titled = {"context": {"topic": "", "discussionTitle": "Teachers", "sourceId": "S1"}}
    none = [{"context": {"topic": None}}, {"context": {}}, {"context": None}, {}]
    files = [write(tmp_path, "a", [both, titled]), write(tmp_path, "b", none)]
    assert topics_of(files) == {"a0": "Tenure", "a1": "Teachers", "b0": "", "b1": "", "b2": "", "b3": ""}


@pytest.mark.parametrize(("context", "words"), [({"topic": 3}, "Expected `str | null`, got `int`"), ("x", "got `str`")])
def test_a_context_of_another_form(tmp_path: Path, context: Any, words: str) -> None:
    file = write(tmp_path, "a", [{}, {"context": context}])
    with pytest.raises(InputError) as raised:
        topics_of([file])
    assert str(raised.value).startswith(f"{file}: ")
    assert words in str(raised.value)
    assert "$.arguments[1].context" in str(raised.value)
