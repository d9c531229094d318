"""End-to-end tests of DeepCT with a tiny encoder, from passages to runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pandas as pd
import pytest

from submission.inference.enricher_checkpoint import load_enricher
from submission.models.enricher import TokenAnnotation
from submission.models.enrichers.deepct import DeepCT
from submission.systems.catalogue import SYSTEMS
from submission.systems.lexical import LexicalStage
from tests.conftest import make_argument, read_files
from tests.endtoend.conftest import AssertFails, Capture, Execute
from training.__main__ import main

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


@pytest.fixture
def discussions(corpus: Path, tmp_path: Path) -> Path:
    """Add a topic or a discussion title to some arguments of the corpus."""
    arguments = json.loads((corpus / "args-me.json").read_text())["arguments"]
    for index, record in enumerate(arguments):
        titled = {"discussionTitle": record["conclusion"]}
        record["context"] = [titled, {"topic": "Fillera?", "discussionTitle": "x"}, {}][index % 3]
    directory = tmp_path / "discussions"
    directory.mkdir()
    (directory / "args-me.json").write_text(json.dumps({"arguments": arguments}))
    return directory


def test_prepare_passages_labels_words_and_counts(make_input: Callable[..., Path], tmp_path: Path, capsys: Capture) -> None:
    long = "The zoo has cages for its animals. " * 40 + "Cages are cruel!"
    arguments = [
        {**make_argument("a1", "Zoos are cruel", long), "context": {"topic": "Should cages exist?"}},
        {**make_argument("a2", "Zoos are cruel", f"{long} http://example.org/zoos"), "context": {"discussionTitle": "Golf"}},
        {**make_argument("a3", "Golf", "we discuss something else here and use no word of it at all in fifteen words or more")},
        make_argument("a4", "Golf", "golf is too short"),
    ]
    directory = make_input(arguments=arguments)
    (tmp_path / "qrels").write_text("1 0 a2 1\n1 0 elsewhere 0\n")
    pooled = [*(f"elsewhere{n}" for n in range(1, 50)), "a3", "a1"]  # a1 is ranked below the pool depth
    (tmp_path / "run.txt").write_text("".join(f"1 Q0 {docno} {rank} {-rank} x\n" for rank, docno in enumerate(pooled, 1)))
    flags = ["prepare", "passages", "-i", str(directory), "--work-dir", str(tmp_path / "work")]
    assert main([*flags, "--qrels", str(tmp_path / "qrels"), "--run", str(tmp_path / "run.txt")]) == 0
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
    assert main(flags) == 5
    assert "contains files made from another qrels and runs" in capsys.readouterr().err
    assert main([*flags, "--overwrite"]) == 0
    assert main(["prepare", "passages", "-i", str(directory), "--work-dir", str(tmp_path / "again")]) == 0
    assert read_files(tmp_path / "again") == read_files(tmp_path / "work")


def test_fit_learns_term_weights(discussions: Path, encoder: Path, tmp_path: Path) -> None:
    work, recipe = ["--work-dir", str(tmp_path / "work")], tmp_path / "mine.toml"
    assert main(["prepare", "passages", "-i", str(discussions), *work]) == 0
    recipe.write_text(RECIPE)
    assert main(["fit", str(recipe), *work, "--device", "cpu"]) == 0
    checkpoint = tmp_path / "work" / "checkpoints" / "mine"
    metrics, provenance = (json.loads((checkpoint / name).read_text()) for name in ("metrics.json", "provenance.json"))
    assert metrics["validation"]["R²"] > metrics["linear in IDF"]["R²"] > 90  # the same words are important in all passages
    assert metrics["best constant"]["R²"] <= 0
    assert metrics["validation"]["MAP"] > 90
    assert (metrics["passages"], len(metrics["log"])) == (pytest.approx(24, abs=24), 6)
    assert (provenance["recipe"]["enricher"], "ranker" in provenance["recipe"]) == ("deepct", False)
    assert "if it shares a stem with its topic or conclusion" in (checkpoint / "README.md").read_text()
    enricher = load_enricher(checkpoint)
    [passage] = enricher.tokeniser.split("fillera topicab fillerb")
    first, second, third = enricher.network.annotate([passage])[0]
    assert second.weight > max(first.weight, third.weight) + 0.3


@pytest.mark.slow
def test_training_is_reproduced(discussions: Path, encoder: Path, tmp_path: Path, capsys: Capture) -> None:
    work, recipe = ["--work-dir", str(tmp_path / "work")], tmp_path / "mine.toml"
    assert main(["prepare", "passages", "-i", str(discussions), *work]) == 0
    recipe.write_text(RECIPE.replace("[training]\nepochs = 3", "max_passages = 40\n[training]\nepochs = 1"))
    assert main(["fit", str(recipe), *work, "--device", "cpu"]) == 0
    capsys.readouterr()
    flags = ["-i", str(discussions), "--work-dir", str(tmp_path / "again")]
    stored = ["--checkpoints", str(tmp_path / "work" / "checkpoints")]
    assert main(["reproduce", str(recipe), *flags, *stored, "--device", "cpu"]) == 0
    out = capsys.readouterr().out
    assert "weights: identical" in out
    assert [line.split()[-1] for line in out.splitlines()[1:4]] == ["OK"] * 3


@pytest.mark.parametrize("documents", ["unjudged", "unpooled"])
def test_document_sets_need_qrels(
    documents: str, discussions: Path, encoder: Path, tmp_path: Path, assert_fails: AssertFails
) -> None:
    work, recipe = ["--work-dir", str(tmp_path / "work")], tmp_path / "mine.toml"
    assert main(["prepare", "passages", "-i", str(discussions), *work]) == 0
    recipe.write_text(RECIPE.replace('"all"', f'"{documents}"'))
    assert_fails(3, f'prepared without qrels, which documents = "{documents}" needs', "fit", recipe, *work)


def test_arguments_without_weights_are_never_retrieved(
    corpus_with_topics: Path, execute: Execute, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = corpus_with_topics / "args-me.json"
    content = json.loads(file.read_text())
    content["arguments"] += [make_argument("empty", content["arguments"][0]["conclusion"], "zoo " * 20)]
    file.write_text(json.dumps(content))
    frequencies = DeepCT.compute_term_frequencies

    def drop_zoo(self: DeepCT, passages: Sequence[Sequence[TokenAnnotation]]) -> Mapping[str, int]:
        return {word: count for word, count in frequencies(self, passages).items() if word != "zoo"}

    monkeypatch.setattr(DeepCT, "compute_term_frequencies", drop_zoo)
    execution = execute()
    stage = SYSTEMS["deepct_dirichlet"].stage
    assert isinstance(stage, LexicalStage)
    rankings, index = execution.get_ranking(stage), stage.get_index(execution)
    position = execution.documents.searchable_docnos.index("empty")
    assert (len(index.lengths), index.lengths[position], index.get_document_terms(position)[0]) == (576, 0, [])
    assert "empty" not in set(rankings["docno"])
    assert set(rankings["qid"]) == {"1", "2", "3"}
    pairs = pd.DataFrame({"qid": ["1"], "docno": ["empty"]})
    assert stage.score(execution, pairs).tolist() == [0.0]


def test_explain_lists_weights_by_passage(corpus_with_topics: Path, all_checkpoints_dir: Path, execute: Execute) -> None:
    execution = execute(qid="1")
    breakdowns = SYSTEMS["deepct_dirichlet"].stage.explain(execution, "1", "a0-0").breakdowns
    premise = json.loads((corpus_with_topics / "args-me.json").read_text())["arguments"][0]["premises"][0]["text"].split()
    enricher = load_enricher(all_checkpoints_dir / "deepct")
    for passage, words in ((1, premise[:12]), (2, premise[12:])):
        rows = breakdowns[f"weight of each word in passage {passage}"]
        [annotations] = enricher.network.annotate(enricher.tokeniser.split(" ".join(words)))
        assert [(row.label, row.value) for row in rows] == [(word.surface, pytest.approx(word.weight)) for word in annotations]
