"""Tests of teachers and students: scores, frozen layers, losses and batches."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from datasets import Dataset
from safetensors.torch import load

from tests.unit.training.conftest import sample_sentence
from training.sbert.networks import (
    TrainingConfig,
    build_frozen_layers,
    build_network,
    encode_texts,
    get_encoder,
    load_trainable_state,
    predict_labels,
    score_pairs,
    serialise_trainable_state,
)
from training.sbert.trainer import LengthBucketSampler, TrainingSetup

CPU = torch.device("cpu")
TEACHER = TrainingConfig("cross_entropy", 0.001, max_length=40, swap_pairs=True, frozen_blocks=1)
STUDENT = TrainingConfig("cosine", 0.01, max_length=20, frozen_blocks=1)


@pytest.fixture
def pairs() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = [(sample_sentence(rng), sample_sentence(rng), n % 4 / 3) for n in range(40)]
    return pd.DataFrame(rows, columns=["first", "second", "label"])


def test_teacher_labels_both_orders_in_the_training_precision(encoder: Path, pairs: pd.DataFrame) -> None:
    model = build_network(encoder, TEACHER, 0, CPU)
    scores = score_pairs(model, pairs)
    exact, rounded = (predict_labels(model, pairs, replace(TEACHER, bfloat16=bfloat16)) for bfloat16 in (False, True))
    assert np.array_equal(exact, scores)
    assert rounded.dtype == np.float32
    assert 0 < abs(rounded - scores).max() < 0.01
    rows = TrainingSetup(encoder, TEACHER, pairs, CPU)._build_dataset().to_pandas()
    swapped = pairs.rename(columns={"first": "second", "second": "first"})
    assert rows.equals(pd.concat([pairs, swapped], ignore_index=True)[rows.columns])


def test_student_scores_are_cosines_of_mean_pooled_vectors(encoder: Path, pairs: pd.DataFrame) -> None:
    model = build_network(encoder, STUDENT, 0, CPU)
    first, second = (encode_texts(model, pairs[side].tolist()) for side in ("first", "second"))
    assert np.allclose(np.linalg.norm(first, axis=1), 1, atol=1e-6)
    assert score_pairs(model, pairs) == pytest.approx((first * second).sum(axis=1), abs=1e-6)
    features = model.preprocess(["pa pb pc"])
    hidden = model[0].model.eval()(features["input_ids"], attention_mask=features["attention_mask"]).last_hidden_state
    mean = hidden[0].mean(dim=0).detach().numpy()
    assert features["input_ids"].shape == (1, 8)  # six letters, [CLS] and [SEP]
    assert encode_texts(model, ["pa pb pc"])[0] == pytest.approx(mean / np.linalg.norm(mean), abs=1e-6)
    long_text = " ".join(["pa pb"] * 12)
    assert np.array_equal(*encode_texts(model, [long_text, f"{long_text} pc pd"]))  # texts are truncated


@pytest.mark.parametrize(("frozen", "trainable"), [(-1, {"embeddings", "0", "1", "2", "3"}), (2, {"2", "3"})])
@pytest.mark.parametrize("config", [TEACHER, STUDENT])
def test_frozen_blocks_neither_train_nor_drop_out(
    encoder: Path, frozen: int, trainable: set[str], config: TrainingConfig
) -> None:
    model = build_network(encoder, replace(config, frozen_blocks=frozen), 0, CPU).train()
    parts = [name.split(".") for name in load(serialise_trainable_state(model)) if "pooler" not in name]
    blocks = {part[part.index("layer") + 1] if "layer" in part else part[-3] for part in parts}
    assert blocks == trainable | ({"model"} if config is TEACHER else set())  # 0.model.classifier.weight
    ids = torch.arange(5, 17)[None]
    first, second = (get_encoder(model)(input_ids=ids, output_hidden_states=True).hidden_states for _ in range(2))
    assert [torch.equal(*states) for states in zip(first, second, strict=True)] == [frozen == 2] * 3 + [False] * 2
    network = build_network(encoder, replace(config, attention_dropout=False), 0, CPU)
    block = get_encoder(network).encoder.layer[-1]
    assert (block.attention.self.dropout.p, block.output.dropout.p) == (0, 0.1)


@pytest.mark.parametrize("bfloat16", [False, True])
def test_shared_frozen_layers_encode_each_text_once(encoder: Path, pairs: pd.DataFrame, tmp_path: Path, bfloat16: bool) -> None:
    training = replace(STUDENT, learning_rate=0.001, bfloat16=bfloat16)
    before = score_pairs(build_network(encoder, training, 0, CPU), pairs)
    shared, computed_lengths = build_frozen_layers(encoder, training, CPU), list[int]()
    shared.layers[1].register_forward_hook(lambda _, inputs, __: computed_lengths.append(inputs[0].shape[1]))
    # fill the cache in inference mode, without gradients
    encode_texts(build_network(encoder, training, 1, CPU, shared), pairs["first"].tolist())
    models = [TrainingSetup(encoder, training, pairs, CPU, layers).train(0, tmp_path) for layers in (None, shared)]
    scores = [score_pairs(model, pairs) for model in models]
    assert abs(scores[0] - before).max() > 0.01
    assert scores[1] == pytest.approx(scores[0], abs=0.002 if bfloat16 else 1e-5)
    assert len(computed_lengths) == len({*pairs["first"], *pairs["second"]})
    with pytest.raises(ValueError, match="weights do not match the network"):
        load_trainable_state(models[1], serialise_trainable_state(build_network(encoder, TEACHER, 0, CPU)))


def test_batches_group_pairs_of_similar_length() -> None:
    lengths = np.random.default_rng(0).integers(1, 100, 203).tolist()
    data = Dataset.from_dict({"first": ["a" * length for length in lengths], "second": ["b"] * 203})
    sampler = LengthBucketSampler(data, batch_size=16, drop_last=False, seed=5)
    batches = list(sampler)
    assert len(batches) == len(sampler) == 13
    assert sorted(index for batch in batches for index in batch) == list(range(203))
    spread = max(max(lengths[n] for n in batch) - min(lengths[n] for n in batch) for batch in batches)
    assert spread < 20  # of 100
    assert [max(batch) for batch in batches] != sorted(max(batch) for batch in batches)
    assert list(sampler) == batches
    sampler.set_epoch(1)
    assert list(sampler) != batches
