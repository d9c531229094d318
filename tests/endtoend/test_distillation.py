"""End-to-end tests of distillation: debate titles, teacher scores and the trained network."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from submission.rankings import truncate_rankings
from submission.systems.catalogue import FUSION_CANDIDATES
from submission.systems.learned_fusion import LearnedFusionStage
from tests.conftest import make_argument, read_files
from tests.endtoend.conftest import AssertFails, Command, MakeExecution
from training.__main__ import main
from training.data.debates import exclude_similar
from training.data.distillation import load_table

RECIPE = """ranker = "knrm"
[network]
dimensions = 20
[distillation]
list_size = 4
[training]
epochs = 12
validations_per_epoch = 1
learning_rate = 0.02
batch_size = 8
micro_batch_size = 8
"""
SETTINGS = ["--titles", "60", "--documents", "8"]


@pytest.fixture
def titled(corpus_with_topics: Path) -> Path:
    """Add debate titles to the corpus: conclusions with so many other words that they do not paraphrase the topics."""
    arguments = json.loads((corpus_with_topics / "args-me.json").read_text())["arguments"]
    for record in arguments:
        record["context"] = {"discussionTitle": f"{record['conclusion']}, as everybody believes who has ever lived anywhere"}
    (corpus_with_topics / "args-me.json").write_text(json.dumps({"arguments": arguments}))
    return corpus_with_topics


@pytest.fixture
def prepare(titled: Path, all_checkpoints_dir: Path, work_dir: Path) -> Command:
    """Return the command that prepares the teacher's scores."""

    def run(*flags: str) -> list[str]:
        paths = ["-i", str(titled), "--work-dir", str(work_dir), "--checkpoints", str(all_checkpoints_dir), "--device", "cpu"]
        return ["prepare", "distillation", *paths, *SETTINGS, *flags]

    return run


def test_network_learns_the_scores_of_the_fusion(
    prepare: Command,
    titled: Path,
    work_dir: Path,
    write_recipe: Callable[[str], str],
    make_execution: MakeExecution,
    all_checkpoints_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    assert_fails: AssertFails,
) -> None:
    assert main(prepare()) == 0
    table, manifest = load_table(work_dir)
    by_title = table.groupby("topic")
    assert 40 < len(by_title) <= 60
    assert set(by_title.size()) == {8}
    execution = make_execution(titled, checkpoints=all_checkpoints_dir)
    queries = execution.topics["query"].tolist()
    assert exclude_similar(by_title.groups, queries) == list(by_title.groups)
    assert (by_title["score"].nunique() > 1).all()
    assert table["data"].unique().tolist() == ["fusion"]
    texts = execution.documents.read_texts(set(table["docno"])).set_index("docno")["premise"]
    assert table["premise"].tolist() == texts.loc[table["docno"]].tolist()
    assert {"topics.xml", "args-me.json", "titles"} <= set(manifest.inputs["input"])
    before = read_files(work_dir / "distilled")
    with monkeypatch.context() as patch:
        patch.setattr(LearnedFusionStage, "search", None)
        assert main(prepare()) == 0  # a complete table is skipped
    assert read_files(work_dir / "distilled") == before
    fit = ["fit", write_recipe(RECIPE), "--work-dir", str(work_dir), "--device", "cpu"]
    assert main(fit) == 0
    checkpoint = work_dir / "checkpoints" / "mine"
    metrics = json.loads((checkpoint / "metrics.json").read_text())
    assert metrics["topics"] == len(by_title) // 10
    assert metrics["validation"]["Spearman"] > max(60, metrics["length in words"]["Spearman"] + 20)
    provenance = json.loads((checkpoint / "provenance.json").read_text())
    assert provenance["training_data"]["teacher"]["system"] == "fusion"
    assert "scored by fusion for debate titles" in (checkpoint / "README.md").read_text()
    assert main([*fit, "-o", str(tmp_path / "again"), "--restart"]) == 0
    assert read_files(tmp_path / "again") == read_files(checkpoint)
    flags = ["--work-dir", str(tmp_path / "new"), "--checkpoints", str(checkpoint.parent), "--device", "cpu"]
    assert_fails(2, "run `prepare distillation` and `fit` again", "reproduce", write_recipe(RECIPE), "-i", titled, *flags)


