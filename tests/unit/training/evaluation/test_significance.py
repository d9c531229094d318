"""Tests of significance, intervals and similarity against values by hand."""

import gzip
import tracemalloc
from math import nan

import numpy as np
import pandas as pd
import pytest

from aragorn.errors import InputError
from aragorn_training.evaluation import significance, similarity
from aragorn_training.formatting import nan_mean, round_means
from tests.conftest import format_run_lines


@pytest.mark.parametrize(("p", "corrected"), [
    # sorted .01 .02 .04 .5 → times 4 3 2 1 → .04 .06 .08 .5
    ([0.04, 0.01, 0.5, 0.02], [0.08, 0.04, 0.5, 0.06]),
    ([0.6, 0.5], [1.0, 1.0]),  # at most 1
    ([0.02, 0.021], [0.04, 0.04]),  # monotone
    ([0.02, np.nan, 0.03], [0.04, np.nan, 0.04]),
])  # fmt: skip
def test_holm_correction(p, corrected):
    np.testing.assert_allclose(significance.apply_holm_correction(np.array(p)), corrected)


DIFFERENCES = np.random.default_rng(3).normal(0.03, 0.1, 40)


@pytest.mark.parametrize(
    ("differences", "p"),
    [
        ([0.369] * 12, 2 / 2**12),  # constant: the two extreme assignments
        ([0.5] * 16, 2 / 2**16),
        ([0.369] * 20, 1 / 10_001),  # only the observed signs, none of the random ones
        ([0.1] * 3 + [0.0] * 40, 2 / 2**3),  # topics without a difference change nothing
        ([0.1, -0.1, 0.2, -0.2], 1.0),
        # sums ±6, ±4, ±2, 0 and 0 against 4
        ([0.3, 0.2, -0.1], 4 / 8),
        ([0.3, 0.0, 0.4, -0.1, 0.5, 0.4], 4 / 32),  # sums ±1.7 and ±1.5 against 1.5
        ([0.3], nan),
        ([0.0] * 5, nan),
    ],
)
def test_p_of_the_randomisation_test(differences, p):
    base = pd.Series([0.5] * len(differences))
    runs = {"base": base, "run": base + differences}
    result = significance.compare_with_baseline(runs, "base").loc["run"]
    assert result["p_randomisation"] == pytest.approx(p, rel=1e-9, nan_ok=True)


def test_p_of_the_t_test():
    # t = mean / (s / √n) = .25 / (.2429 / 2.449) = 2.521 with 5 degrees of freedom; .05: 2.571
    run = pd.Series([0.3, 0.0, 0.4, -0.1, 0.5, 0.4])
    result = significance.compare_with_baseline({"base": 0 * run, "run": run}, "base").loc["run"]
    assert result[["difference", "p_t"]].tolist() == pytest.approx([0.25, 0.0531], abs=2e-4)


@pytest.mark.parametrize("n_topics", [2, 9, 16, 17, 40])
def test_p_does_not_depend_on_which_run_is_the_baseline(n_topics):
    a = pd.Series(np.random.default_rng(4).uniform(size=n_topics))
    values = {"a": a, "b": a + DIFFERENCES[:n_topics]}
    forth = significance.compare_with_baseline(values, "a").loc["b"]
    back = significance.compare_with_baseline(values, "b").loc["a"]
    assert forth["p_randomisation"] == back["p_randomisation"]
    assert forth["p_t"] == pytest.approx(back["p_t"], rel=1e-9)


def test_many_topics_need_little_memory():
    rng = np.random.default_rng(5)
    base = pd.Series(rng.uniform(size=7_000))
    tracemalloc.start()
    try:
        runs = {"base": base, "run": base + rng.normal(size=7_000)}
        significance.compare_with_baseline(runs, "base")
        significance.bootstrap_means(pd.DataFrame({"m": base}))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100e6  # 10,000 samples at once are 560 MB


