from __future__ import annotations

import numpy as np
import pytest
import torch

from submission.errors import UsageError
from submission.models.padding import pad
from submission.models.ranker import Ranker
from submission.models.rankers.knrm import KNRM
from submission.models.rankers.snrm import SNRM
from training.fitting.cluster_initialisation import ClusterInitialisation, initialise_from_clusters
from training.fitting.initialisation import copy_word_vectors


def build_word_vectors() -> np.ndarray:
    """Build an array (20, 6) of word vectors: word i is of topic i % 4, and all words have a common component."""
    noise = np.random.default_rng(1).normal(0, 0.02, (20, 6))
    return (2 * np.tile(np.eye(4, 6), (5, 1)) + noise + np.array([0, 0, 0, 0, 3, 1])).astype(np.float32)


def build_network(clusters: ClusterInitialisation, seed: int = 0, latent: int = 4) -> SNRM:
    ranker = SNRM(SNRM.Config(22, 6, latent=latent, padded=True, length=0))
    ranker.state_dict()["embedding.weight"].zero_()
    copy_word_vectors(ranker, initialise_from_clusters(ranker, build_word_vectors(), clusters, seed))
    return ranker


@torch.no_grad()
def encode_words(ranker: SNRM) -> np.ndarray:
    return ranker.encode(*pad([[word_id] for word_id in range(2, 22)])).numpy()


def test_latent_terms_are_rarity_weighted_cosines() -> None:
    cosines = encode_words(build_network(ClusterInitialisation(0.0, 0.0)))
    assert cosines.max() == pytest.approx(1, abs=0.01)
    vectors, rarity = encode_words(build_network(ClusterInitialisation(0.5, 1.0))), np.log(np.arange(2, 22)) / np.log(21)
    np.testing.assert_allclose(vectors, np.maximum(cosines - 0.5, 0) * rarity[:, None], rtol=0, atol=1e-6)
    assert ((vectors > 0).sum(1) == 1).all()  # latent terms are the topics of words
    terms = vectors.argmax(1).reshape(5, 4)
    assert (terms == terms[0]).all()
    assert set(terms[0]) == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("ranker", "message"),
    [
        (KNRM(KNRM.Config(22, 6)), "applies only to snrm without hidden layers"),
        (SNRM(SNRM.Config(22, 6, latent=4, hidden=(5,))), "applies only to snrm without hidden layers"),
        (SNRM(SNRM.Config(22, 6, latent=21)), "network.latent is 21, but the vocabulary has only 20 words"),
    ],
)
def test_unsuitable_networks_are_refused(ranker: Ranker, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        initialise_from_clusters(ranker, build_word_vectors(), ClusterInitialisation(), 0)
