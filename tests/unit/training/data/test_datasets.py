"""Tests of the readers of published data sets."""

from itertools import combinations

import pandas as pd
import pytest

from aragorn.errors import InputError
from aragorn.storage.atomic_files import sha256_file
from aragorn_training.__main__ import main
from aragorn_training.data import quality
from aragorn_training.data.datasets import sentence_pairs, webis_argquality
from aragorn_training.data.datasets.quality_lists import IBM, UKP
from tests.conftest import REAL_DATA
from tests.unit.training.conftest import write_bws, write_mrpc, write_quality, write_webis

FILES = {  # reader, content and its rows
    "ants-_yes-they-do.csv": (
        UKP.read_list,
        '#id\trank\targument\na1\t0.09\tBOO!\na2\t0.004\tAnts feed; <br/> who\na3\t0.02\tAnts & "so do we".\n',
        [
            ["ants-", "ants yes they do", *values]
            for values in (("a1", "BOO!", -0.09), ("a2", "Ants feed; who", -0.004), ("a3", 'Ants & "so do we".', -0.02))
        ],
    ),
    "We-should-ban-fossil-fuels-(PRO).tsv": (
        IBM.read_list,
        'id\trank\targument\r\n7\t0.25\t"Coal is ""clean""."\r\n3\t0.75\tCoal  warms us.\r\n',
        [
            ["fossil fuels", "We should ban fossil fuels (PRO)", "7", 'Coal is "clean".', 0.25],
            ["fossil fuels", "We should ban fossil fuels (PRO)", "3", "Coal warms us.", 0.75],
        ],
    ),
    "bws.csv": (
        sentence_pairs.read_bws, 'id,argument1,argument2,topic,score\n1,"one, ""two"" ",three  four,Abortion,0.5\n',
        [['one, "two"', "three four", 0.5, "Abortion"]],
    ),
    "mrpc.txt": (
        sentence_pairs.read_mrpc, '\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n0\t1\t1\tone\the said "two\r\n',
        [["one", 'he said "two', 0.0, ""]],
    ),
}  # fmt: skip
UKP_ROW, _, BWS, MRPC = FILES


@pytest.mark.parametrize("name", FILES)
def test_readers_return_the_published_values(name, tmp_path):
    read, content, rows = FILES[name]
    (tmp_path / name).write_text(content, encoding="utf-8", newline="")
    assert read(tmp_path / name).to_numpy().tolist() == rows


def test_webis_reader_returns_grades_and_ranks(tmp_path):
    write_webis(tmp_path)
    table = webis_argquality.read_judgments(tmp_path)
    assert (len(table), table["argument"].sum()) == (48, 42)
    assert table["topic"][0] == "Is pb good?"
    first = table[table["qid"] == "1"].set_index("docno")
    assert first.loc["7-0", ["score", "relevance", "dialectical"]].tolist() == [-4, -4, -4]
    assert first.loc[
        "7-6", ["score", "relevance", "rhetorical", "logical", "dialectical"]
    ].tolist() == [3, 3, 3, 3, -3]
    for model in webis_argquality.MODELS:  # duplicates count once
        assert table.groupby("qid")[model].apply(sorted).tolist() == [list(range(1, 9))] * 6
    ranking = pd.read_csv(tmp_path / webis_argquality.FOLDER / webis_argquality.RANKING, dtype=str)
    row = ranking[
        (ranking["Topic ID"] == "3") & (ranking["Model"] == "DPH") & (ranking["Rank"] == "5")
    ]
    actual = table.set_index(["qid", "docno"]).loc[("3", f"7-{row['Argument ID'].item()}"), "DPH"]
    assert actual == 6


TEXTS, TOPICS, RANKING = (
    f"webis-argquality20-{name}.csv" for name in ("arguments", "topics", "ranking")
)


@pytest.mark.parametrize(("name", "old", "new", "message"), [
    (UKP_ROW, "rank\t", "score\t", "line 1: unexpected header; expected the columns #id, rank, argument"),
    (UKP_ROW, "\tBOO!", "", "line 2: 2 fields; expected 3"),
    (UKP_ROW, "0.004", "low", "line 3: rank is 'low'; expected a number between 0 and 1"),
    (UKP_ROW, "BOO!", " <br/> ", "line 2: empty text"), (UKP_ROW, "a3", "a1", "line 4: duplicate a1"),
    (UKP_ROW, "BOO!", "\udcff", "line 2: not valid UTF-8"),
    (UKP_ROW, FILES[UKP_ROW][1].partition("\n")[2], "", "no rows below the header"),
    (BWS, "0.5", "1.5", "line 2: score is '1.5'; expected a number between 0"),
    (BWS, "Abortion", "Golf", "line 2: unknown topic 'Golf'; expected one of Cloning"),
    (BWS, ' ",', ",", "malformed table"),
    (MRPC, "\n0", "\n2", "line 2: invalid quality '2'; expected 0 or 1"),
    (TEXTS, "\n1,2,7,", "\n9,2,7,", "line 4: topic is '9'; expected one of 1, 2, 3"),
    (TEXTS, "\n1,2,7,", "\n1,1,7,", "line 4: duplicate text 7-1 of topic 1"),
    (TEXTS, ",False,", ",No,", "line 2: Is Argument? is 'No'; expected one of True, False"),
    (TEXTS, ",9,True,-4.0", ",9,True,many", "line 2: Combined Quality is 'many'; expected a number between -10"),
    (TEXTS, ",9,True,-4.0", ',9,"True,-4.0', "malformed table (unexpected end of data)"),
    (TOPICS, "1,Places,", "Places,", "line 2: 3 fields; expected 4"),
    (RANKING, "1,BM25,0,7,", "1,BM25,0,8,", "is not judged in webis-argquality20-arguments.csv"),
    (RANKING, "1,BM25,0,", "1,BM52,0,", "line 2: Model is 'BM52'; expected one of BM25, DPH, DirichletLM"),
])  # fmt: skip
def test_readers_report_file_and_line_of_faults(tmp_path, name, old, new, message):
    file = write_webis(tmp_path) / name
    read, content, _ = (
        FILES[name] if name in FILES else (None, file.read_text(encoding="utf-8"), None)
    )
    assert old in content
    file.write_text(content.replace(old, new, 1), encoding="utf-8", errors="surrogateescape")
    with pytest.raises(InputError) as error_info:
        read(file) if read else webis_argquality.read_judgments(tmp_path)
    assert message in str(error_info.value)
    assert str(file) in str(error_info.value)


