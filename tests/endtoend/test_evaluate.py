"""Tests of `evaluate` on users' runs and qrels, and of the depth of re-ranked runs."""

import re
from math import log2
from pathlib import Path

import pandas as pd
import pytest
import yaml

from aragorn.__main__ import main as aragorn
from aragorn.io.qrels import read_qrels
from aragorn.io.runs import read_run
from aragorn_training.__main__ import main as training
from aragorn_training.commands.evaluate import EVALUATION_LEGEND
from aragorn_training.evaluation.evaluate import ALL_MEASURES, HEADLINE_MEASURES, TOUCHE_NDCG
from aragorn_training.evaluation.tables import (
    ALL_TOPICS,
    COMMON_TOPICS,
    format_evaluation,
    tabulate_means,
)
from aragorn_training.report.results import Evaluation
from tests.conftest import argv, format_run_lines, make_argument

QRELS = "1 0 a 2\n1 0 b 1\n1 0 c 0\n2 0 a 1\n2 0 d 2\n2 0 e 0\n3 0 b 2\n3 0 c -2\n"
DOCUMENTS = {"1": "abxc", "2": "edya", "3": "cbxz"}  # in rank order; x, y and z are unjudged


def format_lines(documents=DOCUMENTS):
    return format_run_lines(documents)


HALVES = "non-integer grades; binary measures count grades above 0 as relevant"
GRADES = {  # qrels; their grades; part of the log
    "negative": ("# corrected\n" + QRELS, [2, 1, 0, 1, 2, 0, 2, 0], "negative grades set to 0 in 1 of 8"),
    "halves": ("1 0 a .5\n1 0 b 1.0\n", [0.5, 1], HALVES),
    "unjudged": ("1 0 x -1\n1 0 a 2\n7 0 a -1\n", [2], "dropped 2 of 3 lines: grade -1 (unjudged)"),
}  # fmt: skip


@pytest.mark.parametrize("name", GRADES)
def test_grades_are_converted(name, tmp_path, caplog):
    caplog.set_level("INFO")
    text, grades, message = GRADES[name]
    (tmp_path / "q.qrels").write_text(text)
    assert read_qrels(tmp_path / "q.qrels")["rel"].tolist() == grades
    assert message in caplog.text


@pytest.fixture
def evaluate(tmp_path, monkeypatch):
    """Return a function that evaluates run.txt by q.qrels; `files` replace the files' contents."""
    monkeypatch.chdir(tmp_path)

    def run(*flags, **files):
        for file, content in {"run.txt": format_lines(), "q.qrels": QRELS, **files}.items():
            Path(file).parent.mkdir(exist_ok=True)
            Path(file).write_text(content)
        return training(["evaluate", "-o", "tables", "--qrels", "q.qrels", *flags, "run.txt"])

    return run