def test_table_holds_the_scores_of_the_teachers_rankings(
    prepare: Command,
    titled: Path,
    work_dir: Path,
    make_execution: MakeExecution,
    all_checkpoints_dir: Path,
    tmp_path: Path,
    assert_fails: AssertFails,
) -> None:
    assert main(prepare("--system", "dirichlet")) == 0  # caches rankings of other titles
    flags = ["--system", "dirichlet", "--seed", "3"]
    assert main(prepare(*flags, "--overwrite")) == 0
    table, _ = load_table(work_dir)
    assert table["data"].unique().tolist() == ["dirichlet"]
    titles = table["topic"].unique()
    single_topic = Path(shutil.copytree(titled, tmp_path / "single"))
    (single_topic / "topics.xml").write_text(f"<topics><topic><number>1</number><title>{titles[0]}</title></topic></topics>")
    ranking = make_execution(single_topic, checkpoints=all_checkpoints_dir).get_ranking(FUSION_CANDIDATES["dirichlet"])
    rows = table[table["topic"] == titles[0]]
    assert rows["docno"].tolist()[:4] == truncate_rankings(ranking, 4)["docno"].tolist()  # half of the rows are the top ranks
    pd.testing.assert_series_equal(rows["score"], rows["docno"].map(ranking.set_index("docno")["score"]), check_names=False)

    excluded = titled / "excluded.xml"
    conclusions = [title.partition(",")[0] for title in titles[:-1]]
    body = "".join(f"<topic><number>{n}</number><title>{title}</title></topic>" for n, title in enumerate(conclusions, 1))
    excluded.write_text(f"<topics>{body}</topics>")
    assert_fails(5, "use --overwrite", *prepare(*flags, "--topics", str(excluded)))
    assert main(prepare(*flags, "--topics", str(excluded), "--overwrite")) == 0
    assert not set(load_table(work_dir)[0]["topic"]) & set(titles[:-1])
    message = "dirichlet ranks fewer than 900 documents, or all with equal scores, for each of 60 titles"
    assert_fails(3, message, *prepare(*flags, "--documents", "900", "--overwrite"))
    assert not set(load_table(work_dir)[0]["topic"]) & set(titles[:-1])  # the table is unchanged
    excluded.write_text("<topics>")
    assert_fails(3, "excluded.xml", *prepare("--topics", str(excluded)))
    assert_fails(2, "did you mean 'dirichlet'?", *prepare("--system", "dirichlett"))
    (titled / "args-me.json").write_text((titled / "args-me.json").read_text().replace("discussionTitle", "title"))
    assert_fails(3, "every debate title paraphrases a topic", *prepare(*flags))


def test_titles_with_equal_scores_are_skipped(
    make_input: Callable[..., Path], all_checkpoints_dir: Path, tmp_path: Path
) -> None:
    sports = [("Golf", "Tennis or golf?"), ("Tennis and golf", "Tennis or golf?")]
    debates = [("Zoos", "Zoos are prisons")] * 4 + sports * 2
    arguments = [
        make_argument(f"a{index}", conclusion) | {"context": {"discussionTitle": title}}
        for index, (conclusion, title) in enumerate(debates)
    ]
    directory = make_input([("1", "Should taxes rise?")], [*arguments, make_argument("t", "Taxes"), make_argument("u", "Cars")])
    paths = ["-i", str(directory), "--work-dir", str(tmp_path / "work"), "--checkpoints", str(all_checkpoints_dir)]
    assert main(["prepare", "distillation", *paths, "--system", "bm25", "--documents", "4"]) == 0
    assert set(load_table(tmp_path / "work")[0]["topic"]) == {"Tennis or golf?"}
