"""Word-based rankers and SNRM compared with values of the reference code.

It differs from the publications: `*_plain` has no IDF; `gru_siamese` reads padding; `snrm*` pads
5-grams with zeros, and has a pointwise hinge loss and no bias. DRMM as in Entezari 2020, table 4.1,
has no reference code; several readings of the table are computed independently.
"""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from aragorn.models.layers import build_histogram, cosine, get_known_mask
from aragorn.models.rankers.conv_knrm import ConvKNRM
from aragorn.models.rankers.drmm import DRMM
from aragorn.models.rankers.gru import GRU
from aragorn.models.rankers.knrm import KNRM
from aragorn.models.rankers.snrm import SNRM
from aragorn_training.tasks.pairs import hinge_loss

DATA = Path(__file__).parent / "data"


def load(name):
    weights, inputs, expected = (
        load_file(DATA / name / f"{part}.safetensors") for part in ("weights", "inputs", "expected")
    )
    return {k: v.double() for k, v in weights.items()}, inputs, expected


def assert_close(actual, expected, tolerance=1e-9):
    torch.testing.assert_close(actual, expected, rtol=0, atol=tolerance)


def convert_ids(golden):
    """Convert golden ids, in which 0 is padding at the end and an unknown word elsewhere."""
    inside = golden.flip(1).cumsum(1).flip(1) > 0
    return torch.where(golden > 0, golden + 1, torch.where(inside, 1, 0)), inside


def build(ranker, weights, **state):
    """Load the reference's word vectors and linear layer, and the weights in `state`."""
    linear = {name: value for name, value in weights.items() if name.startswith("linear.")}
    # Row 0 of golden word vectors, which padding and unknown words share, becomes a row of zeros
    # for each.
    empty = torch.zeros(2, weights["embedding"].shape[1], dtype=torch.float64)
    vectors = torch.cat([empty, weights["embedding"][1:]])
    ranker.double().eval().load_state_dict({"embedding.weight": vectors, **linear, **state})
    return ranker


@pytest.fixture
def knrm():
    weights, inputs, expected = load("knrm_plain")
    return build(KNRM(KNRM.Config(vocabulary=81, dimensions=12)), weights), inputs, expected


def test_knrm_scores_and_features(knrm):
    network, inputs, expected = knrm
    query = convert_ids(inputs["query_ids"])
    document = convert_ids(inputs["doc_ids"])
    assert_close(network(*query, *document), expected["score_f64"])
    similarity = cosine(network.embedding(query[0]), network.embedding(document[0]))
    masks = get_known_mask(*query), get_known_mask(*document)
    assert_close(network.pooling.pool(similarity, *masks), expected["features_f64"])


def test_knrm_gradients(knrm):
    network, inputs, expected = knrm
    query, *documents = (
        convert_ids(inputs[name]) for name in ("query_ids", "doc_ids", "neg_doc_ids")
    )
    loss = hinge_loss(*(network(*query, *document) for document in documents), margin=1.0)
    loss.backward()
    assert_close(loss.detach(), expected["pair_loss_f64"].squeeze())
    gradients = {name: value.grad for name, value in network.named_parameters()}
    assert_close(gradients["embedding.weight"][2:], expected["grad.word_emb.weight"][1:])
    assert_close(gradients["linear.weight"], expected["grad.dense.weight"])
    assert_close(gradients["linear.bias"], expected["grad.dense.bias"])


def test_gru_scores_and_vectors():
    weights, inputs, expected = load("gru_siamese")
    state = {}
    for ours, theirs in (("forward_rnn", "fw"), ("backward_rnn", "bw")):
        for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            state[f"{ours}.{part}_l0"] = weights[f"gru.{theirs}.{part}"]
    network = build(GRU(GRU.Config(vocabulary=81, dimensions=12, hidden=16)), weights, **state)
    query = convert_ids(inputs["query_ids"])
    document = convert_ids(inputs["doc_ids"])
    scores = network(*query, *document)
    assert_close(scores[:6], expected["score_unpadded_f64"])
    assert scores.isfinite().all()
    assert network.encode(*(part[6:7] for part in document)).abs().max() == 0  # an empty document
    # The first row has no padding, which the reference reads.
    query, document = ([part[:1] for part in ids] for ids in (query, document))
    assert_close(network(*query, *document), expected["score_f64"][:1])
    assert_close(
        torch.cat([network.encode(*document), network.encode(*query)], 1), expected["rep_f64"][:1]
    )


