"""Tests of `prepare distillation`: debate titles and the scores of the teacher."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

from submission.engine.base import CPU
from submission.errors import InputError
from submission.rankings import truncate_rankings
from submission.systems.catalogue import FUSION_CANDIDATES
from tests.endtoend.conftest import AssertFails, Command, MakeExecution
from training.__main__ import main
from training.data.distillation import load_table
from training.fitting.recipe import Recipe
from training.tasks.distillation import DistillationSpec


@pytest.fixture
def debates(corpus_with_topics: Path) -> Path:
    """Give each argument a debate title: its conclusion and enough further words that the title paraphrases no topic."""
    arguments = json.loads((corpus_with_topics / "args-me.json").read_text())["arguments"]
    for record in arguments:
        record["context"] = {"discussionTitle": f"{record['conclusion']}, as everybody believes who has ever lived anywhere"}
    (corpus_with_topics / "args-me.json").write_text(json.dumps({"arguments": arguments}))
    return corpus_with_topics


@pytest.fixture
def prepare(debates: Path, all_checkpoints_dir: Path, work_dir: Path) -> Command:
    """Return a function that returns the command that prepares the teacher's scores of 8 documents for each of 60 titles."""
    paths = ["-i", str(debates), "--work-dir", str(work_dir), "--checkpoints", str(all_checkpoints_dir), "--device", "cpu"]
    return lambda *flags: ["prepare", "distillation", *paths, "--titles", "60", "--documents", "8", *flags]


def write_topics(file: Path, titles: list[str]) -> None:
    body = "".join(f"<topic><number>{n}</number><title>{title}</title></topic>" for n, title in enumerate(titles, 1))
    file.write_text(f"<topics>{body}</topics>")


def test_scores_are_those_of_the_teachers_ranking(
    prepare: Command, debates: Path, work_dir: Path, make_execution: MakeExecution, all_checkpoints_dir: Path, tmp_path: Path
) -> None:
    assert main(prepare("--system", "dirichlet")) == 0  # caches rankings of other titles
    assert main(prepare("--system", "dirichlet", "--seed", "3", "--overwrite")) == 0
    table, manifest = load_table(work_dir)
    assert 40 < table["topic"].nunique() <= 60
    assert set(table.groupby("topic").size()) == {8}
    assert {"topics.xml", "args-me.json", "titles"} <= set(manifest.inputs["input"])
    title = table["topic"].unique()[0]
    single_topic = Path(shutil.copytree(debates, tmp_path / "single"))
    write_topics(single_topic / "topics.xml", [title])
    execution = make_execution(single_topic, checkpoints=all_checkpoints_dir)
    ranking, rows = execution.get_ranking(FUSION_CANDIDATES["dirichlet"]), table[table["topic"] == title]
    assert rows["docno"].tolist()[:4] == truncate_rankings(ranking, 4)["docno"].tolist()  # half of the rows are the top ranks
    pd.testing.assert_series_equal(rows["score"], rows["docno"].map(ranking.set_index("docno")["score"]), check_names=False)
    texts = execution.documents.read_texts(set(table["docno"])).set_index("docno")["premise"]
    assert table["premise"].tolist() == texts.loc[table["docno"]].tolist()


def test_topics_are_excluded_and_faults_keep_the_table(
    prepare: Command, debates: Path, work_dir: Path, assert_fails: AssertFails
) -> None:
    flags = ["--system", "dirichlet"]
    assert main(prepare(*flags)) == 0
    titles, excluded = load_table(work_dir)[0]["topic"].unique(), debates / "excluded.xml"
    write_topics(excluded, [title.partition(",")[0] for title in titles[:-1]])
    for changed in (["--topics", str(excluded)], ["--seed", "3"], ["--documents", "4"]):
        assert_fails(5, "use --overwrite", *prepare(*flags, *changed))
    assert main(prepare(*flags, "--topics", str(excluded), "--overwrite")) == 0
    table = load_table(work_dir)[0]
    assert not set(table["topic"]) & set(titles[:-1])
    message = "for none of 60 titles does dirichlet rank at least 900 documents with different scores"
    assert_fails(3, message, *prepare(*flags, "--documents", "900", "--overwrite"))
    assert load_table(work_dir)[0].equals(table)
    assert main(prepare(*flags, "--titles", "1", "--overwrite")) == 0
    with pytest.raises(InputError, match="1 title; at least 2 are needed"):
        DistillationSpec().build_task(Recipe(ranker="knrm", task=DistillationSpec()), None, work_dir, CPU)  # type: ignore[arg-type]
    assert_fails(2, "did you mean 'dirichlet'?", *prepare("--system", "dirichlett"))
    (debates / "args-me.json").write_text((debates / "args-me.json").read_text().replace("discussionTitle", "title"))
    assert_fails(3, "no debate titles; use a larger corpus", *prepare(*flags))
