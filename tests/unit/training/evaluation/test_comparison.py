"""Comparison of two runs: moved documents, score differences and differences of measures."""

import pandas as pd
import pytest

from aragorn.errors import InputError
from aragorn_training.__main__ import main
from aragorn_training.evaluation.comparison import compare_rankings
from tests.conftest import assert_runs, format_run_lines, make_argument


def make_run(rankings, **scores):
    """Build a run of one-letter documents; scores are 10 - rank or those in `scores`."""
    ranked = ((qid, *item) for qid, docnos in rankings.items() for item in enumerate(docnos, 1))
    rows = [(qid, docno, scores.get(docno, 10.0 - rank)) for qid, rank, docno in ranked]
    return pd.DataFrame(rows, columns=["qid", "docno", "score"])


def compare(first, second):
    return compare_rankings(first, second, ("a", "b"))


def test_changes_are_counted_per_topic():
    comparison = compare(
        make_run({"1": "abcd", "2": "xyz", "8": "a"}), make_run({"2": "xyz", "1": "acbe", "9": "a"})
    )
    assert comparison.topics.astype(float).fillna(-1).T.to_dict("list") == {
        # rank correlation of b and c in another order: 1 - 6 · 2 / 24
        "1": [3, 1, 1, 2, 2, 0.5], "2": [3, 0, 0, 0, -1, 1],
    }  # fmt: skip
    assert comparison.topics_of_one_run == (["8"], ["9"])
    ranks = comparison.moves.set_index("docno")[["rank_a", "rank_b"]].fillna(0).T.to_dict("list")
    assert ranks == {"b": [2, 3], "c": [3, 2], "d": [4, 0], "e": [0, 4]}
    assert (comparison.max_score_difference, comparison.max_score_gap) == (1.0, 1.0)
    assert comparison.format_summary().splitlines() == [
        "topics: 2 in both runs", "topics only in a (1): 8", "topics only in b (1): 9",
        "documents in both runs: 6; largest score difference: 1", "1 of 2 rankings differ, first at rank 2",
        "rank correlation of documents in both runs (Spearman): mean 0.750, lowest 0.500 (topic 1)",
        "documents moved: 2, entered: 1, left: 1", "scores of a at the two ranks of a moved document differ by at most 1",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("second", "message"), [({"1": "xy"}, "no common document"), ({"7": "ab"}, "no common topic")]
)
def test_unrelated_runs_are_refused(second, message):
    with pytest.raises(InputError, match=message):
        compare(make_run({"1": "ab"}), make_run(second))


def test_measures_are_compared_by_topic(tmp_path, capsys):
    documents = {"a": {"1": "abc", "2": "abc", "3": "cab", "4": "abc"}}
    documents["b"] = {"1": "acb", "2": "cab", "3": "abc"}
    for name, topics in documents.items():
        (tmp_path / f"{name}.txt").write_text(format_run_lines(topics))
    qrels = "".join(f"{qid} 0 a 1\n{qid} 0 b 0\n{qid} 0 c 0\n" for qid in "1234")
    (tmp_path / "qrels").write_text(qrels)
    runs = [tmp_path / "a.txt", tmp_path / "b.txt"]
    assert_runs(main, "compare", *runs, "--qrels", tmp_path / "qrels", "-o", tmp_path)
    row = pd.read_csv(tmp_path / "measures.csv", index_col="measure").loc["RR"]
    # The relevant document is at ranks 1, 1, 2 in the first run and 1, 2, 1 in the second.
    columns = ["n", "a", "b", "difference", "better", "worse", "tied"]
    assert row[columns].tolist() == pytest.approx([3, 5 / 6, 5 / 6, 0, 1, 1, 1], abs=1e-6)
    assert row["low"] < 0 < row["high"]
    topics = pd.read_csv(tmp_path / "topics.csv")
    assert topics["moved"].tolist() == [2, 3, 3]
    assert topics["Δ nDCG@5"].tolist() == pytest.approx([0, -0.36907, 0.36907], abs=1e-5)
    output = capsys.readouterr().out
    assert "3 of 3 rankings differ, first at rank 1" in output
    assert "\na: a, b: b\ndifference: mean of b - a over n topics" in output


def write_runs(directory, **rankings):
    """Write runs of one topic, tagged with their names, to files <team>-<system>.txt."""
    directory.mkdir()
    for system, docnos in rankings.items():
        text = format_run_lines({"1": docnos}, f"t-{system}")
        (directory / f"t-{system}.txt").write_text(text)
    return str(directory)


