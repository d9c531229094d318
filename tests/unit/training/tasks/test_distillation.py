"""Test titles, sampled documents and losses of distillation."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import make_argument
from training.data.debates import exclude_paraphrases, read_debate_titles
from training.data.distillation import DistillationSettings, _select_ranks
from training.tasks.distillation import _shift_to_zero


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
    assert exclude_paraphrases([title, "Cats and dogs"], TOPICS) == ([] if is_similar else [title]) + ["Cats and dogs"]


def test_labels_are_relative_to_the_minimum() -> None:
    assert _shift_to_zero(np.array([3.0, -1.0, 0.5]), np.array([0, 2])).tolist() == [4.0, 1.5]


def test_half_of_the_documents_are_top_ranks_and_the_rest_sampled() -> None:
    settings = DistillationSettings(documents_per_title=5)
    samples = [_select_ranks(40, settings, seed).tolist() for seed in (*range(300), 0)]
    assert all(ranks[:3] == [0, 1, 2] and ranks == sorted({*ranks}) and len(ranks) == 5 for ranks in samples)
    assert samples[0] == samples[-1]
    assert {rank for ranks in samples for rank in ranks} == set(range(40))
    assert _select_ranks(4, settings, 3).tolist() == [0, 1, 2, 3]
