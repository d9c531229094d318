"""Word-based rankers compared with values of the reference code (see the README of each directory in data/)."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from submission.models.layers import cosine, get_known_mask, log_histogram
from submission.models.rankers.conv_knrm import ConvKNRM
from submission.models.rankers.drmm import DRMM
from submission.models.rankers.gru import GRU
from submission.models.rankers.knrm import KNRM
from training.tasks.pairs import hinge_loss

DATA = Path(__file__).parent / "data"
FIRST = 1  # golden id 1 is id 2 in this code


def load(name: str) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Tensor]]:
    weights, inputs, expected = (load_file(DATA / name / f"{part}.safetensors") for part in ("weights", "inputs", "expected"))
    return {k: v.double() for k, v in weights.items()}, inputs, expected


def table(golden: Tensor) -> Tensor:
    """Convert golden vectors: row 0, for padding and unknown words, becomes two rows of zeros."""
    return torch.cat([torch.zeros(2, golden.shape[1], dtype=torch.float64), golden[1:]])


def ids(golden: Tensor) -> tuple[Tensor, Tensor]:
    """Convert golden ids: 0 is padding after the last word and an unknown word before it; the mask covers unknown words too."""
    inside = golden.flip(1).cumsum(1).flip(1) > 0
    ours = torch.where(golden > 0, golden + FIRST, torch.where(inside, 1, 0))
    return ours, inside


def assert_close(actual: Tensor, expected: Tensor, tolerance: float = 1e-9) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=tolerance)


def knrm() -> tuple[KNRM, dict[str, Tensor], dict[str, Tensor]]:
    weights, inputs, expected = load("knrm_plain")
    network = KNRM(KNRM.Config(vocabulary=81, dimensions=12)).double().eval()
    state = {"embedding.weight": table(weights["embedding"])}
    network.load_state_dict(state | {name: weights[name] for name in ("linear.weight", "linear.bias")})
    return network, inputs, expected


def test_knrm_scores_and_features() -> None:
    network, inputs, expected = knrm()
    query, document = ids(inputs["query_ids"]), ids(inputs["doc_ids"])
    assert_close(network(*query, *document), expected["score_f64"])
    similarity = cosine(network.embedding(query[0]), network.embedding(document[0]))
    assert_close(network.pooling.pool(similarity, get_known_mask(*query), get_known_mask(*document)), expected["features_f64"])


def test_knrm_gradients() -> None:
    network, inputs, expected = knrm()
    query = ids(inputs["query_ids"])
    loss = hinge_loss(network(*query, *ids(inputs["doc_ids"])), network(*query, *ids(inputs["neg_doc_ids"])), margin=1.0)
    loss.backward()
    assert_close(loss.detach(), expected["pair_loss_f64"].squeeze())
    gradients = {name.removeprefix("grad."): value for name, value in expected.items() if name.startswith("grad.")}
    assert len(gradients) == 3
    (words,) = (value for name, value in gradients.items() if "emb" in name)
    assert network.embedding.weight.grad is not None
    assert_close(network.embedding.weight.grad[2:], words[1:])
    (weight,) = (value for value in gradients.values() if value.shape == (1, 21))
    (bias,) = (value for value in gradients.values() if value.shape == (1,))
    assert network.linear.weight.grad is not None
    assert network.linear.bias.grad is not None
    assert_close(network.linear.weight.grad, weight)
    assert_close(network.linear.bias.grad, bias)


def gru() -> tuple[GRU, dict[str, Tensor], dict[str, Tensor]]:
    weights, inputs, expected = load("gru_siamese")
    network = GRU(GRU.Config(vocabulary=81, dimensions=12, hidden=16)).double().eval()
    state = {"embedding.weight": table(weights["embedding"])}
    for ours, theirs in (("ahead", "fw"), ("back", "bw")):
        for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            state[f"{ours}.{part}_l0"] = weights[f"gru.{theirs}.{part}"]
    network.load_state_dict(state | {name: weights[name] for name in ("linear.weight", "linear.bias")})
    return network, inputs, expected


def test_gru_scores_without_padding() -> None:
    network, inputs, expected = gru()
    scores = network(*ids(inputs["query_ids"]), *ids(inputs["doc_ids"]))
    assert_close(scores[:6], expected["score_unpadded_f64"])
    assert scores.isfinite().all()


def test_gru_full_row_equals_the_unpacked_reference() -> None:
    network, inputs, expected = gru()
    query, document = ([part[:1] for part in ids(inputs[name])] for name in ("query_ids", "doc_ids"))
    assert_close(network(*query, *document), expected["score_f64"][:1])
    assert_close(torch.cat([network.encode(*document), network.encode(*query)], 1), expected["rep_f64"][:1])


def test_gru_empty_side_is_the_zero_vector() -> None:
    network, inputs, _ = gru()
    document = [part[6:7] for part in ids(inputs["doc_ids"])]
    assert network.encode(*document).abs().max() == 0


def drmm(smoothing: float = 1e-5) -> tuple[DRMM, tuple[Tensor, Tensor], tuple[Tensor, Tensor], dict[str, Tensor]]:
    weights, inputs, expected = load("drmm")
    network = DRMM(DRMM.Config(vocabulary=82, dimensions=16, smoothing=smoothing)).double().eval()
    state = {"embedding.weight": torch.cat([torch.zeros(2, 16, dtype=torch.float64), weights["embedding"]])}
    for index, name in enumerate(("first", "second", "third")):
        state |= {f"{name}.{part}": weights[f"mlp.{index}.{part}"] for part in ("weight", "bias")}
    network.load_state_dict(state | {"gate.weight": weights["gate.weight"][None]})
    query, document = ((g.add(2) * (g >= 0), g >= 0) for g in (inputs["query_ids"], inputs["doc_ids"]))  # padding is -1
    return network, query, document, expected


def test_drmm_scores() -> None:
    network, query, document, expected = drmm()
    assert_close(network(*query, *document), expected["score_tanh_gated_f64"])


@pytest.mark.parametrize("bins", [1024, 30, 11, 5])
def test_drmm_histograms(bins: int) -> None:
    network, query, document, expected = drmm()
    similarity = cosine(network.embedding(query[0]), network.embedding(document[0]))
    actual = log_histogram(similarity, document[1][:, None], bins, 1e-5, torch.float64)
    real = query[1]
    assert_close(actual[real], expected[f"log_histogram_{bins}"][real].double(), 1e-6)


@pytest.mark.parametrize("bins", [1024, 30, 11, 5])
def test_drmm_bins_of_single_similarities(bins: int) -> None:
    _, inputs, expected = load("drmm")
    similarity = inputs["unit.similarities"][:, None, None]
    histogram = log_histogram(similarity, torch.ones(1, dtype=torch.bool), bins, 1e-5, torch.float32)
    assert histogram.squeeze(1).argmax(-1).tolist() == expected[f"unit.bin_{bins}"].tolist()


def conv_knrm() -> tuple[ConvKNRM, dict[str, Tensor], dict[str, Tensor]]:
    weights, inputs, expected = load("conv_knrm_plain")
    network = ConvKNRM(ConvKNRM.Config(vocabulary=81, dimensions=12)).double().eval()
    state = {"embedding.weight": table(weights["embedding"])}
    for index, name in enumerate(("conv_uni", "conv_bi", "conv_tri")):
        state[f"convolutions.{index}.weight"] = weights[f"{name}.weight"].squeeze(1).transpose(1, 2)
        state[f"convolutions.{index}.bias"] = weights[f"{name}.bias"]
    network.load_state_dict(state | {name: weights[name] for name in ("linear.weight", "linear.bias")})
    return network, inputs, expected


def features(network: ConvKNRM, inputs: dict[str, Tensor]) -> Tensor:
    """Return the input of the network's linear layer."""
    captured: list[Tensor] = []
    handle = network.linear.register_forward_pre_hook(lambda module, values: captured.append(values[0]))
    network(*ids(inputs["query_ids"]), *ids(inputs["doc_ids"]))
    handle.remove()
    return captured[0]


def test_conv_knrm() -> None:
    network, inputs, expected = conv_knrm()
    scores = network(*ids(inputs["query_ids"]), *ids(inputs["doc_ids"]))
    actual = features(network, inputs)
    for row in (0, 7):
        assert_close(scores[row], expected["score_f64"][row])
        assert_close(actual[row], expected["features_f64"][row])
    assert_close(actual[:, :21], expected["features_f64"][:, :21])
