"""Tests of contrastive training and distillation: labels, losses and titles."""

import gzip
import json
from math import log

import numpy as np
import pytest
import torch

from aragorn.models.network import PaddedTexts
from aragorn.models.rankers.snrm import SNRM
from aragorn_training.data.debates import exclude_paraphrases, read_debate_titles
from aragorn_training.data.pair_tables import TrainingPairs, ValidationQueries
from aragorn_training.data.split import CANDIDATES_PER_QUERY
from aragorn_training.fitting.recipe import Recipe, TrainingSettings
from aragorn_training.tasks.contrastive import ContrastiveSpec, ContrastiveTask
from tests.conftest import make_argument

CPU = "cpu"
CONCLUSIONS = [[2, 3], [4], [2, 3], [5, 1]]  # 1 is the unknown word
PREMISES = [[2, 2, 6, 1], [4, 7], [3, 6, 7, 8, 9], [8, 5]]


def build_task(spec, l1_weight=0.0):
    recipe = Recipe(ranker="snrm", training=TrainingSettings(l1_weight=l1_weight), task=spec)
    no_texts = PaddedTexts.from_ids([])
    no_candidates = np.empty((0, CANDIDATES_PER_QUERY), dtype=int)
    queries = ValidationQueries(no_texts, no_texts, no_candidates, np.empty(0), [], [], [])
    pairs = TrainingPairs(
        PaddedTexts.from_ids(CONCLUSIONS), PaddedTexts.from_ids(PREMISES), np.array([1, 0, 3, 2])
    )
    return ContrastiveTask(pairs, queries, recipe, CPU)


def build_network_and_vectors():
    """Build a network; return it with its vectors of CONCLUSIONS and of PREMISES."""
    torch.manual_seed(0)
    ranker = SNRM(SNRM.Config(10, 6, latent=8, padded=True)).double()
    with torch.no_grad():
        inputs = [
            PaddedTexts.from_ids(texts).batch(np.arange(4), CPU)
            for texts in (CONCLUSIONS, PREMISES)
        ]
        queries, premises = (ranker.encode(*texts).numpy() for texts in inputs)
    return ranker, queries, premises


def log_softmax(scores):
    return np.asarray(scores - np.log(np.exp(scores).sum(-1, keepdims=True)))


@pytest.mark.parametrize(("weak_label_weight", "l1_weight"), [(0.0, 0.0), (1.0, 0.0), (0.25, 0.3)])
def test_loss_interpolates_labels_and_adds_l1_penalty(weak_label_weight, l1_weight):
    ranker, queries, premises = build_network_and_vectors()
    spec = ContrastiveSpec(temperature=0.05, weak_label_weight=weak_label_weight, mu=20.0)
    task = build_task(spec, l1_weight)
    scores = queries @ premises.T / 0.05
    # without other premises of the same conclusion
    allowed = [[0, 1, 3], [0, 1, 2, 3], [1, 2, 3], [0, 1, 2, 3]]
    scores_by_row = [log_softmax(scores[row, columns]) for row, columns in enumerate(allowed)]
    hard = -np.mean([scores_by_row[row][allowed[row].index(row)] for row in range(4)])
    labels = np.exp(log_softmax(task.compute_query_log_likelihoods(np.arange(4))))
    weak = -(labels * log_softmax(scores)).sum(1).mean()
    l1 = l1_weight * (queries.sum() + premises.sum()) / 4
    expected = (1 - weak_label_weight) * hard + weak_label_weight * weak + l1
    actual = task.compute_loss(ranker, np.arange(4), np.arange(4)).item()
    assert actual == pytest.approx(expected, abs=1e-5)


def test_query_log_likelihoods_use_dirichlet_smoothing():
    task = build_task(ContrastiveSpec(mu=20.0))
    likelihoods = task.compute_query_log_likelihoods(np.array([0, 3]))
    words = [word for premise in PREMISES for word in premise if word > 1]
    counts = np.bincount(words, minlength=10) + 0.5
    probabilities = counts / counts.sum()
    first = [log((2 + 20 * probabilities[2]) / (3 + 20)) + log(20 * probabilities[3] / (3 + 20)),
             sum(log(20 * probabilities[word] / (2 + 20)) for word in (2, 3))]  # fmt: skip
    second = [log(20 * probabilities[5] / (3 + 20)), log((1 + 20 * probabilities[5]) / (2 + 20))]
    constants = [sum(log(probabilities[word]) for word in words) for words in ((2, 3), (5,))]
    expected = np.array([first, second]) - np.array(constants)[:, None]
    np.testing.assert_allclose(likelihoods, expected, rtol=0, atol=1e-9)


def write_corpus(file, *contexts):
    arguments = [
        make_argument(f"a{index}") | {"context": context} for index, context in enumerate(contexts)
    ]
    content = json.dumps({"arguments": arguments}).encode()
    file.write_bytes(gzip.compress(content) if file.suffix == ".gz" else b"\xef\xbb\xbf" + content)
    return file


def test_debate_titles_are_normalised_and_deduplicated(tmp_path):
    first = write_corpus(
        tmp_path / "debateorg.json",
        {"discussionTitle": "Ban  the\nbomb!", "sourceTitle": "another | debate.org"},
        {"sourceTitle": "Zoos are prisons | debate.org", "discussionTitle": None},
        {"sourceTitle": "4041313", "discussionTitle": ""},
        *({"discussionTitle": "Chess"}, {"discussionTitle": "Chess 2.0"}, {}),
    )
    titles = [{"discussionTitle": "ban bomb"}, {"discussionTitle": "Arm the police"}]
    second = write_corpus(tmp_path / "idebate.json.gz", *titles)
    expected = ["Arm the police", "Ban the bomb!", "Zoos are prisons"]
    assert read_debate_titles([first, second]) == expected
    assert read_debate_titles([second, first]) == ["Arm the police", "ban bomb", "Zoos are prisons"]


TOPICS = ["Should teachers get tenure?", "Is vaping with e-cigarettes safe?"]
TOPICS += ["Should abortion be legal?", "Why?"]


@pytest.mark.parametrize(("title", "is_similar"), [
    ("Teacher tenure", True),  # both stems of the shorter title
    # two of the topic's three stems
    ("Resolved: in the US, teachers' unions should not have tenure for all", True),
    ("Teachers should be armed", False),  # one common stem
    # the edit similarity of `abotion legal` and `abortion legal` is 96 %
    ("Abotion should be legal", True),
    ("Abortion", True),  # its only stem
    ("legal drugs", False),  # half of the stems of each, but only one
    ("whys and wherefores", False),  # stop words only
])  # fmt: skip
def test_titles_similar_to_a_topic_are_excluded(title, is_similar):
    expected = ([] if is_similar else [title]) + ["Cats and dogs"]
    assert exclude_paraphrases([title, "Cats and dogs"], TOPICS) == expected
