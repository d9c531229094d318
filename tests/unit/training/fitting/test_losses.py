from __future__ import annotations

import pytest
import torch

from submission.errors import UsageError
from submission.rankers.base import SiameseRanker
from submission.rankers.gru import GRU
from submission.rankers.knrm import KNRM
from submission.rankers.snrm import SNRM
from training.fitting.losses import Text, hinge, l1, loss


def text(words: int) -> Text:
    """Four texts, the last one shorter than the others."""
    mask = torch.arange(words) < torch.tensor([[words], [words], [words], [words - 2]])
    return torch.randint(2, 30, (4, words)) * mask, mask


def batch() -> tuple[Text, Text, Text]:
    torch.manual_seed(1)
    return text(5), text(12), text(9)


@pytest.mark.parametrize("ranker", [GRU(GRU.Config(30, 8, hidden=4)), SNRM(SNRM.Config(30, 8, latent=10))])
def test_reading_both_premises_at_once_changes_neither_loss_nor_gradients(ranker: SiameseRanker) -> None:
    query, related, unrelated = batch()
    gradients = []
    for compute in (
        lambda: loss(ranker, query, related, unrelated, 1.0, 0.0),
        lambda: hinge(ranker(*query, *related), ranker(*query, *unrelated), 1.0),
    ):
        torch.manual_seed(2)  # dropout's
        value = compute()
        gradients.append([value, *torch.autograd.grad(value, list(ranker.parameters()))])
    assert gradients[0][0] > 0.1
    for ours, apart in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, apart, rtol=0, atol=1e-6)


def test_sparsity_adds_the_norm_of_all_three_vectors() -> None:
    ranker = SNRM(SNRM.Config(30, 8, latent=10))
    texts = batch()
    vectors = [ranker.represent(*part) for part in texts]
    added = loss(ranker, *texts, 1.0, 0.5) - loss(ranker, *texts, 1.0, 0.0)
    assert added.item() == pytest.approx(0.5 * l1(*vectors).item(), abs=1e-6)
    assert added > 0.1


def test_sparsity_of_a_network_without_latent_vectors() -> None:
    for ranker in (GRU(GRU.Config(30, 8, hidden=4)), KNRM(KNRM.Config(30, 8))):
        with pytest.raises(UsageError, match="has no latent vectors"):
            loss(ranker, *batch(), 1.0, 0.5)
