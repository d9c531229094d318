"""Tests of the training command line: subcommands, measures and conflicting arguments."""

import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pandas as pd
import pytest

from aragorn.errors import InputError
from aragorn.paths import PROJECT_DIR
from aragorn_training import options
from aragorn_training.__main__ import main
from aragorn_training.commands import STUDIES
from aragorn_training.data.word_vectors import check_vectors
from aragorn_training.report.published import RESULTS
from tests.conftest import assert_runs, make_argument
from tests.contract.input_files import write_files

QRELS = ["-i", "in", "--qrels", "qrels"]


def test_missing_package_is_named():
    command = [sys.executable, "-S", "-m", "aragorn_training", "evaluate", "run", "--qrels", "file"]
    process = subprocess.run(command, cwd=PROJECT_DIR, capture_output=True, text=True, check=False)
    assert (process.returncode, process.stderr.count("\n")) == (2, 1)
    command = "install the packages for training with `submission/install.sh training`"
    assert f"pandas is not installed in {sys.executable}; {command}" in process.stderr


def find_shipped_tables(module):
    """Return the tables of training/results that a study has written, without its further ones."""
    name = import_module(f"aragorn_training.studies.{module}").FILE.removesuffix(".csv")
    pattern = re.sub("[{].*?[}]", "*", name)
    files = RESULTS.glob(f"{pattern}.csv") if name else ()
    further = ("augmented_sbert_students.csv", "augmented_sbert_sweeps.csv", "trials_means.csv")
    return [file for file in files if file.name == f"{name}.csv" or file.name not in further]


def run_until_exit(command, code, capsys):
    """Run a command that exits with `code` while parsing; return its output."""
    with pytest.raises(SystemExit) as exit_info:
        main(command)
    assert exit_info.value.code == code
    return "".join(capsys.readouterr())


@pytest.mark.parametrize(("command", "message"), [
    (["fit", "deepct", "--work-dir", "work"], "prepare passages -i INPUT --work-dir work --exclude-qrels FILE`"),
    (["fit", "vanilla_bert_distilled", "--work-dir", "work"],
     "prepare distillation -i INPUT --work-dir work` or `aragorn-training prepare labels -i INPUT --work-dir work`"),
    (["fuse", "fusion", "--work-dir", "work"], "add -i and --qrels"),
    (["fuse", "ensemble", "--work-dir", "work", "--qrels", "qrels"], "remove --qrels"),
    (["tune", "tfr_bert", *QRELS], "no --work-dir; add the directory prepared by `prepare quality`"),
    (["tune", "tfr_bert", *QRELS, "--qrels", "b=b"], "2 qrels files; pass exactly one --qrels"),
    (["tune", "dirichlet", *QRELS], "no output directory; add -o DIR or --work-dir WORK_DIR"),
])  # fmt: skip
def test_missing_inputs_are_named(command, message, tmp_path, monkeypatch, capsys):
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path)
    assert main(command) == (3 if command[0] == "fit" else 2)
    assert message in capsys.readouterr().err


def test_the_command_for_missing_vectors_is_complete(tmp_path):
    message = "prepare vectors --work-dir work --surface-tokens word2vec --dimensions 100`"
    with pytest.raises(InputError, match=message):
        check_vectors(tmp_path, Path("work"), "word2vec", 100)


@pytest.mark.parametrize(
    ("module", "file"),
    [(module, file) for module in STUDIES for file in find_shipped_tables(module)],
)
def test_first_columns_are_those_of_the_shipped_tables(module, file):
    columns = import_module(f"aragorn_training.studies.{module}").FIRST_COLUMNS
    assert [*pd.read_csv(file, nrows=0).columns[:3]] == [*columns]


@pytest.mark.parametrize("name", [name.replace("_", "-") for name in STUDIES])
def test_studies_are_found_by_their_modules(name, capsys):
    text = run_until_exit(["study", name, "--help"], 0, capsys)
    assert "--work-dir WORK_DIR" in text
    assert "exit codes" in text


@pytest.mark.parametrize(("text", "name"), [
    ("bm25-b0.4", "bm25-b0.4"), ("runs/bm25-b0.75", "bm25-b0.75"), ("input.BM25.gz", "input.BM25"), ("v1.2.txt", "v1.2"),
    ("a.RUN.GZ", "a"), ("touche.qrels", "touche"), (".txt", ".txt"), (".", "work.d"), ("M\udcfcller.txt", "M\\xfcller"),
    ("\udcfc=a", "\\xfc"), ("\udcc3\udcbc.run", "ü"), ("v=run.txt", "v"),
    (f"{'v' * 300}=run.txt", "v" * 300),
])  # fmt: skip
def test_names_keep_dots_and_escape_bytes(text, name, tmp_path, monkeypatch):
    (tmp_path / "work.d").mkdir()
    monkeypatch.chdir(tmp_path / "work.d")
    assert options.parse_named_path(text)[0] == name


@pytest.mark.parametrize("table_format", ["table", "csv", "json", "latex", "markdown"])
def test_tables_show_no_control_character(table_format, tmp_path, capsys):
    write_files(tmp_path / "in", {"t\x1b[31m\n.txt": "1 Q0 a 1 2 t\n", "q": "1 0 a 1\n"})
    command = ["evaluate", f"{tmp_path}/in/t\x1b[31m\n.txt", "--qrels", f"{tmp_path}/in/q"]
    assert main([*command, "--format", table_format]) == 0
    output = capsys.readouterr().out
    assert "\x1b" not in output
    assert "[31m" in output


def test_undecodable_names_are_written_escaped(tmp_path, capsys, caplog):
    caplog.set_level("CRITICAL")  # pytest-xdist cannot transfer a log with undecodable names
    run = "".join(f"1 Q0 {docno} {rank} {9 - rank} t\n" for rank, docno in enumerate("abcd", 1))
    names = "t-M\udcfcller", "t-\udcf6", "run"
    files = write_files(
        tmp_path / "d\udcff",
        {f"{name}.txt": run for name in names} | {"q\udcfc.qrels": "1 0 a 1\n1 0 x 0\n"},
    )
    tables = tmp_path / "t\udcff"
    directory = str(files)
    flags = ["--qrels", files / "q\udcfc.qrels", "-o", tables, "--baseline", "t-\udcf6"]
    assert_runs(main, "evaluate", *flags, *(files / f"{name}.txt" for name in names))
    assert r"q\xfc,t-M\xfcller," in (tables / "means.csv").read_text()
    assert r"better or worse than t-\xf6" in capsys.readouterr().out
    assert main(["overlap", directory]) == 0
    assert (files / "analysis" / "jaccard.csv").read_text().startswith(r"system,M\xfcller,\xf6")
    source = write_files(
        tmp_path / "in\udcff",
        {"topics.xml": "<t><topic><number>1</number><title>z</title></topic></t>"},
    )
    (source / "args-me.json").write_text(
        json.dumps({"arguments": [make_argument(docno) for docno in "abcdx"]})
    )
    assert_runs(main, "report", directory, "-i", source, "--qrels", files / "q\udcfc.qrels")
    assert r"q\xfc (" in (files / "report.html").read_text()
    message = r"'w\udcfc': not UTF-8, as Parquet requires; rename the directory"
    assert message in run_until_exit(
        ["tune", "dirichlet", *QRELS, "--work-dir", "w\udcfc"], 2, capsys
    )