def test_drmm_scores_and_histograms():
    weights, inputs, expected = load("drmm")
    network = DRMM(DRMM.Config(vocabulary=82, dimensions=16, smoothing=1e-5)).double().eval()
    empty = torch.zeros(2, 16, dtype=torch.float64)
    state = {"embedding.weight": torch.cat([empty, weights["embedding"]])}
    for index, name in enumerate(("fc1", "fc2", "fc3")):
        state |= {f"{name}.{part}": weights[f"mlp.{index}.{part}"] for part in ("weight", "bias")}
    network.load_state_dict(state | {"gate.weight": weights["gate.weight"][None]})
    # padding is -1
    query, document = (
        (g.add(2) * (g >= 0), g >= 0) for g in (inputs["query_ids"], inputs["doc_ids"])
    )
    assert_close(network(*query, *document), expected["score_tanh_gated_f64"])
    similarity = cosine(network.embedding(query[0]), network.embedding(document[0]))
    for bins in (1024, 30, 11, 5):
        histogram = build_histogram(similarity, document[1][:, None], bins, 1e-5, torch.float64)
        assert_close(
            histogram[query[1]], expected[f"log_histogram_{bins}"][query[1]].double(), 1e-6
        )


@pytest.mark.parametrize("bins", [1024, 30, 11, 5])
def test_drmm_bins_of_single_similarities(bins):
    _, inputs, expected = load("drmm")
    similarity = inputs["unit.similarities"][:, None, None]
    histogram = build_histogram(
        similarity, torch.ones(1, dtype=torch.bool), bins, 1e-5, torch.float32
    )
    assert histogram.squeeze(1).argmax(-1).tolist() == expected[f"unit.bin_{bins}"].tolist()


def test_conv_knrm_scores_and_features():
    weights, inputs, expected = load("conv_knrm_plain")
    state = {}
    for index, name in enumerate(("conv_uni", "conv_bi", "conv_tri")):
        state[f"convolutions.{index}.weight"] = weights[f"{name}.weight"].squeeze(1).transpose(1, 2)
        state[f"convolutions.{index}.bias"] = weights[f"{name}.bias"]
    network = build(ConvKNRM(ConvKNRM.Config(vocabulary=81, dimensions=12)), weights, **state)
    features = []
    network.linear.register_forward_pre_hook(lambda module, values: features.append(values[0]))
    scores = network(*convert_ids(inputs["query_ids"]), *convert_ids(inputs["doc_ids"]))
    rows = [0, 7]  # in the others the reference also counts n-grams of padding
    assert_close(scores[rows], expected["score_f64"][rows])
    assert_close(features[0][rows], expected["features_f64"][rows])
    assert_close(features[0][:, :21], expected["features_f64"][:, :21])


SNRM_NAMES = ("snrm", "snrm_hourglass")
SNRM_TEXTS = ("query", "doc1", "doc2")


def convert_snrm_ids(golden):
    """Convert golden ids, in which 40 is padding and 0 an unknown word with a vector."""
    real = golden != 40
    return torch.where(real, golden + 2, 0).long(), real


def build_snrm(name, *, padded=False):
    weights, inputs, expected = load(name)
    convolutions = [value for key, value in sorted(weights.items(), key=lambda item: (item[0] == "conv.w_out", item[0]))
                    if key.startswith("conv.")]  # fmt: skip
    sizes = [value.shape[3] for value in convolutions]
    config = SNRM.Config(
        vocabulary=42, dimensions=8, latent=sizes[-1], hidden=tuple(sizes[:-1]), padded=padded
    )
    network = SNRM(config).double().eval()
    empty = torch.zeros(2, 8, dtype=torch.float64)
    state = {"embedding.weight": torch.cat([empty, weights["embedding"]])}
    # out, in, width
    state |= {
        f"layers.{i}.weight": value[0].permute(2, 1, 0) for i, value in enumerate(convolutions)
    }
    network.load_state_dict(state)
    return network, inputs, expected


@torch.no_grad()
@pytest.mark.parametrize("name", SNRM_NAMES)
def test_representations_and_scores(name):
    network, inputs, expected = build_snrm(name)
    for text in SNRM_TEXTS:
        vectors = network.encode(*convert_snrm_ids(inputs[f"{text}_ids"]))
        assert_close(vectors, expected[f"paper_{text}_repr_f64"])
    dot = (expected["paper_query_repr_f64"] * expected["paper_doc1_repr_f64"]).sum(1)
    assert_close(
        network(*convert_snrm_ids(inputs["query_ids"]), *convert_snrm_ids(inputs["doc1_ids"])), dot
    )
    assert dot.max() > 0


@torch.no_grad()
@pytest.mark.parametrize("name", SNRM_NAMES)
@pytest.mark.parametrize("text", SNRM_TEXTS)
def test_padded_representations_equal_the_reference(name, text):
    network, inputs, expected = build_snrm(name, padded=True)
    token_ids, mask = convert_snrm_ids(inputs[f"{text}_ids"])
    full = mask.all(1)  # for other texts the reference also counts windows of padding
    assert full.any()
    assert_close(network.encode(token_ids, mask)[full], expected[f"{text}_repr_f64"][full])
