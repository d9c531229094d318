"""Distillation's parts: titles that are no topics, documents for them, and what a network is told to learn of their scores."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from submission.errors import InputError
from submission.models.ranker import Ranker
from tests.conftest import argument
from tests.unit.training.tasks.test_quality import tiny
from training.data.debates import exclude_similar, read_debate_titles
from training.data.distillation import DistillationSettings, _select_ranks, table_path
from training.data.quality import COLUMNS
from training.tasks.distillation import DistillationSpec, DistillationTask

CPU = torch.device("cpu")


def write(file: Path, *contexts: dict[str, object]) -> Path:
    content = json.dumps({"arguments": [argument(f"a{i}") | {"context": c} for i, c in enumerate(contexts)]}).encode()
    file.write_bytes(gzip.compress(content) if file.suffix == ".gz" else b"\xef\xbb\xbf" + content)
    return file


def test_titles_of_discussions_or_pages(tmp_path: Path) -> None:
    files = [
        write(
            tmp_path / "debateorg.json",
            {"discussionTitle": "Ban  the\nbomb!", "sourceTitle": "another | debate.org"},
            {"sourceTitle": "Zoos are prisons | debate.org", "discussionTitle": None},
            {"sourceTitle": "4041313", "discussionTitle": ""},
            {"discussionTitle": "Chess"},
            {"discussionTitle": "Chess 2.0"},
            {},
        ),
        write(tmp_path / "idebate.json.gz", {"discussionTitle": "ban bomb"}, {"discussionTitle": "Arm the police"}),
    ]
    assert read_debate_titles(files) == ["Arm the police", "Ban the bomb!", "Zoos are prisons"]
    assert read_debate_titles(files[::-1]) == ["Arm the police", "ban bomb", "Zoos are prisons"]
    (tmp_path / "idebate.json").write_text('{"arguments": [{"context": {"discussionTitle": 7}}]}')
    with pytest.raises(InputError, match=r"idebate.json: malformed .*discussionTitle"):
        read_debate_titles([tmp_path / "idebate.json"])


TOPICS = ["Should teachers get tenure?", "Is vaping with e-cigarettes safe?", "Should abortion be legal?", "Why?"]


@pytest.mark.parametrize(
    ("title", "is_a_topic"),
    [
        ("Teacher tenure", True),  # both stems of the shorter one
        ("Resolved: in the US, teachers' unions should not have tenure for all", True),  # two of the topic's three
        ("Teachers should be armed", False),  # one
        ("Abotion should be legal", True),  # the ratio of `abotion legal` and `abortion legal` is 96
        ("Abortion", True),  # its only title
        ("legal drugs", False),  # half of each, but a single one
        ("Electric cars are safe to drive in winter and in summer", False),
        ("whys and wherefores", False),  # of a topic that is nothing but stop words
    ],
)
def test_paraphrased_topics_are_excluded(title: str, is_a_topic: bool) -> None:
    assert exclude_similar([title, "Cats and dogs"], TOPICS) == ([] if is_a_topic else [title]) + ["Cats and dogs"]


def test_half_of_the_documents_are_top_ranked() -> None:
    settings = DistillationSettings(documents_per_title=5)
    chosen = _select_ranks(40, settings, 3)
    assert chosen[:3].tolist() == [0, 1, 2]
    assert len(set(chosen)) == 5
    assert (np.diff(chosen) > 0).all()
    assert chosen.tolist() == _select_ranks(40, settings, 3).tolist()
    ranks = {rank for seed in range(300) for rank in _select_ranks(40, settings, seed)}
    assert ranks == set(range(40))
    assert _select_ranks(4, settings, 3).tolist() == [0, 1, 2, 3]
    assert _select_ranks(1, settings, 3).tolist() == [0]


SCORES = {"first": [3.0, -1.0, 0.5], "second": [0.25, 2.0, 1.0]}


def distilled(work: Path, titles: int, loss: str) -> tuple[Ranker, DistillationSpec]:
    """Build a task with a number of titles, all but one for training."""
    rows = [
        ("fusion", f"topic {n}", f"topic {n}", f"d{n}-{i}", f"filler {'topic ' * i}", score)
        for n in range(titles)
        for i, score in enumerate(SCORES["first" if n % 2 else "second"])
    ]
    table_path(work).parent.mkdir(parents=True)
    pd.DataFrame(rows, columns=COLUMNS).to_parquet(table_path(work))
    ranker, tokeniser = tiny()
    return ranker, DistillationTask.load(DistillationSpec(loss, 3), 0, tokeniser, work, CPU)  # type: ignore[arg-type]


@pytest.mark.parametrize("loss", ["mse", "margin_mse"])
def test_loss_uses_scores_above_the_lowest(tmp_path: Path, loss: str) -> None:
    ranker, task = distilled(tmp_path, 2, loss)
    assert (task.list_size, task.number) == (1, 1)
    value = task.loss(ranker, np.array([0]), np.array([0])).item()
    rows = task._lists.rows[0]
    with torch.inference_mode():
        student_scores = ranker(
            *task._read.queries.take(task._read.query[rows], CPU), *task._read.premises.take(task._read.premise[rows], CPU)
        )
    scores = SCORES["first" if task._dev["topic"].iloc[0] == "topic 0" else "second"]  # of the other one
    errors = torch.tensor([scores[int(row)] for row in rows]) - min(scores) - student_scores
    pairs = [(errors[i] - errors[j]) ** 2 for i in range(3) for j in range(i)]
    assert value == pytest.approx(float(errors.square().mean() if loss == "mse" else sum(pairs) / 3), abs=1e-5)
    assert "scored by fusion for debate titles" in task.data


def test_titles_are_held_out_completely(tmp_path: Path) -> None:
    _, task = distilled(tmp_path, 20, "mse")
    assert (task.list_size, task.number) == (18, 2)
    assert len(task._dev) == 2 * 3
    with pytest.raises(InputError, match="1 title; at least 2 are needed"):
        distilled(tmp_path / "one", 1, "mse")
    tokeniser = tiny()[1]
    with pytest.raises(InputError, match=r"lists.parquet: not found; run `python -m training prepare distillation"):
        DistillationTask.load(DistillationSpec(), 0, tokeniser, tmp_path / "none", CPU)
    table_path(tmp_path).write_bytes(b"damaged")
    with pytest.raises(InputError, match=r"lists.parquet: damaged"):
        DistillationTask.load(DistillationSpec(), 0, tokeniser, tmp_path, CPU)
