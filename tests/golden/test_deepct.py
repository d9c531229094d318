"""DeepCT compared with values of the reference code."""

import json

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from aragorn.models.taggers import TokenAnnotation
from aragorn.models.taggers.deepct import DeepCT, compute_passage_frequencies
from aragorn.text.passages import WordPiecePassageTokeniser
from aragorn_training.tasks.term_weighting import (
    build_piece_targets,
    label_words,
    sum_squared_error,
)
from tests.golden.test_word_networks import DATA, load

TEXT = json.loads((DATA / "deepct" / "text_level.json").read_text())
LENGTH = 24


def reader():
    vocabulary = {piece: token_id for token_id, piece in enumerate(TEXT["vocabulary"])}
    tokenizer = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    return WordPiecePassageTokeniser(tokenizer, 1000, LENGTH - 2)


def passages():
    # the reference reads an empty text as "."
    return [reader().encode(text or ".") for text in TEXT["texts"]]


def network():
    weights, inputs, expected = load("deepct")
    bert = json.loads((DATA / "deepct" / "arrays.json").read_text())["meta"]["bert_config"]
    deepct = DeepCT(DeepCT.Config(bert=bert, cls=2, sep=3, pieces=LENGTH - 2)).double().eval()
    bert_weights = {name: value for name, value in weights.items() if name.startswith("bert.")}
    state = {f"encoder.{name}": bert_weights[name] for name in bert_weights if "pooler" not in name}
    deepct.load_state_dict(
        state | {f"linear.{part}": weights[f"term.{part}"] for part in ("weight", "bias")}
    )
    return deepct, inputs, expected


def strip_special_tokens(inputs):
    """Return ids, mask and targets without [CLS] and [SEP], which the network inserts itself."""
    size = inputs["input_mask"].sum(1, keepdim=True) - 2
    mask = torch.arange(LENGTH - 2) < size
    targets = torch.where(inputs["target_mask"] > 0, inputs["target_weights"].double(), -1.0)
    return inputs["input_ids"][:, 1:-1].long() * mask, mask, targets[:, 1:-1]


def assert_close(actual, expected):
    """Assert equality to 1e-6 of the largest value, since the reference is in float32."""
    torch.testing.assert_close(
        actual, expected.double(), rtol=0, atol=1e-6 * expected.abs().max().item()
    )


def test_word_pieces_and_targets():
    _, inputs, _ = load("deepct")
    ids, mask, targets = strip_special_tokens(inputs)
    for row, (passage, recall) in enumerate(zip(passages(), TEXT["recall"], strict=True)):
        assert passage.piece_ids == ids[row][mask[row]].tolist()
        actual = build_piece_targets(passage, label_words(passage, recall))
        np.testing.assert_array_equal(actual, targets[row][mask[row]].numpy())
    assert (targets > 0).sum() == 8


@pytest.mark.parametrize(
    ("inputs", "expected"), list(zip(TEXT["targets_input"], TEXT["targets"], strict=True))
)
def test_targets_of_word_pieces(inputs, expected):
    pieces, recall = inputs
    passage = reader().encode(" ".join(pieces).replace(" ##", ""))
    targets = build_piece_targets(passage, label_words(passage, recall))
    actual = [np.where(targets < 0, 0, targets).tolist(), (targets >= 0).astype(int).tolist()]
    assert actual == expected[:2]


def test_predictions():
    deepct, inputs, expected = network()
    ids, mask, targets = strip_special_tokens(inputs)
    with torch.no_grad():
        actual = torch.where(targets >= 0, deepct(ids, mask), 0.0)
        assert_close(actual, expected["masked_logits_f32"][:, 1:-1])
        for row, words in enumerate(deepct.annotate(passages())):
            np.testing.assert_allclose(
                [word.weight for word in words], actual[row][targets[row] >= 0].numpy(), rtol=1e-6
            )


def test_loss_and_gradients():
    deepct, inputs, expected = network()
    ids, mask, targets = strip_special_tokens(inputs)
    loss = sum_squared_error(deepct(ids, mask), targets) / (targets >= 0).sum()
    assert_close(loss.detach().reshape(1), expected["loss_f32"])
    loss.backward()
    for ours, theirs in {
        "linear.weight": "tw_output_weights", "linear.bias": "tw_output_bias",
        "encoder.bert.encoder.layer.11.output.dense.weight": "bert.encoder.layer.11.output.dense.weight",
    }.items():  # fmt: skip
        assert_close(deepct.get_parameter(ours).grad, expected[f"grad.{theirs}"])


@pytest.mark.parametrize("scale", [100, 10])
def test_frequencies(scale):
    for line, expected in zip(TEXT["prediction_lines"], TEXT[f"tf_none_{scale}"], strict=True):
        words = []
        for piece, weight in (pair.split() for pair in line.split("\t")):
            if piece.startswith("##"):
                words[-1] = words[-1]._replace(surface=words[-1].surface + piece[2:])
            elif piece != "[SEP]":
                words.append(TokenAnnotation(piece, 0, 0, float(weight)))
        assert compute_passage_frequencies(words, scale) == expected
