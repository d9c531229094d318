"""From a corpus with titles of debates, and a teacher, to a network that agrees with it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from submission.lists import cut
from submission.systems.catalogue import MEMBERS
from submission.systems.execution import Execution
from submission.systems.learned_fusion import LearnedFusion
from tests.conftest import argument, contents
from training.__main__ import main
from training.distilling.prepare import distilled_table
from training.distilling.titles import unlike

RECIPE = """ranker = "knrm"
[network]
dimensions = 20
[distilled]
size = 4
[training]
epochs = 12
validations = 1
learning_rate = 0.02
global_batch_size = 8
micro_batch_size = 8
"""
SETTINGS = ["--titles", "60", "--documents", "8"]


@pytest.fixture
def titled(topics: Path) -> Path:
    """The corpus of the training tests, with titles for its debates: conclusions, and words that tell them from the topics."""
    arguments = json.loads((topics / "args-me.json").read_text())["arguments"]
    for one in arguments:
        one["context"] = {"discussionTitle": f"{one['conclusion']}, as everybody believes who has ever lived anywhere"}
    (topics / "args-me.json").write_text(json.dumps({"arguments": arguments}))
    return topics


@pytest.fixture
def prepare(titled: Path, all_checkpoints: Path, work: Path) -> Callable[..., int]:
    def run(*flags: str) -> int:
        places = ["-i", str(titled), "--work", str(work), "--checkpoints", str(all_checkpoints), "--device", "cpu"]
        return main(["prepare", "distilled", *places, *SETTINGS, *flags])

    return run


def test_a_network_learns_what_the_fusion_says(
    prepare: Callable[..., int],
    titled: Path,
    work: Path,
    recipe: Callable[[str], str],
    execute: Callable[..., Execution],
    all_checkpoints: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert prepare() == 0
    table, record = distilled_table(work)
    by_title = table.groupby("topic")
    assert 40 < len(by_title) <= 60
    assert set(by_title.size()) == {8}
    execution = execute(titled, checkpoints=all_checkpoints)
    queries = execution.topics["query"].tolist()
    assert unlike(by_title.groups, queries) == list(by_title.groups)
    assert (by_title["score"].nunique() > 1).all()
    assert table["data"].unique().tolist() == ["fusion"]
    texts = execution.documents.texts(set(table["docno"])).set_index("docno")["premise"]
    assert table["premise"].tolist() == texts.loc[table["docno"]].tolist()
    assert {"topics.xml", "args-me.json", "titles"} <= set(record.decided_by["input"])
    first = contents(work / "distilled")
    with monkeypatch.context() as patch:
        patch.setattr(LearnedFusion, "search", None)
        assert prepare() == 0  # what is finished is not made again
    assert contents(work / "distilled") == first
    fit = ["fit", recipe(RECIPE), "--work", str(work), "--device", "cpu"]
    assert main(fit) == 0
    checkpoint = work / "checkpoints" / "mine"
    metrics = json.loads((checkpoint / "metrics.json").read_text())
    assert metrics["topics"] == len(by_title) // 10
    assert metrics["validation"]["Spearman"] > max(60, metrics["number of words"]["Spearman"] + 20)
    provenance = json.loads((checkpoint / "provenance.json").read_text())
    assert provenance["trained on"]["teacher"]["system"] == "fusion"
    assert "scored by fusion for titles of debates" in (checkpoint / "README.md").read_text()
    assert main([*fit, "-o", str(tmp_path / "again"), "--restart"]) == 0
    assert contents(tmp_path / "again") == contents(checkpoint)
    flags = ["--work", str(tmp_path / "new"), "--checkpoints", str(checkpoint.parent), "--device", "cpu"]
    assert main(["reproduce", recipe(RECIPE), "-i", str(titled), *flags]) == 2
    assert "`prepare distilled` and `fit` make it anew" in capsys.readouterr().err


def test_the_teachers_scores_are_those_of_its_lists(
    prepare: Callable[..., int], titled: Path, work: Path, execute: Callable[..., Execution], all_checkpoints: Path
) -> None:
    assert prepare("--system", "dirichlet") == 0  # its lists are kept: they are of other titles
    assert prepare("--system", "dirichlet", "--seed", "3", "--overwrite") == 0
    table, _ = distilled_table(work)
    assert table["data"].unique().tolist() == ["dirichlet"]
    title = table["topic"].iloc[0]
    (titled / "topics.xml").write_text(f"<topics><topic><number>1</number><title>{title}</title></topic></topics>")
    listed = execute(titled, checkpoints=all_checkpoints).lists(MEMBERS["dirichlet"])
    own = table[table["topic"] == title]
    assert own["docno"].tolist()[:4] == cut(listed, 4)["docno"].tolist()  # half of them are the best
    pd.testing.assert_series_equal(own["score"], own["docno"].map(listed.set_index("docno")["score"]), check_names=False)


def test_faulty_calls(
    prepare: Callable[..., int], titled: Path, work: Path, topics: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert prepare("--system", "dirichlet") == 0
    other = titled / "others.xml"
    titles = distilled_table(work)[0]["topic"].unique()
    words = [title.partition(",")[0] for title in titles[:-1]]
    body = "".join(f"<topic><number>{n}</number><title>{title}</title></topic>" for n, title in enumerate(words, 1))
    other.write_text(f"<topics>{body}</topics>")
    assert prepare("--system", "dirichlet", "--topics", str(other)) == 5
    assert "give --overwrite" in capsys.readouterr().err
    assert prepare("--system", "dirichlet", "--topics", str(other), "--overwrite") == 0
    assert not set(distilled_table(work)[0]["topic"]) & set(titles[:-1])
    assert prepare("--system", "dirichlet", "--documents", "900", "--overwrite") == 3
    assert "dirichlet lists no 900 documents of different scores for any of 60 titles" in capsys.readouterr().err
    assert not set(distilled_table(work)[0]["topic"]) & set(titles[:-1])  # the table is what it was
    other.write_text("<topics>")
    assert prepare("--topics", str(other)) == 3
    assert "others.xml" in capsys.readouterr().err
    assert prepare("--system", "dirichlett") == 2
    assert "did you mean 'dirichlet'?" in capsys.readouterr().err
    (titled / "args-me.json").write_text((titled / "args-me.json").read_text().replace("discussionTitle", "title"))
    assert prepare("--system", "dirichlet") == 3
    assert "no debate has a title that is none of the topics" in capsys.readouterr().err


def test_a_title_whose_documents_are_all_alike_teaches_nothing(
    make_input: Callable[..., Path], all_checkpoints: Path, tmp_path: Path
) -> None:
    sides = [("Zoos", "Zoos are prisons")] * 4 + [(one, "Tennis or golf?") for one in ("Golf", "Tennis and golf") * 2]
    arguments = [
        argument(f"a{number}", conclusion) | {"context": {"discussionTitle": title}}
        for number, (conclusion, title) in enumerate(sides)
    ]
    directory = make_input([("1", "Should taxes rise?")], [*arguments, argument("t", "Taxes"), argument("u", "Cars")])
    places = ["-i", str(directory), "--work", str(tmp_path / "work"), "--checkpoints", str(all_checkpoints)]
    assert main(["prepare", "distilled", *places, "--system", "bm25", "--documents", "4"]) == 0
    assert set(distilled_table(tmp_path / "work")[0]["topic"]) == {"Tennis or golf?"}
