"""SNRM compared with values of Zamani et al.'s equations and of the reference code (see the README in data/)."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from submission.models.rankers.snrm import SNRM
from tests.golden.test_word_networks import assert_close, load

NAMES, TEXTS = ("snrm", "snrm_hourglass"), ("query", "doc1", "doc2")


def convert_ids(golden: Tensor) -> tuple[Tensor, Tensor]:
    """Return this project's ids and mask for golden ids: 40 is padding; 0, the unknown word, has a vector like other words."""
    real = golden != 40
    return torch.where(real, golden + 2, 0).long(), real


def build(name: str, *, padded: bool = False) -> tuple[SNRM, dict[str, Tensor], dict[str, Tensor]]:
    weights, inputs, expected = load(name)
    convolutions = [value for key, value in sorted(weights.items(), key=lambda item: (item[0] == "conv.w_out", item[0]))
                    if key.startswith("conv.")]  # fmt: skip
    sizes = [value.shape[3] for value in convolutions]
    config = SNRM.Config(vocabulary=42, dimensions=8, latent=sizes[-1], hidden=tuple(sizes[:-1]), padded=padded)
    network = SNRM(config).double().eval()
    state = {"embedding.weight": torch.cat([torch.zeros(2, 8, dtype=torch.float64), weights["embedding"]])}
    state |= {f"layers.{i}.weight": value[0].permute(2, 1, 0) for i, value in enumerate(convolutions)}  # out, in, width
    network.load_state_dict(state)
    return network, inputs, expected


@torch.no_grad()
@pytest.mark.parametrize("name", NAMES)
def test_representations_and_scores(name: str) -> None:
    network, inputs, expected = build(name)
    for text in TEXTS:
        assert_close(network.encode(*convert_ids(inputs[f"{text}_ids"])), expected[f"paper_{text}_repr_f64"])
    dot = (expected["paper_query_repr_f64"] * expected["paper_doc1_repr_f64"]).sum(1)
    assert_close(network(*convert_ids(inputs["query_ids"]), *convert_ids(inputs["doc1_ids"])), dot)
    assert dot.max() > 0


@torch.no_grad()
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("text", TEXTS)
def test_padded_representations_equal_the_reference(name: str, text: str) -> None:
    network, inputs, expected = build(name, padded=True)
    token_ids, mask = convert_ids(inputs[f"{text}_ids"])
    full = mask.all(1)  # for other texts the reference also counts windows of padding
    assert full.any()
    assert_close(network.encode(token_ids, mask)[full], expected[f"{text}_repr_f64"][full])
