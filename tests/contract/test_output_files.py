"""Tests that commands replace files of the same kind only, and write through no link."""

import json

import pytest

from aragorn_training.__main__ import main as training
from aragorn_training.studies.similarity import Options
from tests.conftest import format_run_lines, make_argument
from tests.contract.input_files import touche, write_files

COMMANDS = {  # arguments; two of its files
    "evaluate": ("evaluate a-x.txt --qrels q -o out", "means.csv", "per_topic.csv"),
    "compare": ("compare a-x.txt b-y.txt -o out", "topics.csv", "moves.csv"),
    "overlap": ("overlap . -o out", "jaccard.csv", "jaccard.png"),
    "report": ("report . -i in --qrels q --baseline x -o out/report.html", "report.html", "report.html"),
    "check": ("check -i in --no-checkpoints --mismatched-ids out/ids", "ids", "ids"),
}  # fmt: skip


@pytest.fixture
def work(tmp_path, monkeypatch):
    """Change to a directory with an input, two runs and qrels."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    arguments = [make_argument(f"S1-A{docno}") for docno in "abcd"]
    write_files(tmp_path / "in", touche(json.dumps({"arguments": arguments})))
    docnos = [argument["id"] for argument in arguments]
    (tmp_path / "a-x.txt").write_text(format_run_lines({"1": docnos, "2": docnos}))
    (tmp_path / "b-y.txt").write_text(format_run_lines({"1": docnos[::-1], "2": docnos}))
    (tmp_path / "q").write_text("1 0 S1-Aa 2\n1 0 S1-Ac 1\n2 0 S1-Ab 1\n")
    return tmp_path


@pytest.fixture
def run(call):
    """Return a function that runs a command of COMMANDS."""

    def run(command):
        arguments = COMMANDS[command][0].split()
        return call(*arguments, **({} if command == "check" else {"program": training}))

    return run


@pytest.mark.parametrize("command", COMMANDS)
def test_only_files_of_the_command_are_replaced(command, work, run, monkeypatch):
    """Run a command twice, then with another program's file and with a link in the place of an
    output."""
    monkeypatch.setattr("aragorn_training.report.report._bundle_library", lambda: "")  # slow
    for _ in range(2):
        code, text = run(command)
        assert code == 0, text
    _, name, linked_name = COMMANDS[command]
    file = work / "out" / name
    content = file.read_bytes()
    file.write_text("theirs")
    code, text = run(command)
    assert (code, f"{name}: a file of another program; move it away" in text) == (5, True)
    assert file.read_text() == "theirs"
    file.write_bytes(content)
    link = work / "out" / linked_name
    content = link.rename(work / "victim").read_bytes()
    link.symlink_to(work / "victim")
    code, text = run(command)
    assert (code, f"{linked_name}: a symbolic link, through which" in text) == (5, True)
    assert (work / "victim").read_bytes() == content


@pytest.mark.parametrize(
    ("command", "name"),
    [("evaluate", "per_topic.csv"), ("compare", "moves.csv"), ("overlap", "spearman-topics.csv")],
)
def test_no_file_is_written_if_one_is_refused(command, name, work, run):
    (work / "out" / name).write_text("theirs")
    code, text = run(command)
    assert (code, f"{name}: a file of another program; move it away" in text) == (5, True)
    assert [file.name for file in (work / "out").iterdir()] == [name]


def test_table_of_another_study_is_refused_before_the_computation(work, call, monkeypatch):
    def fail(options: Options):
        raise AssertionError

    monkeypatch.setattr("aragorn_training.studies.similarity.run", fail)
    arguments = ["study", "similarity", "-i", "in", "--work-dir", "w", "-o", "out/table.csv"]
    table = work / "out" / "table.csv"
    table.write_text("item,row,measure\n")
    code, text = call(*arguments, program=training)
    assert (code, "table.csv: a file of another program; move it" in text) == (5, True)
    assert table.read_text() == "item,row,measure\n"
    table.write_text("term,similarity,conclusions,related\n")
    with pytest.raises(AssertionError):
        call(*arguments, program=training)


def test_picture_without_its_table_is_not_replaced(work, run):
    picture = work / "out" / "jaccard.png"
    picture.write_bytes(b"\x89PNG\r\n theirs")
    code, text = run("overlap")
    assert (code, "jaccard.png: a file of another program" in text) == (5, True)
    assert picture.read_bytes().endswith(b"theirs")


def test_tables_of_other_measures_and_empty_files_are_replaced(work, run, call):
    (work / "out" / "means.csv").touch()
    assert run("evaluate")[0] == 0
    before = (work / "out" / "per_topic.csv").read_text()
    arguments = COMMANDS["evaluate"][0].split()
    assert call(*arguments, "--measure", "P@3", program=training)[0] == 0
    assert "P@3" in (work / "out" / "per_topic.csv").read_text() != before


@pytest.mark.parametrize("command", ["tune dirichlet", "fuse fusion"])
@pytest.mark.parametrize("is_link", [False, True])
def test_other_directories_are_no_output_of_checkpoints(is_link, command, work, call):
    thesis = work / "theirs" / "thesis.txt"
    thesis.parent.mkdir()
    thesis.write_text("text")
    (work / "link").symlink_to(thesis.parent)
    output = "link" if is_link else "theirs"
    paths = f"--qrels q --work-dir w -i in -o {output}"
    code, text = call(*command.split(), *paths.split(), program=training)
    message = "a symbolic link" if is_link else "not a checkpoint directory; move it away"
    assert (code, f"{output}: {message}" in text, thesis.read_text()) == (5, True, "text")
