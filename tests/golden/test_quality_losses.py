"""Listwise losses compared with values of TF-Ranking."""

import pytest
import torch
from safetensors.torch import load_file

from aragorn_training.fitting.listwise import LOSSES
from tests.golden.test_word_networks import DATA

THEIRS = {
    "mse": "mean_squared_loss", "hinge": "pairwise_hinge_loss", "logistic": "pairwise_logistic_loss", "softmax": "softmax_loss",
    "list_mle": "list_mle_loss", "approx_ndcg": "approx_ndcg_loss",
}  # fmt: skip
CASES = ("ties", "no_ties", "dense_ranks", "large_scores", "pairs")
INPUTS, EXPECTED, EXACT = (
    load_file(DATA / "tfr_losses" / f"{name}.safetensors")
    for name in ("inputs", "expected", "expected_f64")
)
DETERMINED = [  # ListMLE breaks ties at random and counts padding
    (case, name) for case in CASES for name in THEIRS if name != "list_mle" or case == "pairs"
]

# Rows whose equal scores have gradient 0 in the reference and -1/2 in this code.
HAS_EQUAL_SCORES = {("ties", "logistic"): 0, ("pairs", "logistic"): 2}


def compute_loss_and_gradient(name, case, dtype=torch.float64, rows=slice(None)):
    """Compute the loss of a case's lists and its gradient with respect to the scores."""
    labels, scores = (INPUTS[f"{case}.{kind}"][rows].to(dtype) for kind in ("labels", "scores"))
    loss = LOSSES[name](labels, scores.requires_grad_())
    loss.backward()
    return loss.detach().reshape(1), scores.grad


@pytest.mark.parametrize(("case", "name"), DETERMINED)
def test_losses_equal_the_equations_and_the_reference(case, name):
    key = f"{case}.{THEIRS[name]}.estimator"
    loss, gradient = compute_loss_and_gradient(name, case)
    torch.testing.assert_close(
        (loss, gradient), (EXACT[key], EXACT[f"{key}_grad"]), rtol=1e-9, atol=1e-9
    )
    loss, gradient = compute_loss_and_gradient(name, case, torch.float32)
    rows = [row for row in range(len(gradient)) if row != HAS_EQUAL_SCORES.get((case, name))]
    expected = (EXPECTED[key], EXPECTED[f"{key}_grad"][rows])
    torch.testing.assert_close((loss, gradient[rows]), expected, rtol=1e-5, atol=1e-6)


def test_list_mle_without_ties():
    """Compare losses only of the two lists without padding, which the reference counts as items;
    compare all gradients."""
    loss, gradient = compute_loss_and_gradient("list_mle", "no_ties")
    # ln(m!) of 2 and of 3 padded items, in 4 lists
    added = torch.tensor([2.0, 6.0], dtype=torch.float64).log().sum() / 4
    key = "no_ties.list_mle_loss.estimator"
    expected = (EXACT[key] - added, EXACT[f"{key}_grad"])
    torch.testing.assert_close((loss, gradient), expected, rtol=1e-9, atol=1e-9)
    unpadded = compute_loss_and_gradient("list_mle", "no_ties", rows=slice(0, 2))[0]
    theirs = EXPECTED["no_ties.list_mle_loss.per_list"][:2].double().mean(0, keepdim=True)
    torch.testing.assert_close(unpadded, theirs, rtol=1e-6, atol=0)


@pytest.mark.parametrize("case", ["ties", "dense_ranks", "large_scores"])
def test_list_mle_averages_orders_of_ties(case):
    torch.manual_seed(0)
    lowest, highest, mean = (
        EXPECTED[f"{case}.list_mle.tie_{kind}"] for kind in ("min", "max", "mean")
    )
    for row in range(len(mean)):
        padding = (INPUTS[f"{case}.labels"][row] < 0).sum()
        # ln(m!) of m padded items
        added = torch.lgamma(padding + torch.ones(1, dtype=torch.float64))
        rows = slice(row, row + 1)
        losses = added + torch.cat(
            [compute_loss_and_gradient("list_mle", case, rows=rows)[0] for _ in range(300)]
        )
        slack = 1e-6 * highest[row].abs()
        assert lowest[row] - slack <= losses.min()
        assert losses.max() <= highest[row] + slack
        spread = float(highest[row] - lowest[row])
        expected = pytest.approx(mean[row].item(), abs=0.1 * spread + 1e-6 * abs(mean[row].item()))
        assert losses.mean().item() == expected
        assert spread < 1e-9 * highest[row] or losses.unique().numel() > 1
