"""Tests of tables of labelled pairs."""

import pytest

from aragorn.errors import InputError
from aragorn_training.data.distillation import load_table
from aragorn_training.data.labelled_pairs import Options, prepare_labels

HEADER = "query\ttext\tlabel\n"
ROWS = (
    'zoos\tThey "teach".\t2\ntaxes\tToo  high\t1\nzoos\tCages\t0.5\nidle\tOne\t1\ntaxes\tFair\t0\n'
)


def test_pairs_become_lists_of_queries(tmp_path, caplog):
    caplog.set_level("INFO")
    file = tmp_path / "own.tsv"
    file.write_text(HEADER + ROWS)
    prepare_labels(Options(table=file, work_dir=tmp_path / "work"))
    table, manifest = load_table(tmp_path / "work")
    assert table.to_csv(index=False, header=False).splitlines() == [
        "own.tsv,taxes,taxes,3,Too high,1.0",
        "own.tsv,taxes,taxes,6,Fair,0.0",
        'own.tsv,zoos,zoos,2,"They ""teach"".",2.0',
        "own.tsv,zoos,zoos,4,Cages,0.5",
    ]
    assert (manifest.inputs["data"], manifest.inputs["licence"]) == ("own.tsv", "not stated")
    assert caplog.messages == ["4 labelled pairs of 2 queries"]


def test_csv_files_have_commas_and_quotes(tmp_path):
    file = tmp_path / "own.csv"
    file.write_text('query,text,label\na,"x, ""y""",1\na,z,0\nb,z,1\nb,w,0\n')
    prepare_labels(Options(table=file, work_dir=tmp_path / "work"))
    assert load_table(tmp_path / "work")[0]["premise"].tolist() == ['x, "y"', "z", "z", "w"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("query\ttext\n", "line 1: unexpected header; expected the columns query, text, label"),
        (f"{HEADER}a\tb\n", "line 2: 2 fields; expected 3: query, text, label"),
        (f"{HEADER}a\tb\tgood\n", "line 2: label is 'good'; expected a number between"),
        (f"{HEADER}a\t \t1\n", "line 2: empty text"),
        (f"{HEADER}a\tb\t1\na\tc\t0\nd\te\t1\n", "1 of 2 queries have texts of different labels"),
    ],
)
def test_faults_name_file_and_line(content, message, tmp_path):
    file = tmp_path / "own.tsv"
    file.write_text(content)
    with pytest.raises(InputError, match=message) as error:
        prepare_labels(Options(table=file, work_dir=tmp_path / "work"))
    assert str(file) in str(error.value)