def test_correction_counts_only_testable_runs():
    rng = np.random.default_rng(0)
    base = pd.Series(rng.uniform(size=40))
    noise = base + rng.normal(0, 0.2, 40)
    single = pd.Series([0.5], index=[0])
    values = {"base": base, "same": base, "single": single, "better": base + 0.2, "noise": noise}
    result = significance.compare_with_baseline(values, "base")
    assert list(result.index) == ["same", "single", "better", "noise"]
    assert result.loc["same", ["n_topics", "difference"]].tolist() == [40, 0.0]
    p = result.drop(columns=["n_topics", "difference"])
    assert p.loc[["same", "single"]].isna().all(axis=None)
    # a constant difference has no variance, which only the t-test needs
    assert p.loc["better", ["p_t", "p_t_holm"]].isna().all()
    assert p.loc["noise", "p_t_holm"] == p.loc["noise", "p_t"]
    better = p.loc["better"]
    assert better["p_randomisation_holm"] == pytest.approx(2 * better["p_randomisation"])
    assert significance.describe_untested_runs(result) == [
        "no test for same: no topic differs; not counted in its Holm correction",
        "no test for single: fewer than 2 topics; not counted in its Holm correction",
        "no t-test for better: constant differences; not counted in its Holm correction",
    ]
    assert significance.compare_with_baseline(values, "base").equals(result)  # seeded


def test_bootstrap_intervals_are_close_to_normal_intervals():
    values = pd.DataFrame({"m": np.random.default_rng(1).normal(0.5, 0.1, 400), "constant": 0.25})
    result = significance.bootstrap_means(values)
    mean = values["m"].mean()
    half_width = 1.96 * values["m"].std() / 20
    expected = [mean, mean - half_width, mean + half_width]
    assert result.loc["m"].tolist() == pytest.approx(expected, abs=0.002)
    assert result.loc["m", "mean"] == pytest.approx(mean)
    assert significance.bootstrap_means(values).equals(result)  # seeded
    assert result.loc["constant"].tolist() == pytest.approx([0.25, np.nan, np.nan], nan_ok=True)


def test_undefined_topics_are_excluded_from_both_runs():
    base = pd.Series([0.1, 0.2, np.nan, 0.4, 0.5, 0.3])
    run = pd.Series([0.3, np.nan, 0.9, 0.3, 0.9, 0.8])
    result = significance.compare_with_baseline({"base": base, "other": run}, "base").loc["other"]
    runs = {"base": base[[0, 3, 4, 5]], "other": run[[0, 3, 4, 5]]}
    complete = significance.compare_with_baseline(runs, "base").loc["other"]
    expected = [4, (0.2 - 0.1 + 0.4 + 0.5) / 4]
    assert result[["n_topics", "difference"]].tolist() == pytest.approx(expected)
    assert result.tolist() == complete.tolist()
    frames = [pd.DataFrame({"m": values}) for values in (base, base.dropna())]
    intervals = [significance.bootstrap_means(frame).loc["m"].tolist() for frame in frames]
    assert intervals[0] == intervals[1]


@pytest.mark.parametrize("order", [slice(None, None, -1), [3, 1, *range(4, 20), 0, 2]])
def test_intervals_and_tests_do_not_depend_on_the_order_of_topics(order):
    values = pd.DataFrame(np.random.default_rng(2).uniform(size=(20, 2)), columns=["base", "run"])
    values.loc[5, "run"] = np.nan
    permuted = values.iloc[order].reset_index(drop=True)
    assert significance.bootstrap_means(permuted).equals(significance.bootstrap_means(values))
    results = [
        significance.compare_with_baseline(dict(table.items()), "base")
        for table in (values, permuted)
    ]
    tests = [result["p_randomisation"].item() for result in results]
    assert tests[0] == tests[1]


def test_few_topics_yield_nan_and_a_warning():
    intervals = significance.bootstrap_means(pd.DataFrame({"m": [0.5]}))
    assert intervals[["ci_low", "ci_high"]].isna().all(axis=None)
    expected = "1 topic: too few for intervals and tests (minimum 2)"
    assert significance.format_sample_size_warning(1) == expected
    assert "p < .250" in significance.format_sample_size_warning(3)
    assert significance.format_sample_size_warning(6) == ""


def test_undefined_values_are_excluded_from_means():
    values = np.array([[0.5, nan, 0.1], [nan, nan, 0.3]])
    assert round_means(["a", "b", "c"], nan_mean(values, 0)) == {"a": 0.5, "b": None, "c": 0.2}
    assert round_means(["first", "second"], nan_mean(values, 1)) == {"first": 0.3, "second": 0.3}


