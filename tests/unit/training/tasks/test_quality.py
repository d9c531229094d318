"""Test held-out debates, losses and training on argument quality."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from msgspec.structs import replace
from torch import Tensor

from submission.errors import InputError
from submission.inference.pretrained import PretrainedEncoder
from submission.models.rankers.tfr_bert import TFRBERT
from submission.text.tokenisers import MaxLengths, WordPieceTokeniser
from tests.conftest import TINY_BERT, build_tiny_tokenizer
from training.data.quality import COLUMNS
from training.fitting.frozen_layer_cache import FrozenLayerCache
from training.fitting.initialisation import build_network, load_pooler_weights, read_encoder_config
from training.fitting.listwise import build_ranked_lists
from training.fitting.listwise_losses import LOSSES
from training.fitting.recipe import EncoderSettings, Recipe, TrainingSettings
from training.studies.argument_quality.fit import score_arguments, train_network
from training.tasks.quality import QualitySpec, QualityTask, mask_held_out_debates

CPU = torch.device("cpu")
LISTS = QualitySpec(("ukp",), list_size=4)
RECIPE = Recipe(
    ranker="tfr_bert",
    network={"dropout": 0.0},
    lengths=MaxLengths(20, 30),
    encoder=EncoderSettings("tiny", frozen_layers=1, learning_rate=1e-3),
    task=LISTS,
    training=TrainingSettings(epochs=8, validations_per_epoch=1, learning_rate=5e-3, batch_size=3, micro_batch_size=1),
)


def arguments(data: str = "ukp", debates: int = 6, per_topic: int = 7) -> pd.DataFrame:
    """Build debates of two topics each, in which the score of an argument is its number of `topic` tokens."""
    rng, rows = np.random.default_rng(len(data) + debates), []
    for topic in range(2 * debates):
        for index in range(per_topic):
            topic_count = rng.integers(0, 9)
            text = " ".join(rng.permutation(["topic"] * topic_count + ["filler"] * (8 - topic_count)))
            rows.append(
                (data, f"d{topic // 2}", f"topic {chr(97 + topic)}", f"{data}-{topic}-{index}", text, float(topic_count))
            )
    return pd.DataFrame(rows, columns=COLUMNS)


@pytest.fixture
def local_encoder(encoder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("submission.inference.pretrained.ENCODER_DIR", encoder.parent)
    return encoder.name


def build_tiny_network(topic: bool = True) -> tuple[TFRBERT, WordPieceTokeniser]:
    torch.manual_seed(0)
    tokenizer = build_tiny_tokenizer()
    bert = {**TINY_BERT, "max_position_embeddings": 64, "vocab_size": tokenizer.get_vocab_size()}
    ranker = TFRBERT(TFRBERT.Config(bert=bert, cls=2, sep=3, topic=topic)).eval()
    return ranker, WordPieceTokeniser(tokenizer, MaxLengths(20, 30))


def test_whole_debates_are_held_out() -> None:
    table = arguments(debates=11)
    held_out = mask_held_out_debates(table, 0)
    assert len(set(table["debate"][held_out])) == 2
    assert not set(table["debate"][held_out]) & set(table["debate"][~held_out])
    assert np.array_equal(held_out, mask_held_out_debates(table, 0))
    assert any(not np.array_equal(held_out, mask_held_out_debates(table, seed)) for seed in range(1, 5))
    two = arguments(debates=2)
    assert len(set(two["debate"][mask_held_out_debates(two, 0)])) == 1
    with pytest.raises(InputError, match="ukp: 1 debate; at least 2 are needed"):
        mask_held_out_debates(arguments(debates=1), 0)


@pytest.mark.parametrize("loss", sorted(set(LOSSES) - {"list_mle"}))
def test_batch_loss_covers_all_lists(loss: str) -> None:
    ranker, tokeniser = build_tiny_network()
    spec = replace(LISTS, loss=loss)
    train = arguments()
    train["premise"] = [" ".join(text.split()[: 8 - row % 5]) for row, text in enumerate(train["premise"])]
    task = QualityTask(train, train, spec, tokeniser, CPU)
    assert (task.train_size, task.validation_size) == (24, 12)
    rows = np.array([5, 0, 11])
    parts: list[Tensor] = [task.loss(ranker, part, rows) for part in (rows[:2], rows[2:])]
    lists, scores = build_ranked_lists(train, 4, "list", loss), torch.full((3, 4), 9.0)
    train_scores = torch.from_numpy(score_arguments(_trainee(ranker, tokeniser), train, CPU))
    for position, row in enumerate(lists.rows[rows]):
        scores[position, : (row >= 0).sum()] = train_scores[row[row >= 0]]
    value = LOSSES[loss](torch.from_numpy(lists.labels[rows]), scores)
    torch.testing.assert_close(sum(parts).detach(), value, rtol=1e-4, atol=1e-6)  # type: ignore[union-attr]


def _trainee(ranker: TFRBERT, tokeniser: WordPieceTokeniser) -> Any:
    return SimpleNamespace(network=ranker, tokeniser=tokeniser)


def test_scores_are_in_the_order_of_rows() -> None:
    trainee, table, order = _trainee(*build_tiny_network()), arguments(), np.random.default_rng(0).permutation(84)
    scores = score_arguments(trainee, table, CPU)
    assert len(set(scores.tolist())) > 20
    assert np.allclose(score_arguments(trainee, table.iloc[order], CPU), scores[order], atol=1e-6)


def test_network_is_initialised_with_the_pooler_of_its_encoder(local_encoder: str) -> None:
    ranker = build_network(RECIPE, Path(), Path()).network
    pooler = load_pooler_weights(PretrainedEncoder(local_encoder))
    assert set(pooler) == {"pooler.weight", "pooler.bias"}
    assert all(torch.equal(ranker.state_dict()[name], value) for name, value in pooler.items())
    groups = build_network(RECIPE, Path(), Path()).build_optimiser(5e-3, 1e-3).param_groups
    assert [group["lr"] for group in groups] == [5e-3, 1e-3]
    assert [len(group["params"]) for group in groups] == [4, 3 * 16]  # pooler and linear; three blocks


def test_training_orders_arguments_of_other_debates(local_encoder: str) -> None:
    table = arguments()
    test, dev = table["debate"] == "d5", table["debate"] == "d4"
    network = train_network(RECIPE, table[~test & ~dev], table[dev], CPU)
    scores = score_arguments(network, table[test], CPU)
    assert np.corrcoef(scores, table[test]["score"])[0, 1] > 0.8


def train_weights(recipe: Recipe) -> dict[str, Tensor]:
    table = arguments()
    dev = (table["debate"] == "d4").to_numpy()
    return train_network(recipe, table[~dev], table[dev], CPU).network.state_dict()


SHORT = replace(RECIPE, training=replace(RECIPE.training, epochs=2))


def test_seed_and_best_validation_determine_the_network(local_encoder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shared: dict[object, FrozenLayerCache] = {}
    monkeypatch.setattr("training.studies.argument_quality.fit._FROZEN_LAYERS", shared)
    first, repeated, reseeded = (train_weights(replace(SHORT, seed=seed)) for seed in (0, 0, 1))
    assert all(torch.equal(value, repeated[name]) for name, value in first.items())
    assert not torch.equal(first["linear.weight"], reseeded["linear.weight"])
    assert {name.split("layer.")[1][0] for name in first if "layer." in name} == {*"012"}  # one of four blocks is shared
    [frozen] = shared.values()
    assert len(frozen._cache) == len(arguments()[["topic", "premise"]].drop_duplicates())

    one_epoch = train_weights(replace(RECIPE, training=replace(RECIPE.training, epochs=1)))
    for correlations in ((5.0, 1.0), (1.0, 5.0)):
        values = iter(correlations)
        monkeypatch.setattr(QualityTask, "validate", lambda *_, values=values: {"Spearman": next(values)})
        is_first = correlations[0] > correlations[1]
        assert all(torch.equal(value, one_epoch[name]) for name, value in train_weights(SHORT).items()) == is_first


@pytest.mark.parametrize(("topic", "bfloat16"), [(True, False), (False, True)])
def test_cached_frozen_layers_change_no_result(
    local_encoder: str, monkeypatch: pytest.MonkeyPatch, topic: bool, bfloat16: bool
) -> None:
    no_dropout = {"attention_probs_dropout_prob": 0.0, "hidden_dropout_prob": 0.0}
    monkeypatch.setattr(
        "training.fitting.initialisation.read_encoder_config",
        lambda *arguments: (values := read_encoder_config(*arguments)) | {"bert": values["bert"] | no_dropout},
    )
    table = arguments().iloc[::-1]
    table["premise"] = [" ".join(text.split()[: 8 - row % 3]) for row, text in enumerate(table["premise"])]
    dev = (table["debate"] == "d4").to_numpy()
    recipe = replace(RECIPE, network={"topic": topic, "dropout": 0.0}, encoder=replace(SHORT.encoder, bfloat16=bfloat16))
    before = score_arguments(build_network(recipe, Path(), Path()), table, CPU)
    cached = score_arguments(train_network(recipe, table[~dev], table[dev], CPU), table, CPU)
    monkeypatch.setattr("training.studies.argument_quality.fit._share_frozen_layers", lambda *_: None)
    uncached = score_arguments(train_network(recipe, table[~dev], table[dev], CPU), table, CPU)
    change, difference = (uncached - before).std(), (cached - uncached).std()  # the loss ignores a common shift
    assert change > 0.005
    assert difference / change < (0.05 if bfloat16 else 1e-4)