def test_directories_are_compared_by_system(tmp_path, capsys):
    first = write_runs(tmp_path / "x", bm25="abc", knrm="abc", sbert="abc", snrm="abc", gru="a")
    second = write_runs(tmp_path / "y", bm25="abc", knrm="acb", sbert="xyz", snrm="abc", drmm="a")
    scores = (tmp_path / "y" / "t-snrm.txt").read_text()
    (tmp_path / "y" / "t-snrm.txt").write_text(scores.replace(" -3 ", " -3.5 "))
    assert main(["compare", first, second]) == 0
    assert [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()] == [
        ["bm25", "equal bytes"],
        ["drmm", "only in y"],
        ["gru", "only in x"],
        ["knrm", "1 of 1 rankings differ, first at rank 2"],
        ["sbert", "no document in common"],
        ["snrm", "equal rankings; 1 score differs by at most 0.5"],
    ]
    assert main(["compare", first, second, "--system", "knrm"]) == 0
    assert capsys.readouterr().out.startswith("topics: 1 in both runs\ndocuments in both runs: 3;")
    files = [f"{first}/t-knrm.txt", f"{second}/t-bm25.txt"]
    assert main(["compare", *files]) == 0
    assert capsys.readouterr().out.startswith("different systems: t-knrm and t-bm25\ntopics: 1")
    run = (tmp_path / "y" / "t-bm25.txt").read_text()
    (tmp_path / "tag.txt").write_text(run.replace("t-bm25", "t\x1b[31m\u202e"))
    assert main(["compare", files[0], str(tmp_path / "tag.txt")]) == 0
    assert capsys.readouterr().out.startswith(r"different systems: t-knrm and t\x1b[31m\u202e")
    (tmp_path / "team.txt").write_text(run.replace("t-bm25", "other-knrm"))
    assert main(["compare", files[0], str(tmp_path / "team.txt")]) == 0
    assert capsys.readouterr().out.startswith("different tags: t-knrm and other-knrm\ntopics: 1")
    for flags, message in (
        ([first, second, "-o", first], "add --system NAME"),
        ([first, second, "--system", "krnm"], "no run of this system; did you mean 'knrm'?"),
        ([*files, "--system", "knrm"], "--system applies to two directories"),
    ):
        assert main(["compare", *flags]) == 2
        assert message in capsys.readouterr().err


def test_runs_are_compared_within_a_collection(make_input, tmp_path, capsys, caplog):
    caplog.set_level("INFO")
    arguments = [*map(make_argument, "abc"), make_argument("s", premise="too short")]
    collection = ["--collection", str(make_input(arguments=arguments))]
    first = write_runs(tmp_path / "x", knrm="axbc", sbert="sab")
    second = write_runs(tmp_path / "y", knrm="ayzbc", sbert="abs")
    assert main(["compare", first, second]) == 0
    assert "knrm   1 of 1 rankings differ, first at rank 2\n" in capsys.readouterr().out
    assert main(["compare", first, second, *collection]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(";")[0] for line in lines] == [
        "knrm   equal rankings", "sbert  equal rankings",
    ]  # fmt: skip
    dropped = "t-knrm.txt: dropped 2 of 5 documents outside the collection; topics left"
    assert dropped in caplog.text
    (tmp_path / "qrels").write_text("1 0 a 1\n1 0 b 0\n1 0 e 1\n")
    flags = ["--system", "knrm", "--qrels", str(tmp_path / "qrels"), "-o", str(tmp_path / "out")]
    assert main(["compare", first, second, *flags, *collection]) == 0
    assert "qrels: dropped 1 of 3 judgments of documents outside the input" in caplog.text
    row = pd.read_csv(tmp_path / "out" / "measures.csv", index_col="measure").loc["nDCG@5"]
    assert row[["a", "b"]].tolist() == [1, 1]  # a, the only relevant document, is first


def test_runs_without_a_system_are_compared_by_file_name(tmp_path, capsys):
    for name in ("x", "y"):
        write_runs(tmp_path / name, a="abc")
        (tmp_path / name / "t-a.txt").rename(tmp_path / name / "run.txt")
    assert main(["compare", str(tmp_path / "x"), str(tmp_path / "y")]) == 0
    assert capsys.readouterr().out == "run  equal bytes\n"
