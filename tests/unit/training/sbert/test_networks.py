"""Teacher and student: what they score, what is trained in them, and on what."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from datasets import Dataset
from safetensors.torch import load

from tests.unit.training.conftest import PLACES, sentence
from training.sbert.networks import (
    Loss,
    TrainingConfig,
    build_network,
    encode_texts,
    get_encoder,
    load_trainable_state,
    predict_labels,
    score_pairs,
    shared_frozen_layers,
    trainable_state,
)
from training.sbert.trainer import LengthBucketSampler, TrainingRun

CPU = torch.device("cpu")
TEACHER = TrainingConfig("cross_entropy", 0.001, max_length=40, swap_pairs=True, frozen_blocks=1)
STUDENT = TrainingConfig("cosine", 0.01, max_length=20, frozen_blocks=1)


@pytest.fixture
def pairs() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = [(sentence(rng), sentence(rng), number % 4 / 3) for number in range(40)]
    return pd.DataFrame(rows, columns=["first", "second", "label"])


def after(run: TrainingRun, seed: int, directory: Path) -> tuple[bytes, np.ndarray]:
    """What a whole run trains, and what it scores then."""
    model = run.train(seed, directory)
    return trainable_state(model), score_pairs(model, run.pairs)


def test_a_teacher_scores_from_0_to_1_and_labels_as_it_was_trained(encoder: Path, pairs: pd.DataFrame, tmp_path: Path) -> None:
    run = TrainingRun(encoder, replace(TEACHER, epochs=4), pairs.assign(label=1.0), CPU)
    before = score_pairs(run.initial_network(0), pairs)
    _, found = after(run, 0, tmp_path)
    assert found.shape == (40,)
    assert found.dtype == np.float32
    assert 0 <= before.min() < before.max() <= 1
    assert 0 <= found.min() < found.max() <= 1
    assert found.mean() > before.mean() + 0.01  # all labels are 1

    model = build_network(encoder, TEACHER, 0, CPU)
    found = score_pairs(model, pairs)
    assert np.array_equal(predict_labels(model, pairs, replace(TEACHER, bfloat16=False)), found)
    of_training = predict_labels(model, pairs, replace(TEACHER, bfloat16=True))
    assert of_training.dtype == np.float32
    assert 0 < abs(of_training - found).max() < 0.01


def test_a_student_scores_cosines_of_means_over_its_pieces(encoder: Path, pairs: pd.DataFrame) -> None:
    model = build_network(encoder, STUDENT, 0, CPU)
    first, second = (encode_texts(model, pairs[side].tolist()) for side in ("first", "second"))
    assert np.allclose(np.linalg.norm(first, axis=1), 1, atol=1e-6)
    assert score_pairs(model, pairs) == pytest.approx((first * second).sum(axis=1), abs=1e-6)
    assert score_pairs(model, pairs.assign(second=pairs["first"])) == pytest.approx(np.ones(40), abs=1e-6)
    features = model.preprocess(["pa pb pc"])
    hidden = model[0].model.eval()(features["input_ids"], attention_mask=features["attention_mask"]).last_hidden_state
    mean = hidden[0].mean(dim=0).detach().numpy()
    assert features["input_ids"].shape == (1, 8)  # six letters, [CLS] and [SEP]
    assert encode_texts(model, ["pa pb pc"])[0] == pytest.approx(mean / np.linalg.norm(mean), abs=1e-6)
    long = " ".join(["pa pb"] * 12)  # it reads no further than it is told
    assert np.array_equal(*encode_texts(model, [long, f"{long} pc pd"]))
    assert not np.array_equal(*encode_texts(model, ["pa pb", "pa pb pc pd"]))


@pytest.mark.parametrize(("frozen", "trains"), [(-1, {"embeddings", 0, 1, 2, 3}), (0, {0, 1, 2, 3}), (1, {1, 2, 3}), (3, {3})])
@pytest.mark.parametrize("teacher", [True, False])
def test_frozen_blocks_are_not_trained(encoder: Path, frozen: int, trains: set[object], teacher: bool) -> None:
    training = TrainingConfig("cross_entropy" if teacher else "cosine", 0.01, 40, frozen_blocks=frozen)
    names = [name for name in load(trainable_state(build_network(encoder, training, 0, CPU))) if ".pooler." not in name]
    found = {int(name.split("layer.")[1].split(".")[0]) if "layer." in name else name.split(".")[-3] for name in names}
    head = {"model"} if teacher else set()  # 0.model.classifier.weight
    assert found == trains | head


@pytest.mark.parametrize("teacher", [True, False])
def test_dropout_is_in_trained_blocks_alone(encoder: Path, teacher: bool) -> None:
    training = TrainingConfig("cross_entropy" if teacher else "cosine", 0.01, 40, frozen_blocks=2)
    for attention in (True, False):
        model = build_network(encoder, replace(training, attention_dropout=attention), 0, CPU).train()
        bert = get_encoder(model)
        ids = torch.arange(5, 17)[None]
        first, second = (bert(input_ids=ids, output_hidden_states=True).hidden_states for _ in range(2))
        assert [torch.equal(one, other) for one, other in zip(first, second, strict=True)] == [True, True, True, False, False]
        block = bert.encoder.layer[2]
        assert (block.attention.self.dropout.p, block.output.dropout.p) == (0.1 if attention else 0, 0.1)
    everything = build_network(encoder, replace(training, frozen=-1), 0, CPU).train()
    assert not torch.equal(get_encoder(everything).embeddings(ids), get_encoder(everything).embeddings(ids))


def test_training_leaves_the_frozen_blocks_as_they_are(encoder: Path, pairs: pd.DataFrame, tmp_path: Path) -> None:
    run = TrainingRun(encoder, STUDENT, pairs, CPU)
    old, model = run.initial_network(0).state_dict(), run.initial_network(0)
    run._build_trainer(model, 0, tmp_path).train()
    changed = {name for name, tensor in model.state_dict().items() if not torch.equal(tensor, old[name])}
    assert changed
    assert {name.split("layer.")[1].split(".")[0] for name in changed if "layer." in name} == {"1", "2", "3"}
    assert not [name for name in changed if "embeddings" in name]


def test_students_share_what_is_frozen(encoder: Path, pairs: pd.DataFrame) -> None:
    shared = shared_frozen_layers(encoder, STUDENT, CPU)
    alone = build_network(encoder, STUDENT, 0, CPU)
    texts = ["", "pa", *pairs["first"], " ".join(["pa pb"] * 12)]
    for _ in range(2):  # computed, remembered
        assert encode_texts(build_network(encoder, STUDENT, 0, CPU, shared), texts) == pytest.approx(
            encode_texts(alone, texts), abs=1e-6
        )
    model = build_network(encoder, STUDENT, 0, CPU, shared)
    assert len(get_encoder(model).encoder.layer) == 3  # of four
    with pytest.raises(ValueError, match="weights do not match the network"):
        load_trainable_state(model, trainable_state(alone))


def test_what_is_frozen_makes_the_same_of_a_text_in_float32_beside_any_other_whoever_asks(encoder: Path) -> None:
    ids = torch.tensor([[2, 9, 8, 7, 3], [2, 5, 3, 0, 0]])
    beside, alone = (shared_frozen_layers(encoder, STUDENT, CPU).train() for _ in range(2))
    both = beside(input_ids=ids)
    assert torch.equal(alone(input_ids=ids[1:, :3]), both[1:, :3])
    assert not both[1, 3:].any()
    assert torch.equal(beside(input_ids=ids.flip(0)), both.flip(0))
    training = shared_frozen_layers(encoder, STUDENT, CPU)
    with torch.autocast("cpu", torch.bfloat16):
        found = training(input_ids=ids[:1])
    assert torch.equal(found, both[:1])
    assert not found.requires_grad


@pytest.mark.parametrize("bfloat16", [False, True])
def test_students_learn_the_same_from_what_they_share_which_is_computed_once_for_each_text(
    encoder: Path, pairs: pd.DataFrame, tmp_path: Path, bfloat16: bool
) -> None:
    training = replace(STUDENT, learning_rate=0.001, bfloat16=bfloat16)
    before = score_pairs(build_network(encoder, training, 0, CPU), pairs)
    shared = shared_frozen_layers(encoder, training, CPU)
    computed: list[int] = []
    shared.layers[1].register_forward_hook(lambda _, inputs, __: computed.append(inputs[0].shape[1]))
    encode_texts(
        build_network(encoder, training, 1, CPU, shared), pairs["first"].tolist()
    )  # asked by encode first, which forbids gradients
    found = [after(TrainingRun(encoder, training, pairs, CPU, own), 0, tmp_path)[1] for own in (None, shared)]
    assert abs(found[0] - before).max() > 0.01
    assert found[1] == pytest.approx(found[0], abs=0.002 if bfloat16 else 1e-5)
    assert len(computed) == len({*pairs["first"], *pairs["second"]})


def test_a_seed_decides_a_run_whose_weights_are_restored(encoder: Path, pairs: pd.DataFrame, tmp_path: Path) -> None:
    run = TrainingRun(encoder, TEACHER, pairs, CPU)
    (weights, found), (again, _), (others, _) = (after(run, seed, tmp_path) for seed in (3, 3, 4))
    assert weights == again != others
    model = run.initial_network(7)
    assert not np.array_equal(score_pairs(model, pairs), found)
    load_trainable_state(model, weights)
    assert np.array_equal(score_pairs(model, pairs), found)
    with pytest.raises(ValueError, match="weights do not match the network"):
        load_trainable_state(build_network(encoder, STUDENT, 0, CPU), weights)


@pytest.mark.parametrize("loss", ["cosine", "cosent", "multiple_negatives"])
def test_every_loss_teaches_a_student(encoder: Path, tmp_path: Path, loss: Loss) -> None:
    rng = np.random.default_rng(0)
    texts = [rng.choice(PLACES, 4) for _ in range(64)]
    same = [(" ".join(text), " ".join(rng.permutation(text)), 1.0) for text in texts]
    other = [(" ".join(text), " ".join(texts[place - 1]), 0.0) for place, text in enumerate(texts)]
    pairs = pd.DataFrame([*same, *other], columns=["first", "second", "label"])
    run = TrainingRun(encoder, TrainingConfig(loss, 0.003, 20, epochs=6, frozen_blocks=0), pairs, CPU)
    gaps = [
        found[:64].mean() - found[64:].mean()
        for found in (score_pairs(run.initial_network(0), pairs), after(run, 0, tmp_path)[1])
    ]
    assert gaps[1] > 2 * gaps[0]


def test_a_run_has_so_many_steps_and_both_orders_of_its_pairs(encoder: Path, pairs: pd.DataFrame) -> None:
    def steps(**settings: object) -> int:
        return TrainingRun(
            encoder, TrainingConfig(**{"loss": "cosine", "learning_rate": 0.01, "pieces": 20} | settings), pairs, CPU
        ).steps  # type: ignore[arg-type]

    assert steps() == 3  # 40 pairs, 16 each
    assert steps(both_orders=True) == 5
    assert steps(epochs=2) == 6
    assert steps(loss="multiple_negatives") == 2  # the 20 pairs with labels of a half and more

    rows = TrainingRun(encoder, TEACHER, pairs, CPU)._dataset().to_pandas()
    assert rows.iloc[:40].equals(pairs)
    assert rows["first"][40:].tolist() == pairs["second"].tolist()
    assert rows["second"][40:].tolist() == pairs["first"].tolist()
    assert rows["label"][40:].tolist() == pairs["label"].tolist()
    assert len(TrainingRun(encoder, STUDENT, pairs, CPU)._dataset()) == 40


def test_batches_are_alike_in_length_and_have_each_pair_once() -> None:
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 100, 203).tolist()
    data = Dataset.from_dict({"first": ["a" * length for length in lengths], "second": ["b"] * 203})
    sampler = LengthBucketSampler(data, batch_size=16, drop_last=False, seed=5)
    batches = list(sampler)
    assert len(batches) == len(sampler) == 13
    assert sorted(number for batch in batches for number in batch) == list(range(203))
    spread = max(max(lengths[n] for n in batch) - min(lengths[n] for n in batch) for batch in batches)
    assert spread < 20  # of 100
    assert [max(batch) for batch in batches] != sorted(max(batch) for batch in batches)
    assert list(sampler) == batches
    sampler.set_epoch(1)
    assert list(sampler) != batches
