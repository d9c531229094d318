"""End-to-end tests of an argument quality network: training, reproduction, and re-ranking by quality."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from submission.__main__ import main as submission
from submission.data.runs import read_run
from submission.inference.ranker_checkpoint import load_checkpoint
from submission.paths import CHECKPOINT_DIR
from submission.storage.atomic_files import sha256_file
from submission.storage.checkpoint_directory import read_provenance
from submission.systems.catalogue import SYSTEMS
from submission.systems.quality_reranking import QualityRerankingStage
from tests.conftest import count_colours, read_files, write_quality_reranking
from tests.endtoend.conftest import AssertFails, Capture, Log, MakeExecution, RankAll
from tests.unit.training.tasks.test_quality import arguments
from training.__main__ import main
from training.data.datasets import ibm_argq, ukp_conv_arg_rank
from training.data.quality import prepare_quality, table_path

RECIPE = """ranker = "tfr_bert"
[lengths]
query = 20
premise = 30
[encoder]
name = "tiny"
frozen_layers = 1
learning_rate = 0.001
[quality]
datasets = ["ukp", "ibm"]
list_size = 4
loss = "list_mle"
[training]
epochs = 4
validations_per_epoch = 1
learning_rate = 0.005
batch_size = 6
micro_batch_size = 2
"""
STAGE = SYSTEMS["tfr_bert"].stage
assert isinstance(STAGE, QualityRerankingStage)
DIRICHLET = STAGE.relevance


def write_published_data(directory: Path) -> None:
    """Write two data sets in their published formats."""
    for index, (topic, rows) in enumerate(arguments("ukp").groupby("topic")):
        lines = [f"{row.docno}\t{(8 - row.score) / 10}\t{row.premise}\n" for row in rows.itertuples()]
        write_lines(
            directory / ukp_conv_arg_rank.FOLDER / f"debate-{index // 2}_{topic[-1]}.csv", ["#id\trank\targument\n", *lines]
        )
    for index, (topic, rows) in enumerate(arguments("ibm", 5).groupby("topic")):
        lines = [f"{row.docno}\t{row.score / 10}\t{row.premise}\n" for row in rows.itertuples()]
        name = f"{topic} {ibm_argq.DEBATES[index // 2]}".replace(" ", "-")
        write_lines(directory / ibm_argq.FOLDER / f"{name}.tsv", ["id\trank\targument\n", *lines])


def write_lines(file: Path, lines: list[str]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(lines))


@pytest.fixture
def tables(encoder: Path, tmp_path: Path) -> Path:
    """Prepare two data sets in a working directory, and write a recipe there."""
    write_published_data(tmp_path / "published")
    prepare_quality(tmp_path / "published", ["ukp", "ibm"], tmp_path / "lists")
    (tmp_path / "order.toml").write_text(RECIPE)
    return tmp_path / "lists"


def fit(work: Path) -> list[str]:
    return ["fit", str(work.parent / "order.toml"), "--work-dir", str(work), "--device", "cpu"]


def test_fit_on_lists_resumes_on_the_same_tables_only(
    tables: Path, assert_resumes: Callable[..., int], assert_fails: AssertFails
) -> None:
    assert assert_resumes(lambda: main(fit(tables)), tables, "order", 14) == 2  # of 24 steps
    checkpoint = tables / "checkpoints" / "order"
    metrics, card = json.loads((checkpoint / "metrics.json").read_text()), (checkpoint / "README.md").read_text()
    assert metrics["topics"] == 4  # one debate per data set
    assert [row["epoch"] for row in metrics["log"]] == [1, 2, 3, 4]
    assert metrics["validation"]["Spearman"] == pytest.approx(max(row["Spearman"] for row in metrics["log"]), abs=2)
    assert metrics["validation"]["Spearman"] > 60
    assert abs(metrics["length in words"]["Spearman"]) < 1e-9  # all arguments have eight words
    sources = "UKPConvArgRank (UKP Lab, CC BY-SA) and IBM-ArgQ 5.3k (IBM Research, terms of IBM Research)"
    assert f"Trained on {sources}. Hashes" in card
    assert "- quality.loss: list_mle" in card
    provenance = json.loads((checkpoint / "provenance.json").read_text())
    files = [*ukp_conv_arg_rank.list_files(tables.parent / "published"), *ibm_argq.list_files(tables.parent / "published")]
    assert provenance["training_data"] == {
        "input": {file.name: sha256_file(file) for file in files},
        "data": "UKPConvArgRank and IBM-ArgQ 5.3k",
        "licence": "CC BY-SA and terms of IBM Research",
    }
    assert count_colours((tables / "fit" / "order" / "curve.png").read_bytes()) > 200
    scores = load_checkpoint(checkpoint).score([("topic a", "topic " * 7 + "filler"), ("topic a", "topic " + "filler " * 7)])
    assert scores[0] > scores[1]
    arguments("ibm", 4).to_parquet(table_path(tables, "ibm"))
    assert_fails(2, "saved with another recipe, other tables or other vectors; pass --restart", *fit(tables))
    table_path(tables, "ibm").unlink()
    assert_fails(3, "ibm.parquet: not found; run `python -m training prepare quality", *fit(tables))


def test_fit_on_one_data_set_is_reproduced(tables: Path, capsys: Capture, caplog: Log) -> None:
    recipe, data = tables.parent / "order.toml", tables.parent / "published"
    recipe.write_text(RECIPE.replace('["ukp", "ibm"]', '["ukp"]'))
    table_path(tables, "ibm").unlink()
    assert main(fit(tables)) == 0
    checkpoint = tables / "checkpoints" / "order"
    card, source = (checkpoint / "README.md").read_text(), json.loads((checkpoint / "provenance.json").read_text())
    assert "Trained on UKPConvArgRank (UKP Lab, CC BY-SA). Hashes of the source files: `provenance.json`" in card
    assert "IBM" not in card
    assert (source["training_data"]["data"], source["training_data"]["licence"]) == ("UKPConvArgRank", "CC BY-SA")

    shutil.rmtree(data / ibm_argq.FOLDER)
    new, flags = tables.parent / "new", ["--checkpoints", str(tables / "checkpoints"), "--device", "cpu"]
    command = ["reproduce", str(recipe), "-i", str(data), "--work-dir", str(new), *flags]
    assert main(command) == 0
    captured = capsys.readouterr()
    assert [line.split()[0] for line in captured.out.splitlines()[1:4]] == ["Pearson", "Spearman", "Kendall"]
    assert captured.out.count("OK") == 3
    assert "weights: identical" in captured.out
    assert "changed since" not in caplog.text
    assert "Training data differ" not in caplog.text
    assert read_files(new / "checkpoints" / "order") == read_files(checkpoint)

    file = data / ukp_conv_arg_rank.FOLDER / "debate-0_a.csv"
    file.write_text(file.read_text().replace("topic filler", "filler topic"))
    recipe.write_text(recipe.read_text().replace("epochs = 4", "epochs = 3"))
    shutil.rmtree(new)
    assert main(command) in (0, 8)
    assert "Training data differ from those of the stored checkpoint: debate-0_a.csv" in caplog.text
    assert "Recipe has changed: training.epochs was 4, is now 3" in caplog.text
    assert caplog.text.count("Recipe has changed") == 1
    file.unlink()
    shutil.rmtree(new)
    shutil.rmtree(data / ukp_conv_arg_rank.FOLDER)
    assert main(command) == 3
    assert f"{ukp_conv_arg_rank.FOLDER}: no .csv files" in capsys.readouterr().err


@pytest.mark.skipif(not (CHECKPOINT_DIR / "tfr_bert").is_dir(), reason="the checkpoint of tfr_bert is missing")
def test_shipped_checkpoint_is_trained_on_ukp_only() -> None:
    source = read_provenance(CHECKPOINT_DIR / "tfr_bert").training_data
    assert (source.data, source.licence, len(source.input)) == ("UKPConvArgRank", "CC BY-SA", 32)


def test_reranking_reorders_only_the_top_documents(
    make_execution: MakeExecution, corpus_with_topics: Path, checkpoints_copy: Path
) -> None:
    execution = make_execution(corpus_with_topics, checkpoints=checkpoints_copy)
    before, after = execution.get_ranking(DIRICHLET), execution.get_ranking(STAGE)
    pairs = before[before["rank"] <= 7][["qid", "docno"]]
    quality = pd.Series(STAGE.quality.score(execution, pairs).astype(float), index=pairs.index)
    assert set(after["qid"]) == {"1", "2", "3"}
    for qid, old in before.groupby("qid"):
        new, first = after[after["qid"] == qid].reset_index(drop=True), old.head(7)
        assert len(old) > 14
        relevance, quality_values = (values - values.mean() for values in (first["score"], quality[first.index]))
        expected = relevance / relevance.std(ddof=0) + 2 * quality_values / quality_values.std(ddof=0)
        expected.index = first["docno"]
        assert new["docno"][:7].tolist() == expected.sort_values(ascending=False).index.tolist()
        np.testing.assert_allclose(new["score"][:7], expected.sort_values(ascending=False))
        assert new["docno"][:7].tolist() != first["docno"].tolist()
        assert new["docno"][7:].tolist() == old["docno"][7:].tolist()
        assert new["score"][7] <= new["score"][6] - 1
    pairs = after.sample(frac=0.5, random_state=0).reset_index(drop=True)
    assert np.array_equal(STAGE.score(execution, pairs[["qid", "docno"]]), pairs["score"])
    unlisted = pd.DataFrame({"qid": ["1"], "docno": [execution.documents.searchable_docnos[-1]]})
    if not set(unlisted["docno"]) & set(after["docno"][after["qid"] == "1"]):
        assert STAGE.score(execution, unlisted)[0] < after["score"][after["qid"] == "1"].min()

    key = execution.compute_cache_key(STAGE)
    write_quality_reranking(checkpoints_copy, "quality", 1000, 0.0)
    execution = make_execution(corpus_with_topics, checkpoints=checkpoints_copy)
    assert execution.compute_cache_key(STAGE) != key
    columns = ["qid", "docno", "rank"]
    pd.testing.assert_frame_equal(execution.get_ranking(STAGE)[columns], execution.get_ranking(DIRICHLET)[columns])


def test_system_is_listed_and_explained(
    checkpoints_copy: Path, rank_all: RankAll, tmp_path: Path, corpus_with_topics: Path, capsys: Capture
) -> None:
    assert rank_all("out", "--system", "tfr_bert", "--depth", "1000") == 0
    run = read_run(tmp_path / "out" / "run.txt")
    assert submission(["systems", "--checkpoints", str(checkpoints_copy)]) == 0
    assert "score = z(relevance) +2.000 z(quality), over the top 7 documents of a topic" in capsys.readouterr().out
    first = ("relevance  z-score of", "quality    z-score of", "[CLS]", "score change when one token")
    for rank, messages in ((2, first), (9, ("below the re-ranked documents",))):
        row = run[run["qid"] == "1"].iloc[rank]
        flags = ["--system", "tfr_bert", "--qid", "1", "--docno", row["docno"]]
        assert submission(["explain", "-i", str(corpus_with_topics), "--checkpoints", str(checkpoints_copy), *flags]) == 0
        out = capsys.readouterr().out
        [line] = [line for line in out.splitlines() if line.startswith("score ") and ":" in line]
        assert float(line.split()[1].rstrip(":")) == pytest.approx(row["score"], abs=1e-4)
        assert all(message in out for message in messages)


def test_supplied_rankings_are_reranked(
    make_execution: MakeExecution, corpus_with_topics: Path, checkpoints_copy: Path, tmp_path: Path
) -> None:
    docnos = make_execution(corpus_with_topics, checkpoints=checkpoints_copy).documents.searchable_docnos[3:40:3]
    (tmp_path / "run.txt").write_text("".join(f"1 Q0 {docno} {n} {-n} other\n" for n, docno in enumerate(docnos, 1)))
    execution = make_execution(corpus_with_topics, input_run=tmp_path / "run.txt", checkpoints=checkpoints_copy)
    before, after = execution.get_ranking(DIRICHLET), execution.get_ranking(STAGE)
    assert sorted(after["docno"]) == sorted(docnos)
    assert set(after["docno"][:7]) == set(before["docno"][:7])
    assert after["docno"][7:].tolist() == before["docno"][7:].tolist()
