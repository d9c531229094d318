"""Tests of the readers of published data sets: values, line of a fault, splits and prepared tables."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import pandas as pd
import pytest

from submission.errors import InputError
from submission.storage.atomic_files import sha256_file
from tests.conftest import REAL_DATA, read_files
from tests.unit.training.conftest import write_bws, write_mrpc
from tests.unit.training.data.quality_files import write_ibm, write_ukp, write_webis
from training.__main__ import main
from training.data.datasets import ibm_argq, ukp_conv_arg_rank, webis_argquality
from training.data.datasets.sentence_pairs import CROSS_TOPIC_SPLITS, LOADERS, PairDataset, read_bws, read_mrpc
from training.data.quality import COLUMNS, load_source_hashes, load_table, load_webis_judgments

UKP = '#id\trank\targument\na1\t0.09\tBOO!\na2\t0.004\tAnts feed their sick; <br/> who\na3\t0.02\tAnts & "so do we".\n'
IBM = 'id\trank\targument\r\n7\t0.25\t"Coal is ""clean""."\r\n3\t0.75\tCoal  warms us.\r\n'


def test_list_readers_return_higher_scores_for_better_arguments(tmp_path: Path) -> None:
    file = tmp_path / "should-ants-vote-_yes-they-should.csv"
    file.write_text(UKP)
    debate = ["should-ants-vote-", "should ants vote yes they should"]
    assert ukp_conv_arg_rank.read_list(file).to_numpy().tolist() == [
        [*debate, "a1", "BOO!", -0.09],
        [*debate, "a2", "Ants feed their sick; who", -0.004],
        [*debate, "a3", 'Ants & "so do we".', -0.02],  # quotation marks are part of the text
    ]
    file = tmp_path / "We-should-ban-fossil-fuels-(PRO).tsv"
    file.write_text(IBM)
    debate = ["fossil fuels", "We should ban fossil fuels (PRO)"]
    assert ibm_argq.read_list(file).to_numpy().tolist() == [
        [*debate, "7", 'Coal is "clean".', 0.25],
        [*debate, "3", "Coal warms us.", 0.75],
    ]


def test_webis_reader_returns_grades_and_ranks(tmp_path: Path) -> None:
    write_webis(tmp_path)
    table = webis_argquality.read_judgments(tmp_path)
    assert (len(table), table["argument"].sum(), table["topic"].unique()[0]) == (48, 42, "Is pb good?")
    first = table[table["qid"] == "1"].set_index("docno")
    assert first.loc["7-0", ["score", "relevance", "dialectical"]].tolist() == [-4, -4, -4]
    assert first.loc["7-6", ["score", "relevance", "rhetorical", "logical", "dialectical"]].tolist() == [3, 3, 3, 3, -3]
    for model in webis_argquality.MODELS:  # duplicates count once
        assert table.groupby("qid")[model].apply(sorted).tolist() == [list(range(1, 9))] * 6
    ranking = pd.read_csv(tmp_path / webis_argquality.FOLDER / webis_argquality.RANKING, dtype=str)
    row = ranking[(ranking["Topic ID"] == "3") & (ranking["Model"] == "DPH") & (ranking["Rank"] == "5")]
    assert table.set_index(["qid", "docno"]).loc[("3", f"7-{row['Argument ID'].item()}"), "DPH"] == 6


READERS: dict[str, tuple[Callable[[Path], pd.DataFrame], str]] = {  # reader, header and a valid row by file
    "ants_yes.csv": (ukp_conv_arg_rank.read_list, "#id\trank\targument\na9\t0.5\tFor\n"),
    "ants.csv": (ukp_conv_arg_rank.read_list, ""),
    "We-like-ants-(PRO).tsv": (ibm_argq.read_list, ""),
    "bws.csv": (read_bws, "id,argument1,argument2,topic,score\n1,one,two,Abortion,0.5\n"),
    "mrpc.txt": (read_mrpc, "Quality\t#1ID\t#2ID\t#1String\t#2String\n0\t1\t1\tone\ttwo\n"),  # without optional spaces
}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("ants_yes.csv", "#id\tscore\targument\n", "line 1: unexpected header; expected the columns #id, rank, argument"),
        ("ants_yes.csv", "{}a8\t0.5\n", "line 3: 2 fields; expected 3"),
        ("ants_yes.csv", "{}a8\tlow\tFor\n", "line 3: rank is 'low'; expected a number between 0 and 1"),
        ("ants_yes.csv", "{}a8\tnan\tFor\n", "line 3: rank is 'nan'"),
        ("ants_yes.csv", "{}a8\t0.5\t <br/> \n", "line 3: empty text"),
        ("ants_yes.csv", "{}a9\t0.5\tFor\n", "line 3: duplicate a9"),
        ("ants_yes.csv", "{}a8\t0.5\t\udcff\n", "line 3: not valid UTF-8"),
        ("ants_yes.csv", "#id\trank\targument\n", "no rows below the header"),
        ("ants.csv", UKP, "unexpected file name; rename it to <debate>_<stance>.csv"),
        ("We-like-ants-(PRO).tsv", IBM, "autonomous cars"),
        ("bws.csv", "{}2,one,two,Abortion,1.5\n", "line 3: score is '1.5'; expected a number between 0"),
        ("bws.csv", "{}2,one, ,Abortion,0.5\n", "line 3: empty text"),
        ("bws.csv", "{}2,one,two,Golf,0.5\n", "line 3: unknown topic 'Golf'; expected one of Cloning"),
        ("bws.csv", '{}2,"one,two\n', "malformed table"),
        ("mrpc.txt", "{}2\t1\t1\tone\ttwo\n", "line 3: invalid quality '2'; expected 0 or 1"),
    ],
)
def test_readers_report_file_and_line_of_faults(tmp_path: Path, name: str, text: str, message: str) -> None:
    read, valid = READERS[name]
    (tmp_path / name).write_text(text.format(valid), errors="surrogateescape")
    with pytest.raises(InputError) as error_info:
        read(tmp_path / name)
    assert message in str(error_info.value)
    assert str(tmp_path / name) in str(error_info.value)


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
def test_webis_reader_reports_file_and_line_of_faults(tmp_path: Path, name: str, old: str, new: str, message: str) -> None:
    file = write_webis(tmp_path) / f"webis-argquality20-{name}.csv"
    text = file.read_text(encoding="utf-8").replace("\r\n", "\n")
    file.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(InputError) as error_info:
        webis_argquality.read_judgments(tmp_path)
    assert message in str(error_info.value)
    assert str(file) in str(error_info.value)


def splits(gold: PairDataset) -> list[pd.DataFrame]:
    return [gold.train, gold.dev, gold.test]


def test_sentence_pair_readers_accept_the_published_formats(tmp_path: Path) -> None:
    pairs = read_bws(write_bws(tmp_path))
    assert pairs.columns.tolist() == ["first", "second", "label", "topic"]
    assert pairs.iloc[0]["first"].endswith(", Cloning 1")  # without quotes and surplus spaces
    assert pairs["topic"].value_counts().tolist() == [10] * 8
    assert pairs["label"].between(0, 1).all()
    assert pairs["label"].nunique() > 3
    train, test = (read_mrpc(file) for file in write_mrpc(tmp_path))
    assert (train["label"].tolist(), len(test)) == ([float(n % 3 > 0) for n in range(66)], 24)
    assert train["second"][2].endswith('said "2')  # quotation marks are part of the text


@pytest.mark.parametrize(
    ("task", "sizes", "published"),  # published: sizes of Thakur et al. 2021
    [
        ("bws_cross", [200, 40, 80], [2125, 425, 850]),
        ("bws_in", [233, 45, 42], [2471, 478, 451]),
        ("mrpc", [67, 11, 12], [4340, 731, 730]),
    ],
)
def test_splits_have_published_sizes_and_are_disjoint(
    task: str, sizes: list[int], published: list[int], tmp_path: Path
) -> None:
    write_bws(tmp_path, 40)
    write_mrpc(tmp_path)
    similarity = REAL_DATA / "similarity"
    for directory, expected in ((tmp_path, sizes), *([(similarity, published)] if similarity.is_dir() else [])):
        gold = LOADERS[task](directory, 0)
        assert [len(split) for split in splits(gold)] == expected
        assert gold.is_binary == (task == "mrpc")
        assert len(pd.concat(splits(gold)).drop_duplicates(["first", "second"])) == sum(expected)
        for first, second in combinations(splits(gold), 2) if task != "bws_in" else ():
            assert not {*first["first"], *first["second"]} & {*second["first"], *second["second"]}
    assert LOADERS[task](tmp_path, 0).train.equals(LOADERS[task](tmp_path, 0).train)
    assert LOADERS[task](tmp_path, 1).dev.equals(LOADERS[task](tmp_path, 0).dev) == (task == "bws_cross")
    with pytest.raises(InputError, match="cannot be read"):
        LOADERS[task](tmp_path / "none", 0)


def test_splits_of_bws_follow_the_topics(tmp_path: Path) -> None:
    write_bws(tmp_path, 40)
    cross, inside = (splits(LOADERS[task](tmp_path, 0)) for task in ("bws_cross", "bws_in"))
    assert [set(split["topic"]) for split in cross] == [set(topics) for topics in CROSS_TOPIC_SPLITS]
    for split in inside:
        counts = split["topic"].value_counts()
        assert (len(counts), counts.max() - counts.min() <= 1) == (8, True)


def test_prepare_quality_writes_one_table_per_data_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, work = tmp_path / "data", tmp_path / "work"
    command = ["prepare", "quality", "-i", str(data), "--work-dir", str(work)]
    data.mkdir()
    assert main(command) == 3
    assert f"expected at least one of the folders {ukp_conv_arg_rank.FOLDER}" in capsys.readouterr().err
    (data / ibm_argq.FOLDER).mkdir()
    assert main(command) == 3
    assert f"{ibm_argq.FOLDER}: no .tsv files" in capsys.readouterr().err
    (data / ibm_argq.FOLDER).rmdir()
    write_ukp(data)
    assert main(command) == 0
    ukp_files = read_files(work / "quality")
    assert sorted(ukp_files) == ["ukp.json", "ukp.parquet"]
    assert load_source_hashes(work, "ukp") == {file.name: sha256_file(file) for file in ukp_conv_arg_rank.list_files(data)}
    write_ibm(data)
    write_webis(data)
    assert main(command) == 0
    assert ukp_files.items() < read_files(work / "quality").items()
    sizes = {"ukp": (160, 32, 16), "ibm": (88, 22, 11), "webis": (48, 6, 6)}
    for name, (rows, lists, debates) in sizes.items():
        table = load_table(work, name)
        assert (len(table), table["topic"].nunique(), table["debate"].nunique()) == (rows, lists, debates)
        assert (table.groupby("debate")["topic"].nunique() == lists // debates).all()
        by_topic = table.assign(words=table["premise"].str.split().str.len()).groupby("topic")
        assert (by_topic[["words", "score"]].corr(method="spearman").iloc[::2, 1] > 0.99).all()
    assert load_webis_judgments(work)[COLUMNS].equals(load_table(work, "webis"))

    file = data / ukp_conv_arg_rank.FOLDER / "is-pa-0-good-_no.csv"
    file.write_text(file.read_text().replace("So", "Thus", 1))
    assert main(command) == 5
    assert main([*command, "--overwrite"]) == 0
    assert load_table(work, "ukp")["premise"].str.startswith('"Thus').sum() == 1
