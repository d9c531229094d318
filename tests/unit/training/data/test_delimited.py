"""Tests of the readers of delimited files: errors name file and line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from submission.errors import InputError
from training.data.datasets import ukp_conv_arg_rank
from training.data.datasets.sentence_pairs import read_bws, read_mrpc

READERS: dict[str, tuple[Callable[[Path], pd.DataFrame], str]] = {  # reader, header and a valid row by file
    "ants_yes.csv": (ukp_conv_arg_rank.read_list, "#id\trank\targument\na9\t0.5\tFor\n"),
    "bws.csv": (read_bws, "id,argument1,argument2,topic,score\n1,one,two,Abortion,0.5\n"),
    # spaces in the header are optional
    "mrpc.txt": (read_mrpc, "Quality\t#1ID\t#2ID\t#1String\t#2String\n0\t1\t1\tone\ttwo\n"),
}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("ants_yes.csv", "#id\tscore\targument\n", "line 1: unexpected header; expected the columns #id, rank, argument"),
        ("ants_yes.csv", "{}a8\t0.5\n", "line 3: 2 fields; expected 3"),
        ("ants_yes.csv", "{}a8\tlow\tFor\n", "line 3: rank is 'low'; expected a number between 0 and 1"),
        ("ants_yes.csv", "{}a8\t-0.5\tFor\n", "line 3: rank is '-0.5'"),
        ("ants_yes.csv", "{}a8\tnan\tFor\n", "line 3: rank is 'nan'"),
        ("ants_yes.csv", "{}a8\t0.5\t <br/> \n", "line 3: empty text"),
        ("ants_yes.csv", "{}a9\t0.5\tFor\n", "line 3: duplicate a9"),
        ("ants_yes.csv", "{}a8\t0.5\t\udcff\n", "line 3: not valid UTF-8"),
        ("ants_yes.csv", "#id\trank\targument\n", "no rows below the header"),
        ("ants_yes.csv", "", "no rows below the header"),
        ("bws.csv", "id,argument1,argument2,topic\n", "line 1: unexpected header; expected the columns id, argument1"),
        ("bws.csv", "{}2,one,two,Abortion,1.5\n", "line 3: score is '1.5'; expected a number between 0"),
        ("bws.csv", "{}2,one, ,Abortion,0.5\n", "line 3: empty text"),
        ("bws.csv", "{}2,one,two,Golf,0.5\n", "line 3: unknown topic 'Golf'; expected one of Cloning"),
        ("bws.csv", '{}2,"one,two\n', "malformed table"),
        ("mrpc.txt", "{}2\t1\t1\tone\ttwo\n", "line 3: invalid quality '2'; expected 0 or 1"),
        ("mrpc.txt", "{}1\t1\t1\t\ttwo\n", "line 3: empty text"),
    ],
)
def test_readers_report_file_and_line_of_bad_rows(tmp_path: Path, name: str, text: str, message: str) -> None:
    read, valid = READERS[name]
    (tmp_path / name).write_text(text.format(valid), errors="surrogateescape")
    with pytest.raises(InputError) as error_info:
        read(tmp_path / name)
    assert message in str(error_info.value)
    assert str(tmp_path / name) in str(error_info.value)
