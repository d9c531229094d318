"""BERT rankers compared with values of the reference code."""

import json

import pytest
import torch

from aragorn.models.layers import build_histogram, cosine
from aragorn.models.rankers.cedr_drmm import CEDRDRMM
from aragorn.models.rankers.cedr_knrm import CEDRKNRM
from aragorn.models.rankers.vanilla_bert import VanillaBERT
from tests.golden.test_word_networks import DATA, assert_close, load

HEADS = {
    "vanilla_bert": (VanillaBERT, {"linear": "head"}),
    "cedr_knrm": (CEDRKNRM, {"linear": "head"}),
    "cedr_drmm": (CEDRDRMM, {"fc1": "head.hidden", "fc2": "head.out"}),
}
BATCHES = ("short", "split", "edge", "emptyq")
# Rows whose reference values do not depend on the batch: no document is batched with a longer one.
AS_IF_ALONE = {"short": [0, 3], "split": [0, 4], "edge": [1], "emptyq": [0, 1]}


def build(name):
    weights, inputs, expected = load(name)
    meta = json.loads((DATA / name / "arrays.json").read_text())["meta"]
    ranker_class, heads = HEADS[name]
    config = ranker_class.Config(bert=meta["bert_config"], cls=meta["cls_id"], sep=meta["sep_id"])
    ranker = ranker_class(config).double().eval()
    state = {f"encoder.{key}": value for key, value in weights.items() if key.startswith("bert.")}
    for ours, theirs in heads.items():
        state |= {f"{ours}.{part}": weights[f"{theirs}.{part}"] for part in ("weight", "bias")}
    ranker.load_state_dict(state)
    return ranker, inputs, expected


def read_pairs(inputs, batch):
    query = inputs[f"{batch}.query_ids"]
    document = inputs[f"{batch}.doc_ids"]
    return query.clamp(min=0), query >= 0, document.clamp(min=0), document >= 0


@torch.no_grad()
@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("padded", [True, False])
def test_scores_do_not_depend_on_the_batch(name, batch, padded):
    ranker, inputs, expected = build(name)
    scores = expected[f"{batch}.score_alone_f64"]
    query, query_mask, *document = read_pairs(inputs, batch)
    # length of the longest query
    width = query.shape[1] if padded else max(1, int(query_mask.sum(1).max()))
    # Relative above 1: CEDR-DRMM's scores are near 200, from histograms that the reference computes
    # in float32.
    actual = ranker(query[:, :width], query_mask[:, :width], *document)
    torch.testing.assert_close(
        actual, scores, rtol=1e-6 if scores.abs().max() > 1 else 0, atol=1e-6
    )


@torch.no_grad()
@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("batch", BATCHES)
def test_cls_similarities_and_histograms(name, batch):
    ranker, inputs, expected = build(name)
    query, query_mask, document, document_mask = read_pairs(inputs, batch)
    encoded = ranker.encoder(query, query_mask, document, document_mask)
    rows = AS_IF_ALONE[batch]
    assert_close(encoded.cls[rows], expected[f"{batch}.cls_f64"][rows], 1e-6)
    if name == "vanilla_bert" or batch == "split":
        return
    counted = query_mask[:, None, :, None] & document_mask[:, None, None, :]
    similarity = cosine(encoded.query, encoded.document) * counted
    assert_close(similarity[rows], expected[f"{batch}.simmat_f64"][rows].double(), 1e-6)
    if name == "cedr_drmm":
        actual = build_histogram(similarity, counted, 11, 1e-5, torch.float64)
        assert_close(actual[rows], expected[f"{batch}.histogram"][rows].double(), 1e-6)
