"""Test titles, sampled documents and losses of distillation."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import pandas as pd
import pytest
import torch

from submission.errors import InputError
from submission.models.rankers.tfr_bert import TFRBERT
from submission.text.tokenisers import MaxLengths, WordPieceTokeniser
from tests.conftest import TINY_BERT, build_tiny_tokenizer, make_argument
from training.data.debates import exclude_similar, read_debate_titles
from training.data.distillation import DistillationSettings, _select_ranks, table_path
from training.data.quality import COLUMNS
from training.fitting.recipe import Recipe
from training.tasks.distillation import DistillationSpec

CPU = torch.device("cpu")


def write_corpus(file: Path, *contexts: dict[str, object]) -> Path:
    arguments = [make_argument(f"a{index}") | {"context": context} for index, context in enumerate(contexts)]
    content = json.dumps({"arguments": arguments}).encode()
    file.write_bytes(gzip.compress(content) if file.suffix == ".gz" else b"\xef\xbb\xbf" + content)
    return file


def test_debate_titles_are_normalised_and_deduplicated(tmp_path: Path) -> None:
    first = write_corpus(
        tmp_path / "debateorg.json",
        {"discussionTitle": "Ban  the\nbomb!", "sourceTitle": "another | debate.org"},
        {"sourceTitle": "Zoos are prisons | debate.org", "discussionTitle": None},
        {"sourceTitle": "4041313", "discussionTitle": ""},
        *({"discussionTitle": "Chess"}, {"discussionTitle": "Chess 2.0"}, {}),
    )
    second = write_corpus(tmp_path / "idebate.json.gz", {"discussionTitle": "ban bomb"}, {"discussionTitle": "Arm the police"})
    assert read_debate_titles([first, second]) == ["Arm the police", "Ban the bomb!", "Zoos are prisons"]
    assert read_debate_titles([second, first]) == ["Arm the police", "ban bomb", "Zoos are prisons"]


TOPICS = ["Should teachers get tenure?", "Is vaping with e-cigarettes safe?", "Should abortion be legal?", "Why?"]


@pytest.mark.parametrize(
    ("title", "is_similar"),
    [
        ("Teacher tenure", True),  # both stems of the shorter title
        ("Resolved: in the US, teachers' unions should not have tenure for all", True),  # two of the topic's three stems
        ("Teachers should be armed", False),  # one common stem
        ("Abotion should be legal", True),  # the edit similarity of `abotion legal` and `abortion legal` is 96 %
        ("Abortion", True),  # its only stem
        ("legal drugs", False),  # half of the stems of each, but only one
        ("whys and wherefores", False),  # stop words only
    ],
)
def test_titles_similar_to_a_topic_are_excluded(title: str, is_similar: bool) -> None:
    assert exclude_similar([title, "Cats and dogs"], TOPICS) == ([] if is_similar else [title]) + ["Cats and dogs"]


def test_half_of_the_documents_are_top_ranks_and_the_rest_sampled() -> None:
    settings = DistillationSettings(documents_per_title=5)
    samples = [_select_ranks(40, settings, seed).tolist() for seed in (*range(300), 0)]
    assert all(ranks[:3] == [0, 1, 2] and ranks == sorted({*ranks}) and len(ranks) == 5 for ranks in samples)
    assert samples[0] == samples[-1]
    assert {rank for ranks in samples for rank in ranks} == set(range(40))
    assert _select_ranks(4, settings, 3).tolist() == [0, 1, 2, 3]


SCORES = [[3.0, -1.0, 0.5], [0.25, 2.0, 1.0]]  # of even and odd titles


def load_task(work: Path, titles: int, spec: DistillationSpec | None = None) -> Any:
    """Write a table of scored titles and build a task; a tenth of the titles, at least one, is held out."""
    rows = [
        ("fusion", f"topic {n}", f"topic {n}", f"d{n}-{i}", f"filler {'topic ' * i}", score)
        for n in range(titles)
        for i, score in enumerate(SCORES[n % 2])
    ]
    table_path(work).parent.mkdir(parents=True)
    pd.DataFrame(rows, columns=COLUMNS).to_parquet(table_path(work))
    spec, tokeniser = spec or DistillationSpec(), WordPieceTokeniser(build_tiny_tokenizer(), MaxLengths(20, 30))
    trainee: Any = SimpleNamespace(tokeniser=tokeniser)
    return spec.build_task(Recipe(ranker="tfr_bert", task=spec), trainee, work, CPU)


@pytest.mark.parametrize("loss", ["mse", "margin_mse"])
def test_loss_uses_scores_relative_to_the_minimum(tmp_path: Path, loss: Literal["mse", "margin_mse"]) -> None:
    torch.manual_seed(0)
    bert = {**TINY_BERT, "max_position_embeddings": 64, "vocab_size": build_tiny_tokenizer().get_vocab_size()}
    ranker, task = TFRBERT(TFRBERT.Config(bert=bert, cls=2, sep=3)).eval(), load_task(tmp_path, 2, DistillationSpec(loss, 3))
    value = task.loss(ranker, np.array([0]), np.array([0])).item()
    rows = task._lists.rows[0]
    with torch.inference_mode():
        predictions = ranker(*task._training_pairs(rows))
    scores = SCORES[task._validation["topic"].iloc[0] == "topic 0"]  # of the training title
    errors = torch.tensor([scores[int(row)] for row in rows]) - min(scores) - predictions
    pairs = [(errors[i] - errors[j]) ** 2 for i in range(3) for j in range(i)]
    assert value == pytest.approx(float(errors.square().mean() if loss == "mse" else sum(pairs) / 3), abs=1e-5)
    assert "scored by fusion for debate titles" in task.data_description


def test_whole_titles_are_held_out(tmp_path: Path) -> None:
    task = load_task(tmp_path / "twenty", 20)
    assert (task.train_size, task.validation_size, len(task._validation)) == (18, 2, 2 * 3)
    with pytest.raises(InputError, match="1 title; at least 2 are needed"):
        load_task(tmp_path / "one", 1)
