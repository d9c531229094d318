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
from tests.unit.training.conftest import write_encoder
from training.data.quality import COLUMNS
from training.evaluation.similarity import mean_correlations
from training.fitting.initialisation import build_network, load_pooler_weights
from training.fitting.recipe import EncoderSettings, Recipe, TrainingSettings
from training.studies.argument_quality.fit import score_arguments, train_network
from training.tasks.quality import QualitySpec, QualityTask, mask_held_out_debates

CPU = torch.device("cpu")
LISTS = QualitySpec(("ukp",), list_size=4)
RECIPE = Recipe(
    ranker="tfr_bert",
    network={"dropout": 0.0},
    lengths=MaxLengths(20, 30),
    encoder=EncoderSettings(frozen_layers=1, learning_rate=1e-3),
    task=LISTS,
    training=TrainingSettings(epochs=2, validations_per_epoch=1, learning_rate=5e-3, batch_size=3, micro_batch_size=1),
)


def with_encoder(folder: Path, **fields: object) -> Recipe:
    """Return the recipe with an encoder."""
    return replace(RECIPE, encoder=replace(RECIPE.encoder, name=str(folder)), **fields)


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


def _trainee(ranker: TFRBERT, tokeniser: WordPieceTokeniser) -> Any:
    return SimpleNamespace(network=ranker, tokeniser=tokeniser)


def test_scores_are_in_the_order_of_rows() -> None:
    trainee, table, order = _trainee(*build_tiny_network()), arguments(), np.random.default_rng(0).permutation(84)
    scores = score_arguments(trainee, table, CPU)
    assert len(set(scores.tolist())) > 20
    assert np.allclose(score_arguments(trainee, table.iloc[order], CPU), scores[order], atol=1e-6)


def test_network_is_initialised_with_the_pooler_of_its_encoder(encoder: Path) -> None:
    trainee = build_network(with_encoder(encoder), Path(), Path())
    pooler = load_pooler_weights(PretrainedEncoder(str(encoder)))
    assert set(pooler) == {"pooler.weight", "pooler.bias"}
    assert all(torch.equal(trainee.network.state_dict()[name], value) for name, value in pooler.items())
    groups = trainee.build_optimiser(5e-3, 1e-3).param_groups
    assert [group["lr"] for group in groups] == [5e-3, 1e-3]
    assert [len(group["params"]) for group in groups] == [4, 3 * 16]  # pooler and linear; three blocks


def train_weights(recipe: Recipe) -> dict[str, Tensor]:
    table = arguments()
    dev = (table["debate"] == "d4").to_numpy()
    return train_network(recipe, table[~dev], table[dev], CPU).network.state_dict()


def test_best_validation_determines_the_network(encoder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = train_weights(with_encoder(encoder, training=replace(RECIPE.training, epochs=1)))
    for correlations in ((5.0, 1.0), (1.0, 5.0)):
        values = iter(correlations)
        monkeypatch.setattr(QualityTask, "validate", lambda *_, values=values: {"Spearman": next(values)})
        weights, is_first = train_weights(with_encoder(encoder)), correlations[0] > correlations[1]
        assert all(torch.equal(value, expected[name]) for name, value in weights.items()) == is_first


def test_correlations_are_means_over_topics() -> None:
    rows = [("ukp", "d", topic, f"{n}", "", float(n)) for topic, size in (("a", 4), ("b", 2)) for n in range(size)]
    table = pd.DataFrame(rows, columns=COLUMNS)
    correlations = mean_correlations(table, np.array([1.0, 2, 3, 4, 5, 0]))
    assert correlations == {"Pearson": 0.0, "Spearman": 0.0, "Kendall": 0.0}
    assert mean_correlations(table, np.array([0.0, 0, 0, 0, 0, 5]))["Spearman"] == 50
    with pytest.raises(InputError, match="ukp, topic 'a': all arguments have the same quality"):
        mean_correlations(table.assign(score=1.0), np.arange(6.0))


@pytest.mark.parametrize(("topic", "bfloat16"), [(True, False), (False, True)])
def test_cached_frozen_layers_change_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, topic: bool, bfloat16: bool
) -> None:
    no_dropout = {"attention_probs_dropout_prob": 0.0, "hidden_dropout_prob": 0.0}
    recipe = with_encoder(write_encoder(tmp_path / "still", 0, **no_dropout), network={"topic": topic, "dropout": 0.0})
    recipe = replace(recipe, encoder=replace(recipe.encoder, bfloat16=bfloat16))
    table = arguments().iloc[::-1]
    table["premise"] = [" ".join(text.split()[: 8 - row % 3]) for row, text in enumerate(table["premise"])]
    dev = (table["debate"] == "d4").to_numpy()
    before = score_arguments(build_network(recipe, Path(), Path()), table, CPU)
    cached = score_arguments(train_network(recipe, table[~dev], table[dev], CPU), table, CPU)
    monkeypatch.setattr("training.studies.argument_quality.fit._share_frozen_layers", lambda *_: None)
    uncached = score_arguments(train_network(recipe, table[~dev], table[dev], CPU), table, CPU)
    change, difference = (uncached - before).std(), (cached - uncached).std()  # the loss ignores a common shift
    assert change > 0.005
    assert difference / change < (0.05 if bfloat16 else 1e-4)