@pytest.mark.parametrize(("read", "name", "message"), [
    (UKP.read_list, "ants.csv", "rename it to <debate>_<stance>.csv"),
    (IBM.read_list, "We-like-ants-(PRO).tsv", "autonomous cars"),
])  # fmt: skip
def test_files_of_unknown_debates_are_refused(read, name, message, tmp_path):
    with pytest.raises(InputError, match=message):
        read(tmp_path / name)


@pytest.mark.parametrize(("task", "sizes", "published"), [  # published: sizes of Thakur et al. 2021
    ("bws_cross", [200, 40, 80], [2125, 425, 850]), ("bws_in", [233, 45, 42], [2471, 478, 451]),
    ("mrpc", [67, 11, 12], [4340, 731, 730]),
])  # fmt: skip
def test_disjoint_splits_have_published_sizes(task, sizes, published, tmp_path):
    write_bws(tmp_path, 40)
    write_mrpc(tmp_path)
    similarity = REAL_DATA / "similarity"
    load = sentence_pairs.LOADERS[task]
    published_data = [(similarity, published)] if similarity.is_dir() else []
    for directory, expected in ((tmp_path, sizes), *published_data):
        gold = load(directory, 0)
        parts = [gold.train, gold.dev, gold.test]
        assert [len(part) for part in parts] == expected
        assert gold.is_binary == (task == "mrpc")
        assert len(pd.concat(parts).drop_duplicates(["first", "second"])) == sum(expected)
        for first, second in combinations(parts, 2) if task != "bws_in" else ():
            assert not {*first["first"], *first["second"]} & {*second["first"], *second["second"]}
        if task == "bws_cross":
            actual = [set(part["topic"]) for part in parts]
            assert actual == [set(topics) for topics in sentence_pairs.CROSS_TOPIC_SPLITS]
    first, again, reseeded = (load(tmp_path, seed) for seed in (0, 0, 1))
    assert first.train.equals(again.train)
    assert first.dev.equals(reseeded.dev) == (task == "bws_cross")
    with pytest.raises(InputError, match="cannot be read"):
        load(tmp_path / "none", 0)


def test_prepare_quality_writes_one_table_per_data_set(tmp_path, capsys):
    data = tmp_path / "data"
    work = tmp_path / "work"
    command = ["prepare", "quality", "-i", str(data), "--work-dir", str(work)]
    data.mkdir()
    assert main(command) == 3
    assert f"no data set; download one into its folder ({UKP.folder}" in capsys.readouterr().err
    (data / IBM.folder).mkdir()
    assert main(command) == 3
    assert f"{IBM.folder}: no .tsv files" in capsys.readouterr().err
    (data / IBM.folder).rmdir()
    write_quality(data)
    # found in the other directory
    (tmp_path / "other").mkdir()
    (data / webis_argquality.FOLDER).rename(tmp_path / "other" / webis_argquality.FOLDER)
    command += ["-i", str(tmp_path / "other")]
    assert main(command) == 0
    expected = {file.name: sha256_file(file) for file in UKP.list_files(data)}
    assert quality.load_source_hashes(work, "ukp") == expected
    expected = {"ukp": (160, 32, 16), "ibm": (88, 22, 11), "webis": (48, 6, 6)}
    for name, sizes in expected.items():
        table = quality.load_table(work, name)
        assert (len(table), table["topic"].nunique(), table["debate"].nunique()) == sizes
        by_topic = table.assign(words=table["premise"].str.split().str.len()).groupby("topic")
        assert (by_topic[["words", "score"]].corr(method="spearman").iloc[::2, 1] > 0.99).all()
    judgments = quality.load_table(work, "webis")
    assert judgments.equals(quality.load_table(work, "webis"))
    file = data / UKP.folder / "is-pa-0-good-_no.csv"
    file.write_text(file.read_text().replace("So", "Thus", 1))
    assert main(command) == 5
