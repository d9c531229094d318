"""Tests of the studies of conclusions' similarity and of the networks' rankings, as in Entezari
2020."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import safetensors.numpy

from aragorn.errors import InputError
from aragorn.storage.checkpoint_directory import write_with_provenance
from aragorn.systems.catalogue import ENSEMBLE_MEMBERS
from aragorn_training.__main__ import main
from aragorn_training.studies import similarity
from tests.conftest import make_argument

CONCLUSIONS = ["Abortion legal", "Legal abortion", "Golf sport", "Cats pets", "Dogs pets"]


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    """Create word vectors; "legal" and "sport" have the same direction, "golf" is unknown."""
    folder = tmp_path / "vectors"
    folder.mkdir()
    (folder / "vocabulary.txt").write_text("abortion\nlegal\nsport\ncats\ndogs\npets\n")
    table = np.array([[1, 0], [0, 1], [0, 2], [-1, 0], [-1, 0], [-1, 0]], dtype=np.float32)
    safetensors.numpy.save_file({"vectors": table}, folder / "vectors.safetensors")
    return folder


def test_similarities_of_conclusions(make_input: Callable[..., Path], vectors: Path) -> None:
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
def test_rankings_are_described(make_input: Callable[..., Path], tmp_path: Path) -> None:
    arguments = [make_argument(docno, f"Corporal punishment {docno}") for docno in "abcd"]
    arguments += [make_argument(f"golf{row}", f"Golf {row}") for row in range(9)]
    directory = make_input([("1", "Is corporal punishment right?")], arguments)
    qrels, work, runs, checkpoints = (
        tmp_path / name for name in ("qrels", "work", "runs", "checkpoints")
    )
    qrels.write_text("1 0 a 2\n1 0 b 0\n")
    work.mkdir()
    (work / "statistics.json").write_text(
        json.dumps({"arguments": 4, "most frequent conclusions": {"zoos": 3}})
    )
    for name in ("conclusion", "premise"):
        (work / f"{name}-lengths.png").write_bytes(b"plot")
    runs.mkdir()
    members = []
    for name in ENSEMBLE_MEMBERS:
        order = "dcba" if name == "gru" else "abcd"
        lines = [
            f"1 Q0 {docno} {rank} {5 - rank} t-{name}\n" for rank, docno in enumerate(order, 1)
        ]
        (runs / f"t-{name}.txt").write_text("".join(lines))
        (checkpoints / name).mkdir(parents=True)
        log = [{"step": 1, "epoch": 0.5, "loss": 1.0, "MAP@20": 50.0}]
        (checkpoints / name / "metrics.json").write_text(json.dumps({"log": log}))
        members.append(
            {
                "name": name,
                "checkpoints": {},
                "pool_depth": 100,
                "weight": 1.0,
                "minimum": 0.0,
                "maximum": 4.0,
            }
        )
    config = {
        "version": "1",
        "normaliser": "min_max",
        "intercept": 0.0,
        "members": members,
    }
    write_with_provenance(
        checkpoints / "ensemble", {"config.json": json.dumps(config).encode()}, {}
    )
    command = [
        "study",
        "networks",
        "-i",
        str(directory),
        "--work-dir",
        str(work),
        "--runs",
        str(runs),
        "--qrels",
        str(qrels),
    ]
    assert main([*command, "--checkpoints", str(checkpoints)]) == 0
    table = pd.read_csv(work / "results" / "networks.csv", index_col=["item", "row", "measure"])[
        "value"
    ]
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
