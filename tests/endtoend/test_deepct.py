"""End-to-end tests of DeepCT with a tiny encoder, from passages to runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from submission.inference.enricher_checkpoint import load_enricher
from tests.conftest import make_argument, read_files
from tests.endtoend.conftest import AssertFails, Capture
from training.__main__ import main
from training.tasks import load_recipe

pytestmark = pytest.mark.usefixtures("block_network")

RECIPE = """enricher = "deepct"
[network]
words = 12
pieces = 60
[encoder]
name = "tiny"
learning_rate = 0.003
[term_weighting]
documents = "all"
reference = "both"
[training]
epochs = 3
validations_per_epoch = 2
learning_rate = 0.01
batch_size = 16
micro_batch_size = 8
"""


def test_prepare_passages_labels_words_and_counts(make_input: Callable[..., Path], tmp_path: Path, capsys: Capture) -> None:
    long = "The zoo has cages for its animals. " * 40 + "Cages are cruel!"
    arguments = [
        {**make_argument("a1", "Zoos are cruel", long), "context": {"topic": "Should cages exist?"}},
        {**make_argument("a2", "Zoos are cruel", f"{long} http://example.org/zoos"), "context": {"discussionTitle": "Golf"}},
        {**make_argument("a3", "Golf", "we discuss something else here and use no word of it at all in fifteen words or more")},
        make_argument("a4", "Golf", "golf is too short"),
    ]
    (tmp_path / "qrels").write_text("1 0 a2 1\n1 0 elsewhere 0\n")
    pooled = [*(f"elsewhere{n}" for n in range(1, 50)), "a3", "a1"]  # a1 is ranked below the pool depth
    (tmp_path / "run.txt").write_text("".join(f"1 Q0 {docno} {rank} {-rank} x\n" for rank, docno in enumerate(pooled, 1)))
    command = ["prepare", "passages", "-i", str(make_input(arguments=arguments)), "--work-dir", str(tmp_path / "work")]
    assert main([*command, "--qrels", str(tmp_path / "qrels"), "--run", str(tmp_path / "run.txt")]) == 0
    table = pd.read_parquet(tmp_path / "work" / "passages" / "passages.parquet")
    assert table[["docno", "number"]].to_numpy().tolist() == [["a1", 1], ["a1", 2], ["a2", 1], ["a2", 2], ["a3", 1]]
    assert [len(passage.split()) for passage in table["passage"]] == [217, 66, 217, 66, 18]
    assert table["passage"][3].endswith("cruel!")  # URLs are removed
    assert table["discussion"].tolist() == ["should cages exist?"] * 2 + ["golf"] * 3
    assert [sorted(words) for words in table["topic"]] == [["cages"]] * 2 + [[]] * 3
    assert [sorted(words) for words in table["conclusion"]] == [["zoo"], ["cruel", "zoo"], ["zoo"], ["cruel", "zoo"], []]
    assert table["judged"].tolist() == [False, False, True, True, False]
    assert table["found"].tolist() == [False] * 4 + [True]
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[2:]]
    assert rows == [
        ["all", "topic", "5", "60.0", "23.0"], ["all", "conclusion", "5", "20.0", "23.0"], ["all", "both", "5", "20.0", "22.7"],
        ["unjudged", "topic", "3", "33.3", "23.2"], ["unjudged", "conclusion", "3", "33.3", "23.2"],
        ["unjudged", "both", "3", "33.3", "22.8"],
        ["unpooled", "topic", "2", "0.0", "24.3"], ["unpooled", "conclusion", "2", "0.0", "24.2"],
        ["unpooled", "both", "2", "0.0", "23.9"],
    ]  # fmt: skip


@pytest.fixture
def fit(corpus: Path, encoder: Path, tmp_path: Path) -> list[str]:
    """Prepare passages of arguments, two thirds of which have a discussion title; return the command that fits DeepCT."""
    arguments = json.loads((corpus / "args-me.json").read_text())["arguments"]
    for index, record in enumerate(arguments):
        titled = {"discussionTitle": record["conclusion"]}
        record["context"] = [titled, {"topic": "Fillera?", "discussionTitle": "x"}, {}][index % 3]
    (tmp_path / "args-me.json").write_text(json.dumps({"arguments": arguments}))
    (tmp_path / "mine.toml").write_text(RECIPE)
    assert main(["prepare", "passages", "-i", str(tmp_path), "--work-dir", str(tmp_path / "work")]) == 0
    return ["fit", str(tmp_path / "mine.toml"), "--work-dir", str(tmp_path / "work"), "--device", "cpu"]


def test_fit_learns_term_weights(fit: list[str], tmp_path: Path) -> None:
    assert main(fit) == 0
    load_recipe(fit[1]).task.prepare_again(tmp_path, tmp_path / "again", {"qrels": {}, "runs": {}})
    assert read_files(tmp_path / "again" / "passages") == read_files(tmp_path / "work" / "passages")
    checkpoint = tmp_path / "work" / "checkpoints" / "mine"
    metrics = json.loads((checkpoint / "metrics.json").read_text())
    assert metrics["validation"]["R²"] > metrics["linear in IDF"]["R²"] > 90  # the same words are important in all passages
    assert metrics["validation"]["MAP"] > 90
    assert "if it shares a stem with its topic or conclusion" in (checkpoint / "README.md").read_text()
    enricher = load_enricher(checkpoint)
    first, second, third = enricher.network.annotate(enricher.tokeniser.split("fillera topicab fillerb"))[0]
    assert second.weight > max(first.weight, third.weight) + 0.3


@pytest.mark.parametrize("documents", ["unjudged", "unpooled"])
def test_document_sets_need_qrels(documents: str, fit: list[str], tmp_path: Path, assert_fails: AssertFails) -> None:
    (tmp_path / "mine.toml").write_text(RECIPE.replace('"all"', f'"{documents}"'))
    assert_fails(3, f'prepared without qrels, which documents = "{documents}" needs', *fit)
