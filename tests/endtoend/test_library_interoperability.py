"""Tests of the README's examples with PyTerrier and ir_datasets; each is skipped if its library is not installed."""

from __future__ import annotations

import json
import re
from io import BytesIO
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from submission.search import load_system
from tests.conftest import ROOT, SAMPLE

QUERIES = pd.DataFrame({"qid": ["1", "2"], "query": ["Should zoos be abolished?", "Should voting be compulsory?"]})
PYTERRIER_STUB: Any = type("Library", (), {"Transformer": object})


def read_example(text: str) -> str:
    """Return the first Python code block of the README that contains `text`."""
    readme = (ROOT / "submission" / "search" / "README.md").read_text(encoding="utf-8")
    return next(block for block in re.findall(r"```python\n(.*?)```", readme, re.DOTALL) if text in block)


def test_python_example_prints_the_documented_hits() -> None:
    block = read_example(">>> load_system(")
    expression, output = block[block.index(">>> load_system(") :].split("\n", 1)
    hits = eval(expression.removeprefix(">>> "), {"load_system": load_system, "Path": lambda path: ROOT / path})
    assert str(hits) == output.rstrip()


def test_transformer_without_pyterrier() -> None:
    transformer = _run_example(PYTERRIER_STUB)["Aragorn"]("dirichlet", SAMPLE)
    _assert_equals_search(transformer.transform(QUERIES))


def test_transformer_in_pyterrier() -> None:
    pt = pytest.importorskip("pyterrier", reason="PyTerrier is not installed")
    transformer = _run_example(pt)["Aragorn"]("dirichlet", SAMPLE)
    _assert_equals_search(transformer(QUERIES))
    assert (transformer % 3)(QUERIES)["rank"].tolist() == [0, 1, 2] * 2
    assert transformer.search("zoos")["docno"].tolist()[0] == "S8b9b12de-A38bcfb72"
    qrels = pd.DataFrame({"qid": ["1", "2"], "docno": ["S8b9b12de-A38bcfb72", "x"], "label": [1, 1]})
    table = pt.Experiment([transformer], QUERIES, qrels, ["recip_rank"], names=["dirichlet"])
    assert table["recip_rank"].tolist() == [0.5]


def test_corpus_in_ir_datasets(tmp_path: Path) -> None:
    argsme = pytest.importorskip("ir_datasets.formats.argsme", reason="ir_datasets is not installed")
    pytest.importorskip("ijson", reason="ir_datasets[ijson] is not installed")
    arguments = json.loads((SAMPLE / "idebate.json").read_text(encoding="utf-8"))["arguments"]
    fields = {
        "sourceDomain": "debate.org",
        "acquisitionTime": "2019-04-18T19:07:38Z",
        "mode": "discussion",
        "discussionTitle": "a",
    }
    for argument in arguments:
        argument["context"] |= fields
    content = json.dumps({"arguments": arguments}).encode()
    source = type("Source", (), {"stream": lambda self: BytesIO(content), "path": lambda self, force=True: tmp_path / "x"})()
    frame = _run_example(PYTERRIER_STUB)["load_arguments"](argsme.ArgsMeDocs(source))
    assert frame["docno"].tolist() == [argument["id"] for argument in arguments]
    hits = load_system("dirichlet").search(frame, "Should zoos be abolished?", depth=1)
    assert hits["docno"].item() in set(frame["docno"])


def _run_example(pt: Any) -> dict[str, Any]:
    """Run the README's PyTerrier example and return the names that it defines."""
    names: dict[str, Any] = {"pt": pt, "pd": pd, "load_system": load_system}
    exec(read_example("class Aragorn"), names)
    return names


def _assert_equals_search(hits: pd.DataFrame) -> None:
    assert set(hits) == {"qid", "query", "docno", "rank", "score"}
    expected = load_system("dirichlet").search(SAMPLE, QUERIES)
    assert hits["score"].tolist() == expected["score"].tolist()
    assert hits["docno"].tolist() == expected["docno"].tolist()
    assert hits.groupby("qid")["rank"].min().tolist() == [0, 0]