def test_similarity_tables_match_hand_computed_values():
    assert similarity.jaccard(["a", "b", "c"], ["c", "d"]) == 0.25
    assert similarity.jaccard(["a"], []) == 0
    assert similarity.spearman(["a", "x", "b", "c"], ["c", "b", "y", "a"]) == pytest.approx(-1)
    # 1 - 6Σd²/n(n²-1)
    expected = pytest.approx(1 - 6 * 2 / (4 * 15))
    assert similarity.spearman(["a", "b", "c", "d"], ["b", "a", "z", "c", "d"]) == expected
    assert similarity.spearman(["a", "b", "x"], ["a", "b", "y"]) is None
    tables = similarity.compute_similarity_tables({
        "bm25": {"1": ["a", "b", "c"], "2": ["a", "b", "c"]},
        "knrm": {"1": ["c", "b", "a"], "2": ["a", "b", "d"], "3": ["e"]},
        "snrm": {"1": ["x"]},
        "elrond": {"3": ["x"]},
    })  # fmt: skip
    # over common topics
    assert tables["jaccard"].loc["bm25", "knrm"] == pytest.approx((1 + 0.5) / 2)
    assert tables["jaccard"].loc["snrm"].tolist() == pytest.approx([0, 0, 1, nan], nan_ok=True)
    assert tables["jaccard"].loc["elrond"].tolist() == pytest.approx([nan, 0, nan, 1], nan_ok=True)
    assert tables["spearman"].loc["knrm", "bm25"] == pytest.approx(-1)
    assert tables["spearman"].loc["bm25"].tolist() == pytest.approx([1, -1, nan, nan], nan_ok=True)
    assert tables["spearman-topics"].loc["bm25"].tolist() == [2, 1, 0, 0]


def test_compare_runs_requires_common_topics(tmp_path, caplog):
    for system, qids in (("bm25", "12"), ("knrm", "2")):
        lines = format_run_lines(dict.fromkeys(qids, "abc"), "me")
        (tmp_path / f"me-{system}.txt").write_text(lines)
    actual = similarity.compare_runs(tmp_path, tmp_path / "analysis")["jaccard"].loc["bm25", "knrm"]
    assert actual == 1
    assert "Topics in all runs: 1 of 2; missing topics: knrm (1)" in caplog.text
    (tmp_path / "me-gru.txt").write_text("2 Q0 z 1 1.0 me\n")
    similarity.compare_runs(tmp_path, tmp_path / "analysis")
    message = "no common document in any topic; check that both are of the same corpus"
    assert f"bm25 and gru: {message}" in caplog.text
    (tmp_path / "me-gru.txt").write_text("01 Q0 a 1 1.0 me\n")
    with pytest.raises(InputError, match=r"no common topic.* 01 without leading zeros equals 1"):
        similarity.compare_runs(tmp_path, tmp_path / "analysis")


def test_compare_runs_requires_two_runs_and_names_those_of_two_teams(tmp_path):
    for run in ("run", "me-bm25"):
        (tmp_path / f"{run}.txt").write_text("1 Q0 a 1 1.0 tag\n")
    with pytest.raises(InputError, match="1 run named"):
        similarity.compare_runs(tmp_path, tmp_path / "analysis")
    for run in ("me-knrm", "the-others-bm25"):
        (tmp_path / f"{run}.txt").write_text("1 Q0 a 1 1.0 tag\n")
    table = similarity.compare_runs(tmp_path, tmp_path / "analysis")["jaccard"]
    assert [*table] == ["me-bm25", "me-knrm", "the-others-bm25"]


def test_gzipped_runs_of_a_directory_are_read(tmp_path):
    for system in ("bm25", "knrm"):
        run = gzip.compress(b"1 Q0 a 1 1.0 me\n")
        (tmp_path / f"me-{system}.txt.gz").write_bytes(run)
    assert [*similarity.find_system_runs(tmp_path)] == ["bm25", "knrm"]
    actual = similarity.compare_runs(tmp_path, tmp_path / "analysis")["jaccard"].loc["bm25", "knrm"]
    assert actual == 1
    (tmp_path / "me-knrm.txt").write_text("1 Q0 a 1 1.0 me\n")
    message = r"two runs of the system knrm \(me-knrm.txt, me-knrm.txt.gz"
    with pytest.raises(InputError, match=message):
        similarity.find_system_runs(tmp_path)
