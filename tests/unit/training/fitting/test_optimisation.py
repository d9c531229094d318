"""Tests of the initialisation from clusters, of LazyAdam, and of pairwise losses."""

import numpy as np
import pytest
import torch
from torch import nn

from aragorn.errors import UsageError
from aragorn.models.network import pad
from aragorn.models.rankers.gru import GRU
from aragorn.models.rankers.knrm import KNRM
from aragorn.models.rankers.snrm import SNRM
from aragorn_training.fitting.initialisation import copy_word_vectors, initialise_from_clusters
from aragorn_training.fitting.recipe import ClusterInitialisation
from aragorn_training.fitting.task import LazyAdam
from aragorn_training.tasks.pairs import hinge_loss, pairwise_loss


def build_word_vectors():
    """Build word vectors (20, 6): word i is of topic i % 4, and all have something common."""
    noise = np.random.default_rng(1).normal(0, 0.02, (20, 6))
    return (2 * np.tile(np.eye(4, 6), (5, 1)) + noise + np.array([0, 0, 0, 0, 3, 1])).astype(
        np.float32
    )


def build_network(clusters, seed=0, latent=4):
    ranker = SNRM(SNRM.Config(22, 6, latent=latent, padded=True, length=0))
    ranker.state_dict()["embedding.weight"].zero_()
    vectors = initialise_from_clusters(ranker, build_word_vectors(), clusters, seed)
    copy_word_vectors(ranker, vectors)
    return ranker


@torch.no_grad()
def encode_words(ranker):
    return ranker.encode(*pad([[word_id] for word_id in range(2, 22)])).numpy()


def test_latent_terms_are_rarity_weighted_cosines():
    cosines = encode_words(build_network(ClusterInitialisation(0.0, 0.0)))
    assert cosines.max() == pytest.approx(1, abs=0.01)
    vectors = encode_words(build_network(ClusterInitialisation(0.5, 1.0)))
    rarity = np.log(np.arange(2, 22)) / np.log(21)
    expected = np.maximum(cosines - 0.5, 0) * rarity[:, None]
    np.testing.assert_allclose(vectors, expected, rtol=0, atol=1e-6)
    assert ((vectors > 0).sum(1) == 1).all()  # latent terms are the topics of words
    terms = vectors.argmax(1).reshape(5, 4)
    assert (terms == terms[0]).all()
    assert set(terms[0]) == {0, 1, 2, 3}


@pytest.mark.parametrize(("ranker", "message"), [
    (KNRM(KNRM.Config(22, 6)), "applies only to snrm without hidden layers"),
    (SNRM(SNRM.Config(22, 6, latent=4, hidden=(5,))), "applies only to snrm without hidden layers"),
    (SNRM(SNRM.Config(22, 6, latent=21)), "network.latent is 21, but the vocabulary has only 20 words"),
])  # fmt: skip
def test_unsuitable_networks_are_refused(ranker, message):
    with pytest.raises(UsageError, match=message):
        initialise_from_clusters(ranker, build_word_vectors(), ClusterInitialisation(), 0)


# for each step, the row and the gradient of each lookup
REPEATED = [[(1, 0.3), (2, -2.0), (1, 0.5)], [(1, 1.0), (3, -0.2)], [(1, -4.0), (4, 2.0)]]
ROW_STEPS = {"repeated rows": REPEATED, "pauses": [[(1, 2.0)], [(2, 5.0)], [(1, -0.5)]]}
ROW_STEPS["small gradients"] = [[(1, 1e-7), (2, -1e-8)], [(1, 1e-6)]]


@pytest.mark.parametrize("steps", ROW_STEPS.values(), ids=ROW_STEPS)
def test_lazy_adam_updates_only_rows_with_gradients(steps):
    table = nn.Embedding(6, 1, sparse=True)
    optimiser = LazyAdam(table.parameters(), lr=0.1)
    expected = table.weight.detach().double().flatten()
    means = torch.zeros(6, dtype=torch.double)
    squares = torch.zeros(6, dtype=torch.double)
    for step, lookups in enumerate(steps, 1):
        rows, values = (torch.tensor(column) for column in zip(*lookups, strict=True))
        (table(rows).flatten() * values).sum().backward()
        optimiser.step()
        optimiser.zero_grad()
        for row in rows.unique():  # Adam, with the moments of all other rows unchanged
            gradient = values[rows == row].sum().double()
            means[row] = 0.9 * means[row] + 0.1 * gradient
            squares[row] = 0.999 * squares[row] + 0.001 * gradient**2
            denominator = (squares[row] / (1 - 0.999**step)).sqrt() + 1e-8
            expected[row] -= 0.1 * means[row] / (1 - 0.9**step) / denominator
        torch.testing.assert_close(
            table.weight.detach().double().flatten(), expected, rtol=0, atol=1e-6
        )


def build_random_texts(length):
    """Build six random texts: five of `length` words and one that is two words shorter."""
    mask = torch.arange(length) < torch.tensor([[length]] * 5 + [[length - 2]])
    return torch.randint(2, 30, (6, length)) * mask, mask


@pytest.fixture
def batch():
    torch.manual_seed(1)
    return build_random_texts(5), build_random_texts(12), build_random_texts(9)


SNRM_VARIANTS = [
    SNRM(SNRM.Config(30, 8, latent=10, hidden=hidden, padded=padded, length=length))
    for hidden in ((), (5,))
    for padded, length in ((False, 0.5), (True, 1.0))
]


@pytest.mark.parametrize("ranker", [GRU(GRU.Config(30, 8, hidden=4)), *SNRM_VARIANTS])
def test_batched_premises_change_neither_loss_nor_gradients(ranker, batch):
    def compute_gradients(value):
        return [value, *torch.autograd.grad(value, list(ranker.parameters()))]

    query, positive, negative = batch
    torch.manual_seed(2)  # dropout
    batched = compute_gradients(pairwise_loss(ranker, query, positive, negative, 1.0, 0.0))
    torch.manual_seed(2)
    loss = hinge_loss(ranker(*query, *positive), ranker(*query, *negative), 1.0)
    unbatched = compute_gradients(loss)
    assert batched[0] > 0.1
    torch.testing.assert_close(batched, unbatched, rtol=0, atol=1e-6)


def test_l1_penalty_covers_all_latent_vectors(batch):
    ranker = SNRM(SNRM.Config(30, 8, latent=10))
    added = pairwise_loss(ranker, *batch, 1.0, 0.5) - pairwise_loss(ranker, *batch, 1.0, 0.0)
    norms = sum(ranker.encode(*part).abs().sum().item() for part in batch)
    assert added.item() == pytest.approx(0.5 * norms / 6, abs=1e-5)
    for ranker in (GRU(GRU.Config(30, 8, hidden=4)), KNRM(KNRM.Config(30, 8))):
        with pytest.raises(UsageError, match="has no latent vectors"):
            pairwise_loss(ranker, *batch, 1.0, 0.5)
