"""Test held-out debates, losses and training on argument quality."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from aragorn.errors import InputError
from aragorn.text.tokenisers import MaxLengths
from aragorn_training.data.quality import COLUMNS
from aragorn_training.evaluation.similarity import average_correlations
from aragorn_training.fitting.initialisation import build_network
from aragorn_training.fitting.recipe import EncoderSettings, Recipe, TrainingSettings
from aragorn_training.studies.argument_quality.protocol import score_arguments, train_network
from aragorn_training.tasks.quality import QualitySpec, mask_held_out_debates
from tests.unit.training.conftest import write_encoder

CPU = "cpu"
TRAINING = TrainingSettings(
    epochs=2, validations_per_epoch=1, learning_rate=5e-3, batch_size=3, micro_batch_size=1
)


def build_recipe(encoder, topic=True, **fields):
    """Build a recipe of TFR-BERT; `fields` override the settings of its encoder."""
    settings = EncoderSettings(
        **{"name": str(encoder), "frozen_layers": 1, "learning_rate": 1e-3, **fields}
    )
    network = {"dropout": 0.0, "topic": topic}
    task = QualitySpec(("ukp",), list_size=4)
    fields = {"network": network, "encoder": settings, "task": task, "training": TRAINING}
    return Recipe(ranker="tfr_bert", lengths=MaxLengths(20, 30), **fields)


def build_arguments(debates=6):
    """Build debates of two topics; an argument's score is its number of `topic` tokens."""
    rng = np.random.default_rng(debates)
    rows = []
    for topic in range(2 * debates):
        for index in range(7):
            count = rng.integers(0, 9)
            text = " ".join(rng.permutation(["topic"] * count + ["filler"] * (8 - count)))
            names = f"d{topic // 2}", f"topic {chr(97 + topic)}", f"{topic}-{index}"
            rows.append(("ukp", *names, text, float(count)))
    return pd.DataFrame(rows, columns=COLUMNS)


@pytest.mark.parametrize(("debates", "held_out"), [(11, 2), (2, 1)])
def test_whole_debates_are_held_out(debates, held_out):
    table = build_arguments(debates)
    masks = [mask_held_out_debates(table, seed) for seed in (0, 0, 1, 2, 3, 4)]
    assert len(set(table["debate"][masks[0]])) == held_out
    assert not set(table["debate"][masks[0]]) & set(table["debate"][~masks[0]])
    assert np.array_equal(masks[0], masks[1])
    assert any(not np.array_equal(masks[0], mask) for mask in masks)
    with pytest.raises(InputError, match="ukp: 1 debate; at least 2 are needed"):
        mask_held_out_debates(build_arguments(1), 0)


def test_correlations_are_means_over_topics():
    names = ["a"] * 4 + ["b"] * 2
    rows = [("ukp", "d", name, f"{n}", "", float(n % 4)) for n, name in enumerate(names)]
    table = pd.DataFrame(rows, columns=COLUMNS)
    correlations = average_correlations(table, np.array([1.0, 2, 3, 4, 5, 0]))
    assert correlations == {"Pearson": 0.0, "Spearman": 0.0, "Kendall": 0.0}
    assert average_correlations(table, np.array([0.0, 0, 0, 0, 0, 5]))["Spearman"] == 50
    with pytest.raises(InputError, match="ukp, topic 'a': all arguments have the same quality"):
        average_correlations(table.assign(score=1.0), np.arange(6.0))


@pytest.mark.parametrize(
    ("topic", "bfloat16"), [(True, False), pytest.param(False, True, marks=pytest.mark.slow)]
)
def test_cached_frozen_layers_change_no_result(tmp_path, monkeypatch, topic, bfloat16):
    no_dropout = {"attention_probs_dropout_prob": 0.0, "hidden_dropout_prob": 0.0}
    recipe = build_recipe(
        write_encoder(tmp_path / "still", 0, **no_dropout), topic, bfloat16=bfloat16
    )
    table = build_arguments().iloc[::-1]
    table["premise"] = [
        " ".join(text.split()[: 8 - row % 3]) for row, text in enumerate(table["premise"])
    ]
    dev = (table["debate"] == "d4").to_numpy()
    before = score_arguments(build_network(recipe, Path(), Path()), table, CPU)
    cached = score_arguments(train_network(recipe, table[~dev], table[dev], CPU), table, CPU)
    monkeypatch.setattr(
        "aragorn_training.studies.argument_quality.protocol._share_frozen_layers", lambda *_: None
    )
    uncached = score_arguments(train_network(recipe, table[~dev], table[dev], CPU), table, CPU)
    # the loss ignores a common shift
    change = (uncached - before).std()
    difference = (cached - uncached).std()
    assert change > 0.005
    assert difference / change < (0.05 if bfloat16 else 1e-4)
