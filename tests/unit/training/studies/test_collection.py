"""Tests of the studies that describe the collection and the data compared with publications."""

import pandas as pd
import pytest

from aragorn.errors import InputError
from aragorn_training.__main__ import main
from aragorn_training.evaluation.overlap import exclude_documents, read_docnos
from tests.conftest import assert_runs, make_argument
from tests.unit.training.conftest import write_bws, write_mrpc, write_quality

HASHED_ID = "S1-A0"  # not the hash of the text


def test_documents_are_counted_by_corpus_file_and_topic(make_input, tmp_path, caplog):
    caplog.set_level("INFO")
    arguments = [make_argument("a"), make_argument("b", premise="short"), make_argument(HASHED_ID)]
    directory = make_input(arguments=arguments)
    (tmp_path / "2020.qrels").write_text(
        "10 0 a 2\n2 0 a 1\n2 0 x 1\n2 0 y -2\n10 0 b 0\n10 0 z -1\n"
    )
    (tmp_path / "ids").write_text("b\nx\n")
    files = ["--qrels", str(tmp_path / "2020.qrels"), "--unconfirmed-ids", str(tmp_path / "ids")]
    assert_runs(main, "study collection -i", directory, *files, "--work-dir", tmp_path)
    table = pd.read_csv(tmp_path / "results" / "collection.csv", index_col="corpus").T.to_dict(
        "list"
    )
    # arguments, searchable, mismatched, unconfirmed, judged, judged and unconfirmed
    expected = {name: [3, 2, 1, 1, 2, 1] for name in ("args-me", "all")}
    assert table == expected | {"outside the input": [0, 0, 0, 0, 2, 0]}
    topics = pd.read_csv(tmp_path / "results" / "collection_topics.csv")
    assert topics.to_numpy().tolist() == [[2020, 2, 3, 1], [2020, 10, 2, 2]]
    message = "2020: the input has all judged documents of 1 of 2 topics (2 documents): 10"
    assert message in caplog.text


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "ids: no docno"), ("a\nb 1\n", "line 2: 2 fields"), ("a", "no row left")],
)
def test_lists_of_excluded_documents_are_validated(text, message, tmp_path):
    (tmp_path / "ids").write_text(text)
    with pytest.raises(InputError, match=message):
        exclude_documents(pd.DataFrame({"docno": ["a"]}), read_docnos(tmp_path / "ids"), "run")


def test_data_are_described(tmp_path):
    write_bws(tmp_path, 40)
    write_mrpc(tmp_path, 24, 18)
    work = ["--work-dir", str(tmp_path / "work")]
    assert main(["prepare", "quality", "-i", str(write_quality(tmp_path / "data")), *work]) == 0
    assert_runs(main, "study data -i", tmp_path, *work, "-o", tmp_path / "data.csv")
    table = pd.read_csv(tmp_path / "data.csv")
    values = table.set_index(["data", "part", "measure"])["value"].unstack("measure")
    assert values.loc["bws_cross", "pairs"].to_dict() == {"train": 200, "dev": 40, "test": 80}
    train = values.loc[("bws_cross", "train")]
    assert train.filter(like="share of labels").sum() == pytest.approx(1, abs=1e-3)
    expected = train.filter(regex=r"from 0\.[01] ").sum()
    assert train["share of dissimilar pairs"] == pytest.approx(expected, abs=1e-3)
    test = values.loc[("bws_cross", "test")]
    assert test["baseline of unrelated sentences, mean"] < 10 < 80 < test["baseline"]
    lists = values.loc[("ukp", "all")]
    assert lists[["arguments", "topics", "arguments per topic, mean"]].tolist() == [160, 32, 5]
    assert lists["arguments not truncated, percent"] == 100
    assert lists["pointwise label, 25th percentile"] == 0.25  # qualities 0 to 4
    assert values.loc["ukp", "topics"].drop("all").sum() == 32
    assert values.loc[("tfr_bert", "recipe"), "arguments per list"] == 12
