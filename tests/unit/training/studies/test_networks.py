"""Tests of the studies of similarity and rankings, as in Entezari 2020."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import safetensors.numpy

from aragorn.errors import InputError
from aragorn.systems.catalogue import ENSEMBLE_MEMBERS
from aragorn.systems.weighted_sum import Member, WeightedSum
from aragorn_training.__main__ import main
from aragorn_training.studies import similarity
from tests.conftest import argv, assert_runs, format_run_lines, make_argument, write_parameters

CONCLUSIONS = ["Abortion legal", "Legal abortion", "Golf sport", "Cats pets", "Dogs pets"]


@pytest.fixture
def vectors(tmp_path):
    """Create word vectors; "legal" and "sport" have the same direction, "golf" is unknown."""
    folder = tmp_path / "vectors"
    folder.mkdir()
    (folder / "vocabulary.txt").write_text("abortion\nlegal\nsport\ncats\ndogs\npets\n")
    table = np.array([[1, 0], [0, 1], [0, 2], [-1, 0], [-1, 0], [-1, 0]], dtype=np.float32)
    safetensors.numpy.save_file({"vectors": table}, folder / "vectors.safetensors")
    return folder


def test_similarities_of_conclusions(make_input, vectors):
    directory = make_input(
        arguments=[make_argument(str(row), text) for row, text in enumerate(CONCLUSIONS)]
    )
    options = similarity.Options(inputs=(directory,), work_dir=vectors.parent)
    table = similarity.run(options).set_index("similarity")
    assert table[["conclusions", "auc"]].to_numpy().tolist() == [[2, 1], [2, 1], [2, 1]]
    # "legal" is in both conclusions
    related = {"Levenshtein": 0.571, "TF-IDF": 1.0, "averaged word vectors": 1.0}
    assert table["related"].to_dict() == pytest.approx(related, abs=0.001)
    assert table.loc["TF-IDF", "unrelated"] == 0
    with pytest.raises(InputError, match="'golf': in 1 of 5 conclusions"):
        similarity.run(replace(options, terms=("golf",)))


@pytest.mark.slow
def test_rankings_are_described(make_input, tmp_path):
    arguments = [make_argument(docno, f"Corporal punishment {docno}") for docno in "abcd"]
    arguments += [make_argument(f"golf{row}", f"Golf {row}") for row in range(9)]
    directory = make_input([("1", "Is corporal punishment right?")], arguments)
    statistics = json.dumps({"arguments": 4, "most frequent conclusions": {"zoos": 3}})
    files = {"qrels": "1 0 a 2\n1 0 b 0\n", "work/statistics.json": statistics}
    files |= {f"work/{name}-lengths.png": "plot" for name in ("conclusion", "premise")}
    log = json.dumps({"log": [{"step": 1, "epoch": 0.5, "loss": 1.0, "MAP@20": 50.0}]})
    for name in ENSEMBLE_MEMBERS:
        documents = {"1": "dcba" if name == "gru" else "abcd"}
        files[f"runs/t-{name}.txt"] = format_run_lines(documents, f"t-{name}")
        files[f"checkpoints/{name}/metrics.json"] = log
    for file, content in files.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(content)
    members = tuple(Member(name, {}, 100, 1.0, -4.0, 0.0) for name in ENSEMBLE_MEMBERS)
    write_parameters(
        tmp_path / "checkpoints" / "ensemble", WeightedSum("1", "min_max", 0.0, members)
    )
    work = tmp_path / "work"
    flags = argv("--runs", tmp_path / "runs", "--qrels", tmp_path / "qrels", "--work-dir", work)
    flags += argv("-i", directory, "--checkpoints", tmp_path / "checkpoints")
    assert_runs(main, "study networks", *flags)
    index = ["item", "row", "measure"]
    table = pd.read_csv(work / "results" / "networks.csv", index_col=index)["value"]
    expected = {
        ("statistics", "all", "arguments"): "4.0000", ("conclusions", "1", "premises"): "3.0000",
        ("candidates", "all", "maximum"): "4.0000",
        ("first document", "gru", "conclusion"): "Corporal punishment d", ("first document", "knrm", "docno"): "a",
        ("similarity", "gru, knrm", "jaccard"): "1.0000", ("similarity", "gru, knrm", "spearman"): "-1.0000",
        ("evaluation", "knrm", "nDCG@5-touche"): "1.0000", ("evaluation", "ensemble", "nDCG@5-touche"): "1.0000",
        ("evaluation", "gru", "nDCG@5-touche"): "0.6309",
    }  # fmt: skip
    assert {key: table[key] for key in expected} == expected
    assert len([*(work / "results").glob("networks_*.png")]) == 5
