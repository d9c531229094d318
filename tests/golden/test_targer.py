"""TARGER's tagger compared with the reference code, for both RNN cells."""

import json

import pytest
import torch

from aragorn.models.taggers.targer import TARGER
from aragorn_training.tasks.tagging import compute_crf_loss, compute_log_partition, score_tags
from tests.golden.test_word_networks import DATA, load

CELLS = {"targer": "lstm", "targer_gru": "gru"}
CLOSE = {"rtol": 1e-5, "atol": 1e-5}  # the reference computed in float32


def build(name):
    """Return the network, its inputs, the gold tags and the expected values."""
    weights, inputs, expected = load(name)
    tags = tuple(json.loads((DATA / name / "arrays.json").read_text())["meta"]["tags"])[1:-1]
    config = TARGER.Config(17, tags, 102, 10, 5, filters=4, cell=CELLS[name], hidden=12)
    network = TARGER(config).double().eval()
    network.load_state_dict({map_weight_name(key): value for key, value in weights.items()})
    ids = inputs["word_ids"]
    mask = inputs["mask"].bool()
    words = torch.arange(ids.numel()).view_as(ids)  # each token distinct
    texts = (ids.flatten(), inputs["char_ids"].flatten(0, 1), words, mask)
    return network, texts, inputs["tag_ids"], expected


def map_weight_name(theirs):
    """Return this project's name for a weight of the reference code."""
    layer, _, weight = theirs.partition(".")
    names = {"word_embedding": "embedding.weight", "char_embedding": "char_embedding.weight"}
    names["transitions"] = "crf.transitions"
    direction = "backward_rnn" if weight.endswith("_reverse") else "forward_rnn"
    layers = {"char_conv": "convolution", "lstm": direction, "gru": direction}
    layers["emission"] = "emission"
    return names.get(theirs) or f"{layers[layer]}.{weight.removesuffix('_reverse')}"


@pytest.mark.parametrize("name", CELLS)
def test_features_scores_and_best_tags(name):
    network, inputs, tags, expected = build(name)
    _, letters, _, mask = inputs
    emissions = network(*inputs)
    values = {
        "char_features": network.encode_characters(letters).view_as(expected["char_features"]),
        "emissions": emissions.where(mask[..., None], expected["emissions"].double()),
        "gold_score": score_tags(network.crf, emissions, tags, mask),
        "log_partition": compute_log_partition(network.crf, emissions, mask),
    }
    torch.testing.assert_close(values, {name: expected[name].double() for name in values}, **CLOSE)
    assert torch.equal(network.crf.decode(emissions, mask), expected["viterbi"].clamp(min=0))


@pytest.mark.parametrize("name", CELLS)
def test_loss_and_gradients(name):
    network, inputs, tags, expected = build(name)
    loss = compute_crf_loss(network.crf, network(*inputs), tags, inputs[-1])
    torch.testing.assert_close(loss, expected["nll"].double().squeeze(), **CLOSE)
    loss.backward()
    names = [key.removeprefix("grad.") for key in expected if key.startswith("grad.")]
    gradients = {map_weight_name(name): expected[f"grad.{name}"].double() for name in names}
    torch.testing.assert_close(
        {key: value.grad for key, value in network.named_parameters()}, gradients, **CLOSE
    )
    assert all(value.abs().max() > 0 for value in gradients.values())
