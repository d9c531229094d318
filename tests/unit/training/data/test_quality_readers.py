"""Tests of the readers of argument-quality data sets and of the tables prepared from them."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from submission.errors import InputError
from submission.storage.atomic_files import sha256_file
from tests.conftest import read_files
from tests.unit.training.data.quality_files import write_ibm, write_ukp, write_webis
from training.__main__ import main
from training.data.datasets import ibm_argq, ukp_conv_arg_rank, webis_argquality
from training.data.quality import COLUMNS, load_source_hashes, load_table, load_webis_judgments

UKP_TEXT = """#id\trank\targument
a1\t0.09\tBOO!
a2\t0.004\tAnts live in states, share their work and feed their sick; <br/> who carries a burden should be asked where to.
a3\t0.02\tAnts vote with their feet & "so do we".
a4\t0.02\tBOO!
"""


def test_list_readers_return_higher_scores_for_better_arguments(tmp_path: Path) -> None:
    file = tmp_path / "should-ants-vote-_yes-they-should.csv"
    file.write_text(UKP_TEXT)
    table = ukp_conv_arg_rank.read_list(file)
    assert table.sort_values("score")["docno"].tolist() == ["a1", "a3", "a4", "a2"]
    assert table["score"].tolist() == [-0.09, -0.004, -0.02, -0.02]
    assert table["premise"].str.split().str.len().idxmax() == table["score"].idxmax() == 1
    assert "sick; who" in table["premise"][1]
    assert table["premise"][2] == 'Ants vote with their feet & "so do we".'  # quotation marks are part of the text
    assert table["debate"].unique().tolist() == ["should-ants-vote-"]
    assert table["topic"].unique().tolist() == ["should ants vote yes they should"]
    file = tmp_path / "We-should-ban-fossil-fuels-(PRO).tsv"
    file.write_text('id\trank\targument\r\n7\t0.25\t"Coal is ""clean""."\r\n3\t0.75\tCoal  warms us.\r\n')
    assert ibm_argq.read_list(file).to_numpy().tolist() == [
        ["fossil fuels", "We should ban fossil fuels (PRO)", "7", 'Coal is "clean".', 0.25],
        ["fossil fuels", "We should ban fossil fuels (PRO)", "3", "Coal warms us.", 0.75],
    ]
    (tmp_path / "ants.csv").write_text(UKP_TEXT)
    with pytest.raises(InputError, match=r"ants\.csv: unexpected file name; rename it to <debate>_<stance>\.csv"):
        ukp_conv_arg_rank.read_list(tmp_path / "ants.csv")
    with pytest.raises(InputError, match=r"We-like-ants-\(PRO\)\.tsv: cannot determine the debate; .* autonomous cars"):
        ibm_argq.read_list(tmp_path / "We-like-ants-(PRO).tsv")


def test_webis_reader_returns_grades_and_ranks(tmp_path: Path) -> None:
    file = write_webis(tmp_path) / webis_argquality.ARGUMENTS
    table = webis_argquality.read_judgments(tmp_path)
    assert len(table) == 48
    assert table["argument"].sum() == 42
    assert table["topic"].unique()[0] == "Is pb good?"
    first = table[table["qid"] == "1"].set_index("docno")
    assert first.loc["7-0", ["score", "relevance", "dialectical"]].tolist() == [-4, -4, -4]
    assert first.loc["7-6", ["score", "relevance", "rhetorical", "logical", "dialectical"]].tolist() == [3, 3, 3, 3, -3]
    for model in webis_argquality.MODELS:  # duplicates count once
        assert table.groupby("qid")[model].apply(sorted).tolist() == [list(range(1, 9))] * 6
    ranking = pd.read_csv(file.with_name(webis_argquality.RANKING), dtype=str)
    row = ranking[(ranking["Topic ID"] == "3") & (ranking["Model"] == "DPH") & (ranking["Rank"] == "5")]
    assert table.set_index(["qid", "docno"]).loc[("3", f"7-{row['Argument ID'].item()}"), "DPH"] == 6


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("arguments", "\n1,2,7,", "\n9,2,7,", "line 4: topic is '9'; expected one of 1, 2, 3"),
        ("arguments", "\n1,2,7,", "\n1,1,7,", "line 4: duplicate text 7-1 of topic 1"),
        ("arguments", ",False,", ",No,", "line 2: Is Argument? is 'No'; expected one of True, False"),
        ("arguments", ",9,True,-4.0", ",9,True,many", "line 2: Combined Quality is 'many'; expected a number between -10"),
        ("arguments", ",9,True,-4.0", ',9,"True,-4.0', "malformed table (unexpected end of data)"),
        ("topics", "1,Places,", "Places,", "line 2: 3 fields; expected 4"),
        ("ranking", "1,BM25,0,7,", "1,BM25,0,8,", "is not judged in webis-argquality20-arguments.csv"),
        ("ranking", "1,BM25,0,", "1,BM25,first,", "line 2: Rank is 'first'"),
        ("ranking", "1,BM25,0,", "1,BM52,0,", "line 2: Model is 'BM52'; expected one of BM25, DPH, DirichletLM"),
    ],
)
def test_webis_reader_reports_file_and_line_of_bad_rows(tmp_path: Path, name: str, old: str, new: str, message: str) -> None:
    file = write_webis(tmp_path) / f"webis-argquality20-{name}.csv"
    text = file.read_text(encoding="utf-8").replace("\r\n", "\n")
    assert old in text
    file.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(InputError) as error_info:
        webis_argquality.read_judgments(tmp_path)
    assert message in str(error_info.value)
    assert str(file) in str(error_info.value)


def test_prepare_writes_one_table_per_data_set(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    data, work = tmp_path / "data", tmp_path / "work"
    command = ["prepare", "quality", "-i", str(data), "--work-dir", str(work)]
    data.mkdir()
    assert main(command) == 3
    folders = ", ".join((ukp_conv_arg_rank.FOLDER, ibm_argq.FOLDER, webis_argquality.FOLDER))
    assert f"no data set; expected at least one of the folders {folders}" in capsys.readouterr().err
    for folder, message in (
        (ibm_argq.FOLDER, f"{ibm_argq.FOLDER}: no .tsv files"),
        (webis_argquality.FOLDER, "-topics.csv: cannot be read"),
    ):
        (data / folder).mkdir()
        assert main(command) == 3
        assert message in capsys.readouterr().err
        (data / folder).rmdir()

    write_ukp(data)
    assert main(command) == 0
    assert f"{data}: not found: {ibm_argq.FOLDER}, {webis_argquality.FOLDER}" in caplog.text
    assert sorted(read_files(work / "quality")) == ["ukp.json", "ukp.parquet"]
    assert load_source_hashes(work, "ukp") == {file.name: sha256_file(file) for file in ukp_conv_arg_rank.list_files(data)}
    ukp_files = read_files(work / "quality")
    for name in ("ibm", "webis"):
        with pytest.raises(
            InputError, match=rf"{name}\.json: not found; run `python -m training prepare quality -i DIR --work-dir"
        ):
            load_source_hashes(work, name)
    write_ibm(data)
    write_webis(data)
    assert main(command) == 0
    all_files = read_files(work / "quality")
    assert sorted(all_files) == sorted(f"{name}.{suffix}" for name in ("ukp", "ibm", "webis") for suffix in ("json", "parquet"))
    assert {name: all_files[name] for name in ukp_files} == ukp_files

    sizes = {"ukp": (160, 32, 16), "ibm": (88, 22, 11), "webis": (48, 6, 6)}
    for name, (rows, lists, debates) in sizes.items():
        table = load_table(work, name)
        assert table.columns.tolist() == COLUMNS
        assert (len(table), table["topic"].nunique(), table["debate"].nunique()) == (rows, lists, debates)
        assert table["data"].unique().tolist() == [name]
        assert (table.groupby("debate")["topic"].nunique() == lists // debates).all()
        by_topic = table.assign(words=table["premise"].str.split().str.len()).groupby("topic")
        assert (by_topic[["words", "score"]].corr(method="spearman").iloc[::2, 1] > 0.99).all()
    assert load_webis_judgments(work)[COLUMNS].equals(load_table(work, "webis"))
    assert {"relevance", "argument", *webis_argquality.MODELS} < {*load_webis_judgments(work)}
    assert main(command) == 0
    assert read_files(work / "quality") == all_files

    file = data / ukp_conv_arg_rank.FOLDER / "is-pa-0-good-_no.csv"
    file.write_text(file.read_text().replace("So", "Thus", 1))
    capsys.readouterr()
    assert main(command) == 5
    assert "use --overwrite" in capsys.readouterr().err
    assert main([*command, "--overwrite"]) == 0
    assert load_table(work, "ukp")["premise"].str.startswith('"Thus').sum() == 1
