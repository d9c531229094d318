"""Test of the command that describes the data compared with publications, on small data."""

import pandas as pd
import pytest

from aragorn_training.__main__ import main
from tests.conftest import assert_runs
from tests.unit.training.conftest import write_bws, write_mrpc
from tests.unit.training.data.quality_files import write_quality


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
