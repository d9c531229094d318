from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from submission.search.shades import LEVELS, Shade, shades
from submission.systems.catalogue import SYSTEMS
from submission.systems.execution import Execution
from tests.conftest import SAMPLE

Execute = Callable[..., Execution]
DOCNO = "S89c1bfbf-A23fa7870"


def shown(execution: Execution, docno: str, found: list[Shade]) -> list[tuple[str, str]]:
    [premise] = execution.documents.texts({docno})["premise"]
    return [(premise[shade.start : shade.end], shade.kind) for shade in found]


def test_targer_sees_claims_and_premises_as_they_are_indexed(execute: Execute) -> None:
    execution, stage = execute(SAMPLE), SYSTEMS["targer_dirichlet"].stage
    found = shown(execution, DOCNO, shades(stage, execution, DOCNO))
    assert ("home has been turned into farmland", "premise") in found
    assert any(text.startswith("Fixing bad zoos through licensing") and kind == "claim" for text, kind in found)
    one = execute(SAMPLE, qid="1")
    pieces = [(piece.text, piece.part) for piece in stage.explain(one, "1", DOCNO).marked if piece.part]
    assert [pair for pair in pieces if pair in found] == found  # but for what of the conclusion


@pytest.mark.slow
def test_deepct_sees_the_weight_of_words_but_of_urls(execute: Execute, tmp_path: Path) -> None:
    execution, stage = execute(SAMPLE), SYSTEMS["deepct_dirichlet"].stage
    found = shown(execution, "S89c1bfbf-A55b19fa0", shades(stage, execution, "S89c1bfbf-A55b19fa0"))
    assert {kind for _, kind in found} <= {f"s{level}" for level in range(1, LEVELS + 1)}
    heaviest = {text.lower() for text, kind in found if kind == f"s{LEVELS}"}
    assert heaviest
    assert heaviest <= {"zoo", "captivity", "elephant", "tiger", "sanctuaries", "conservation", "freedom"}
    assert not any("example" in text for text, _ in found)  # it stands in a URL


def test_other_systems_see_nothing(execute: Execute) -> None:
    execution = execute(SAMPLE)
    for name in ("dirichlet", "bm25", "fusion"):
        assert shades(SYSTEMS[name].stage, execution, DOCNO) == []
