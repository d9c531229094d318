"""Tests of the README's Python examples, with stand-ins for PyTerrier and ir_datasets."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from submission.search import load_system
from tests.conftest import ROOT, SAMPLE

QUERIES = pd.DataFrame({"qid": ["1", "2"], "query": ["Should zoos be abolished?", "Should voting be compulsory?"]})


def read_example(text: str) -> str:
    """Return the first Python code block of the README that contains `text`."""
    readme = (ROOT / "submission" / "search" / "README.md").read_text(encoding="utf-8")
    return next(block for block in re.findall(r"```python\n(.*?)```", readme, re.DOTALL) if text in block)


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    """Run the example with PyTerrier and return the names that it defines."""
    names: dict[str, Any] = {"pt": SimpleNamespace(Transformer=object), "pd": pd, "load_system": load_system}
    exec(read_example("class Aragorn"), names)
    return names


def test_search_prints_the_documented_hits() -> None:
    block = read_example(">>> load_system(")
    expression, output = block[block.index(">>> load_system(") :].split("\n", 1)
    hits = eval(expression.removeprefix(">>> "), {"load_system": load_system, "Path": lambda path: ROOT / path})
    assert str(hits) == output.rstrip()


def test_pyterrier_transformer_equals_search(example: dict[str, Any]) -> None:
    hits = example["Aragorn"]("dirichlet", SAMPLE).transform(QUERIES)
    assert set(hits) == {"qid", "query", "docno", "rank", "score"}
    expected = load_system("dirichlet").search(SAMPLE, QUERIES)
    pd.testing.assert_frame_equal(hits[["qid", "docno", "score"]], expected[["qid", "docno", "score"]], check_exact=True)
    assert hits.groupby("qid")["rank"].min().tolist() == [0, 0]


def test_arguments_of_ir_datasets_are_searched(example: dict[str, Any]) -> None:
    documents = [SimpleNamespace(doc_id=f"d{n}", conclusion=f"Zoos {n}", premises_texts="zoos " * (15 + n)) for n in range(2)]
    frame = example["arguments_of"](SimpleNamespace(docs_iter=lambda: documents))
    assert frame.to_numpy().tolist() == [[doc.doc_id, doc.conclusion, doc.premises_texts] for doc in documents]
    assert load_system("dirichlet").search(frame, "zoos", depth=1)["docno"].tolist() == ["d1"]