# changed files; arguments; messages
COMMANDS = {
    "two of three topics": (
        {"run.txt": format_lines({"1": "abxc", "2": "edya"})}, (),
        ["run covers 2 of the 3 judged topics of q", "run × q: 2 of 3 topics, 75 % of the top five judged",
         "run (common topics)"],
    ),
    "missing topics": ({"run.txt": "2 Q0 a 1 1 t\n"}, (), ["missing topics (1, 3) count as 0"]),
    "few judgments": (
        {"run.txt": format_lines({"1": "uvwxya", "3": "xyz"})}, (),
        ["run × q: 0 of 8 documents in the top five judged, topics without a judged document, by id: 3; if that is unexpected"],
    ),
    "equal scores": (
        {"run.txt": re.sub("-.", "1", format_lines({"1": "abx", "2": "eda", "3": "bc"}))}, (),
        ["run.txt: equal scores in 2 of 3 topics; sorted by rank (trec_eval: by docno descending, as --order score)"],
    ),
    **{
        f"equal 32-bit scores {scores}": (
            {"run.txt": "".join(f"1 Q0 {'abx'[rank]} {rank} {score} t\n" for rank, score in enumerate(scores))},
            (), ["run.txt: equal 32-bit scores in 1 of 1 topics; sorted by 64-bit scores (trec_eval: by docno descending)"],
        )
        for scores in (("0.9999999813", "0.9999999812", "0.5"), ("2e40", "1e40", "1"), ("16777217", "16777216", "1"),
                       ("1e-46", "1e-47", "-1"))
    },
    "one topic": ({"q.qrels": "1 0 a 2\n1 0 b 1\n"}, ("--baseline", "run"), ["1 topic: too few for intervals and tests"]),
    "topic without a relevant document": (
        {"q.qrels": QRELS + "4 0 a 0\n"}, (), ["q: topics without a relevant document, excluded (1): 4"],
    ),
    "two equal runs": ({"other.txt": format_lines()}, ("--baseline", "run", "other.txt"), ["no test for other"]),
    "named files": (
        {"more/q.qrels": QRELS, "more/run.txt": format_lines()}, ("--qrels", "other=more/q.qrels", "mine=more/run.txt"),
        ["run × other: 3 of 3", "mine × q: 3 of 3"],
    ),
    "excluded documents": (  # topics 1 to 3: bxc, edy, cbx, with two judged documents each
        {"ids": "# unconfirmed\na\nz\n"}, ("--exclude-ids", "ids"),
        ["q: 2 of 8 rows excluded", "run: 3 of 12 rows excluded", "run × q: 3 of 3 topics, 67 % of the top five judged"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_evaluate_describes_runs_and_qrels(name, evaluate, capsys, caplog):
    files, arguments, messages = COMMANDS[name]
    caplog.set_level("INFO")
    assert evaluate(*arguments, **files) == 0
    output = "".join(capsys.readouterr()) + caplog.text
    assert [message for message in messages if message not in output] == []


def test_means_over_all_and_common_topics(evaluate):
    assert evaluate(**{"run.txt": format_lines({"1": "ab", "2": "z"})}) == 0
    rows = pd.read_csv("tables/means.csv").set_index(["topic_set", "measure"])
    for measure, means, counts in (
        (HEADLINE_MEASURES[0], [1.0, 1.0], [1, 1]),  # nothing is judged in topic 2
        (HEADLINE_MEASURES[2], [1 / 3, 1 / 2], [3, 2]),
    ):
        actual = rows.loc[[(ALL_TOPICS, measure), (COMMON_TOPICS, measure)]]
        assert actual["mean"].tolist() == pytest.approx(means, abs=1e-6)
        assert actual["n_topics"].tolist() == counts


@pytest.fixture
def collection(make_input):
    """Write a corpus without topics whose only argument that is too short to be retrieved is b."""
    arguments = [*map(make_argument, "acd"), make_argument("b", premise="too short")]
    directory = make_input(arguments=arguments)
    (directory / "topics.xml").unlink()
    return directory


def test_runs_and_judgments_are_restricted_to_a_collection(collection, evaluate, caplog):
    caplog.set_level("INFO")
    run = format_lines(DOCUMENTS | {"4": "xz"})
    assert evaluate("--collection", str(collection), **{"run.txt": run}) == 0
    for message in (
        "q.qrels: dropped 1 of 8 judgments of documents outside the input",  # e
        "run.txt: dropped 9 of 14 documents outside the collection; topics left without documents: 4",
    ):
        assert message in caplog.text
    values = pd.read_csv("tables/per_topic.csv")["nDCG@5"]
    # ideal rankings: ab, da, b; runs: ac, da, c
    assert values.tolist() == pytest.approx([2 / (2 + 1 / log2(3)), 1, 0], abs=1e-6)


OTHER_FILES = [
    ("q.qrels", "1 0 e 2\n", "none of the 1 judgment refers to a document of the input (judged: e, input: a)"),
    ("run.txt", "1 Q0 x 1 2 t\n1 Q0 b 2 1 t\n", "none of its 2 documents is in the collection (run: x; collection: a)"),
]  # fmt: skip


@pytest.mark.parametrize(("file", "content", "message"), OTHER_FILES)
def test_files_without_a_document_of_the_collection_are_refused(
    file, content, message, collection, evaluate, capsys
):
    assert evaluate("--collection", str(collection), **{file: content}) == 3
    assert f"{file}: {message}" in capsys.readouterr().err


TWO_RUNS = {"good": {"1": "abc", "2": "da", "3": "b"}, "bad_1": DOCUMENTS}
FORMATS = {  # → lines of RR, whose means are 1 and (1 + 1/2 + 1/2) / 3
    "table": ["run RR [95 % interval] n P@1", "good 1.000 3 1.000", "bad_1 0.667 [0.500, 1.000] 3 0.333"],
    "markdown": [
        "q, 3 topics", "| run | RR [95 % interval] | n | P@1 |", "| --- | --- | --- | --- |",
        "| good | **1.000** | 3 | **1.000** |", "| bad_1 | 0.667 [0.500, 1.000] | 3 | 0.333 |",
    ],
    "latex": [
        "% q, 3 topics; packages: booktabs, amssymb", r"good & \textbf{1.000} & 3 & \textbf{1.000} \\",
        r"bad\_1 & 0.667 [0.500, 1.000] & 3 & 0.333 \\", f"% {EVALUATION_LEGEND.format('RR')}",
    ],
    "csv": ["q,good,all judged,RR,3,1.000000,,", "q,bad_1,all judged,RR,3,0.666667,0.500000,1.000000"],
}  # fmt: skip


def write_two_runs():
    """Write TWO_RUNS and QRELS in the present directory; return the arguments that name them."""
    Path("q.qrels").write_text(QRELS)
    for name, documents in TWO_RUNS.items():
        Path(f"{name}.txt").write_text(format_lines(documents))
    return ["--qrels", "q.qrels", *(f"{name}.txt" for name in TWO_RUNS)]


@pytest.mark.parametrize("name", FORMATS)
def test_tables_are_printed_in_several_formats(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    measures = ["--measure", "RR", "--measure", "P@1"]
    assert training(["evaluate", *write_two_runs(), *measures, "--format", name]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert [line for line in FORMATS[name] if line not in lines] == []


def test_significant_differences_and_best_means_are_marked():
    keys = [("q", run, ALL_TOPICS, "AP") for run in "abc"]
    index = pd.MultiIndex.from_tuples(keys, names=["qrels", "run", "topic_set", "measure"])
    columns = {"n_topics": 9, "mean": [0.5, 0.7, 0.3], "ci_low": 0.1, "ci_high": 0.9}
    means = pd.DataFrame(columns, index)
    keys = [("q", "AP", "b"), ("q", "AP", "c")]
    columns = {"difference": [0.2, -0.2], "p_t_holm": 1.0, "p_randomisation_holm": [0.04, 0.06]}
    index = pd.MultiIndex.from_tuples(keys, names=["qrels", "measure", "run"])
    tests = pd.DataFrame(columns, index)
    rows = format_evaluation(means, tests, ["AP"], "markdown").splitlines()[-3:]
    expected = ["| b | **0.700**▲", "| a | 0.500", "| c | 0.300"]
    assert [row.split(" [")[0] for row in rows] == expected
    tests["p_randomisation_holm"] = 0.01
    assert "| c | 0.300▼ [0.1" in format_evaluation(means, tests, ["AP"], "markdown")
    assert "\033[1m0.700\033[0m▲" in format_evaluation(means, tests, ["AP"], "terminal")


def test_table_and_report_count_topics_without_a_value_as_0_in_their_order():
    columns = {"none": [], "one": [1.0], "many": [0.5] * 4, "best": [0.8] * 3}  # of 4 topics
    topics = list("1234")
    values = {name: pd.DataFrame(0.0, topics, ALL_MEASURES) for name in columns}
    for name, column in columns.items():
        values[name][TOUCHE_NDCG] = pd.Series(column, topics[: len(column)], float)
    text = format_evaluation(tabulate_means({"q": values}), None, [TOUCHE_NDCG], "markdown")
    expected = ["best", "many", "one", "none"]
    assert [line.split()[1] for line in text.splitlines()[-4:]] == expected
    evaluation = Evaluation("q", pd.DataFrame(), values, "one")
    assert evaluation.sort_systems(["other", *columns]) == [*expected, "other"]
    orders = [evaluation.rows[name]["cells"][0]["order"] for name in expected]
    assert orders == pytest.approx([0.6, 0.5, 0.25, 0])


def test_all_measures_are_shown_or_written(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    command = ["evaluate", *write_two_runs(), "-o", "tables", "--baseline", "bad_1"]
    assert training(command) == 0
    output = capsys.readouterr().out
    assert " nDCG(judged_only=True)@5 " in output
    assert "nDCG@25" not in output
    written = pd.read_csv("tables/significance.csv")
    assert {*written["measure"]} == {*ALL_MEASURES}
    without_baseline = command[:-2]
    assert training(without_baseline) == 0  # whose tests are of other runs
    assert not (tmp_path / "tables" / "significance.csv").exists()
    (tmp_path / "tables" / "significance.csv").write_text("mine")
    assert training(without_baseline) == 0
    assert (tmp_path / "tables" / "significance.csv").read_text() == "mine"
    capsys.readouterr()
    (tmp_path / "tables" / "significance.csv").unlink()
    assert training([*command, "--all-measures"]) == 0
    header = capsys.readouterr().out.splitlines()[1]
    assert [name for name in ALL_MEASURES if name not in header] == []


DOCNOS = [f"a{index:03}" for index in range(150)]


@pytest.mark.parametrize(("flags", "depth"), [("", 150), ("--depth 120", 120)])
def test_runs_are_truncated_to_their_depth(flags, depth, make_input, tmp_path, caplog):
    caplog.set_level("INFO")
    directory = make_input([("1", "Are zoos cruel?")], [make_argument(docno) for docno in DOCNOS])
    (tmp_path / "run.txt").write_text(format_run_lines({"1": DOCNOS[::-1]}))
    paths = argv("-i", directory, "-o", tmp_path / "out", "--input-run", tmp_path / "run.txt")
    assert aragorn(["rank", *paths, *argv("--system bm25 --device cpu", flags)]) == 0
    assert read_run(tmp_path / "out" / "run.txt")["docno"].tolist() == DOCNOS[::-1][:depth]
    metadata = yaml.safe_load((tmp_path / "out" / "ir-metadata.yml").read_text())
    [entry] = metadata["method"]["retrieval"]
    is_truncated = depth == 120
    omitted = "30 documents below rank 120 omitted" if is_truncated else None
    assert (entry["depth"], entry.get("truncated")) == (depth, omitted)
    assert ("runs truncated to 120; change with --depth" in caplog.text) == is_truncated
    assert ("30 documents omitted" in caplog.text) == is_truncated
