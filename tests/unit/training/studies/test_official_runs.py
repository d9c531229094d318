"""Tests of the comparison of official runs with the systems, on all topics and on those that miss no document."""

from math import log2

import pandas as pd
import pytest

from aragorn_training.__main__ import main
from aragorn_training.report.published import RESULTS
from aragorn_training.report.sections import MEASURES
from aragorn_training.studies.official_runs import read_system_values, tabulate_results
from tests.conftest import argv, format_run_lines, make_argument

# c and s are in the input, but only s is too short to be retrieved; x is outside.
QRELS = "1 0 a 2\n1 0 b 1\n1 0 s 1\n2 0 a 1\n2 0 x 2\n3 0 x 2\n4 0 c 0\n"
VALUES = {"dirichlet": (0.5, 0.5), "fusion": (1.0, 0.5), "knrm": (0.25, 0.0)}  # on topics 1 and 2
# of the ranking ab on topic 1, whose ideal ranking is abs
NDCG_TOPIC_1 = (2 + 1 / log2(3)) / (2 + 1 / log2(3) + 1 / 2)


def write_system_values(directory, systems=VALUES, qids=("1", "2")):
    """Write systems_per_topic.csv of 2021, with equal values of all measures."""
    fields = {"protocol": "held-out", "year": 2021}
    rows = [
        {"system": system, "qid": qid, **fields, **dict.fromkeys(MEASURES, value)}
        for system in systems
        for qid, value in zip(qids, VALUES[system], strict=True)
    ]
    directory.mkdir()
    pd.DataFrame(rows).to_csv(directory / "systems_per_topic.csv", index=False)


@pytest.fixture
def study(make_input, tmp_path):
    """Write input, qrels and an official run, and return the command that evaluates the run."""
    arguments = [*map(make_argument, "abc"), make_argument("s", premise="too short")]
    (tmp_path / "q.qrels").write_text(QRELS)
    (tmp_path / "winner.txt").write_text(format_run_lines({"1": "xasb", "2": "a", "9": "x"}))
    inputs = argv("-i", make_input(arguments=arguments), "--qrels", tmp_path / "q.qrels")
    results = argv("--results", tmp_path / "results", "--work-dir", tmp_path / "work")
    return ["study", "official-runs", *inputs, *results, str(tmp_path / "winner.txt")]


def test_runs_are_compared_with_systems_on_all_and_on_complete_topics(study, tmp_path):
    write_system_values(tmp_path / "results")
    assert main([*study, "--year", "2021"]) == 0
    names = ("official_runs", "official_runs_significance", "complete_topics", "complete_topics_significance")  # fmt: skip
    means, tests, complete_means, complete_tests = (
        pd.read_csv(tmp_path / "work" / "results" / f"{name}.csv").query("measure == 'nDCG@5'")
        for name in names
    )
    [row] = means.to_dict("records")
    expected = ("winner", "official run", "submitted")
    assert (row["system"], row["family"], row["protocol"]) == expected
    assert (row["n"], row["mean"]) == (2, pytest.approx((NDCG_TOPIC_1 + 1) / 2, abs=1e-6))
    differences = {"dirichlet": NDCG_TOPIC_1 - 0.5 + 0.5, "fusion": NDCG_TOPIC_1 - 1 + 0.5}
    assert tests.set_index("baseline")["difference"].to_dict() == {
        name: pytest.approx(difference / 2, abs=1e-6) for name, difference in differences.items()
    }
    assert tests["p"].tolist() == [0.5, 1.0]  # of 4 assignments of signs, 2 and 4 are as extreme
    expected = {name: values[0] for name, values in VALUES.items()} | {"winner": NDCG_TOPIC_1}
    assert complete_means.set_index("system")["mean"].to_dict() == pytest.approx(expected, abs=1e-6)
    assert {*complete_means["n"]} == {1}
    rows = complete_tests.set_index(["baseline", "system"])["difference"].to_dict()
    assert rows == {
        (baseline, name): pytest.approx(value - expected[baseline], abs=1e-6)
        for baseline in ("dirichlet", "fusion")
        for name, value in expected.items()
        if name != baseline
    }


@pytest.mark.parametrize(
    ("files", "options", "code", "message"),
    [
        ({}, {"year": "2020"}, 3, "systems_per_topic.csv: no values of dirichlet, fusion in 2020"),
        ({}, {"systems": ["fusion"]}, 3, "no values of dirichlet in 2021"),
        ({}, {"qids": ("1", "5")}, 3, "system dirichlet, 2021: other topics than those with a relevant document"),
        ({"q.qrels": "1 0 a 1\n1 0 x 2\n2 0 a 1\n2 0 y 0\n"}, {}, 3, "the input lacks judged documents of every topic"),
        ({"winner.txt": "1 Q0 s 1 1 t\n"}, {}, 3, "winner.txt: none of its 1 document is in the collection"),
        ({}, {"run": "knrm=winner.txt"}, 2, "runs named like systems: knrm; use NAME=RUN"),
    ],
)  # fmt: skip
def test_other_results_are_refused(
    files, options, code, message, study, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    systems = {key: options[key] for key in ("systems", "qids") if key in options}
    write_system_values(tmp_path / "results", **systems)
    for file, text in files.items():
        (tmp_path / file).write_text(text)
    run = options.get("run", study[-1])
    assert main([*study[:-1], run, "--year", options.get("year", "2021")]) == code
    assert message in capsys.readouterr().err


def test_stored_tables_are_those_of_the_stored_topics():
    systems, protocols = read_system_values(RESULTS, "2021")
    types = {"qid": str, "year": str}
    per_topic = pd.read_csv(RESULTS / "official_runs_per_topic.csv", dtype=types)
    runs = {name: rows.set_index("qid")[[*MEASURES]] for name, rows in per_topic.groupby("system")}
    topics = pd.read_csv(RESULTS / "collection_topics.csv", dtype={"qid": str, "qrels": str})
    is_complete = (topics["qrels"] == "2021") & (topics["judged"] == topics["in_input"])
    complete_topics = topics.loc[is_complete, "qid"]
    tables = tabulate_results("2021", systems, runs, protocols, complete_topics)
    for name, table in tables.items():
        stored = pd.read_csv(RESULTS / f"{name}.csv", dtype=types)
        expected = table.reset_index(drop=True)
        pd.testing.assert_frame_equal(stored, expected, rtol=0, atol=1.1e-6, check_dtype=False)
