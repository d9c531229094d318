"""Tests of Augmented SBERT: networks, pairs, retrieval metrics, study and checkpoint."""

from dataclasses import replace
from itertools import combinations

import msgspec
import numpy as np
import pandas as pd
import pytest
import torch
from datasets import Dataset
from safetensors.torch import load

from aragorn.inference.checkpoint import load_checkpoint
from aragorn.inference.pretrained import PretrainedEncoder
from aragorn.models.network import pad
from aragorn.text.tokenisers import MaxLengths, WordPieceTokeniser
from aragorn_training.__main__ import main
from aragorn_training.data.distant_supervision import CandidateSettings
from aragorn_training.data.pair_tables import load_validation_queries
from aragorn_training.fitting.validation import build_encoder_scorer, validate_candidates
from aragorn_training.sbert import networks
from aragorn_training.sbert.networks import LengthBucketSampler, TrainingSetup
from aragorn_training.sbert.students import (
    TEACHER,
    UNTRAINED,
    ConclusionValidator,
    StudentTraining,
    TrainingVariant,
    load_arguments,
    retrieve_unlabelled_pairs,
    sample_gold_pairs,
)
from aragorn_training.tasks import load_recipe
from tests.conftest import assert_runs
from tests.unit.training.conftest import sample_sentence

CPU = "cpu"
CROSS_ENTROPY = networks.TrainingConfig(
    "cross_entropy", 0.001, max_length=40, swap_pairs=True, frozen_blocks=1
)
COSINE = networks.TrainingConfig("cosine", 0.01, max_length=20, frozen_blocks=1)


@pytest.fixture
def pairs():
    rng = np.random.default_rng(0)
    rows = [(sample_sentence(rng), sample_sentence(rng), n % 4 / 3) for n in range(40)]
    return pd.DataFrame(rows, columns=["first", "second", "label"])


def test_teacher_labels_both_orders_in_the_training_precision(encoder, pairs):
    model = networks.build_network(encoder, CROSS_ENTROPY, 0, CPU)
    scores = networks.predict_scores(model, pairs)
    exact, rounded = (
        networks.predict_labels(model, pairs, replace(CROSS_ENTROPY, bfloat16=bfloat16))
        for bfloat16 in (False, True)
    )
    assert np.array_equal(exact, scores)
    assert rounded.dtype == np.float32
    assert 0 < abs(rounded - scores).max() < 0.01
    rows = TrainingSetup(encoder, CROSS_ENTROPY, pairs, CPU)._build_dataset().to_pandas()
    swapped = pairs.rename(columns={"first": "second", "second": "first"})
    assert rows.equals(pd.concat([pairs, swapped], ignore_index=True)[rows.columns])


@pytest.mark.parametrize(
    ("frozen", "trainable"), [(-1, {"embeddings", "0", "1", "2", "3"}), (2, {"2", "3"})]
)
@pytest.mark.parametrize("config", [CROSS_ENTROPY, COSINE])
def test_frozen_blocks_neither_train_nor_drop_out(encoder, frozen, trainable, config):
    model = networks.build_network(encoder, replace(config, frozen_blocks=frozen), 0, CPU).train()
    names = load(networks.serialise_trainable_state(model))
    parts = [name.split(".") for name in names if "pooler" not in name]
    blocks = {part[part.index("layer") + 1] if "layer" in part else part[-3] for part in parts}
    # 0.model.classifier.weight
    assert blocks == trainable | ({"model"} if config is CROSS_ENTROPY else set())
    ids = torch.arange(5, 17)[None]
    first, second = (
        networks.get_encoder(model)(input_ids=ids, output_hidden_states=True).hidden_states
        for _ in range(2)
    )
    expected = [frozen == 2] * 3 + [False] * 2
    assert [torch.equal(*states) for states in zip(first, second, strict=True)] == expected
    network = networks.build_network(encoder, replace(config, attention_dropout=False), 0, CPU)
    block = networks.get_encoder(network).encoder.layer[-1]
    assert (block.attention.self.dropout.p, block.output.dropout.p) == (0, 0.1)


@pytest.mark.parametrize("bfloat16", [False, True])
def test_shared_frozen_layers_encode_each_text_once(encoder, pairs, tmp_path, bfloat16):
    training = replace(COSINE, learning_rate=0.001, bfloat16=bfloat16)
    before = networks.predict_scores(networks.build_network(encoder, training, 0, CPU), pairs)
    shared = networks.build_frozen_layers(encoder, training, CPU)
    computed_lengths = list[int]()
    shared.layers[1].register_forward_hook(
        lambda _, inputs, __: computed_lengths.append(inputs[0].shape[1])
    )
    # fill the cache in inference mode, without gradients
    networks.embed_texts(
        networks.build_network(encoder, training, 1, CPU, shared), pairs["first"].tolist()
    )
    models = [
        TrainingSetup(encoder, training, pairs, CPU, layers).train(0, tmp_path)
        for layers in (None, shared)
    ]
    scores = [networks.predict_scores(model, pairs) for model in models]
    assert abs(scores[0] - before).max() > 0.01
    assert scores[1] == pytest.approx(scores[0], abs=0.002 if bfloat16 else 1e-5)
    assert len(computed_lengths) == len({*pairs["first"], *pairs["second"]})
    cross_entropy = networks.build_network(encoder, CROSS_ENTROPY, 0, CPU)
    other_state = networks.serialise_trainable_state(cross_entropy)
    with pytest.raises(ValueError, match="weights do not match the network"):
        networks.load_trainable_state(models[1], other_state)


def test_batches_group_pairs_of_similar_length():
    lengths = np.random.default_rng(0).integers(1, 100, 203).tolist()
    data = Dataset.from_dict({"first": ["a" * length for length in lengths], "second": ["b"] * 203})
    sampler = LengthBucketSampler(data, batch_size=16, drop_last=False, seed=5)
    batches = list(sampler)
    assert len(batches) == len(sampler) == 13
    assert sorted(index for batch in batches for index in batch) == list(range(203))
    spread = max(
        max(lengths[n] for n in batch) - min(lengths[n] for n in batch) for batch in batches
    )
    assert spread < 20  # of 100
    assert [max(batch) for batch in batches] != sorted(max(batch) for batch in batches)
    assert list(sampler) == batches
    sampler.set_epoch(1)
    assert list(sampler) != batches


pytestmark = pytest.mark.usefixtures("block_network")

STUDENT_TRAINING = networks.TrainingConfig("cosine", 0.003, max_length=40, bfloat16=False)
RECIPE = """ranker = "sbert"
[lengths]
query = 20
premise = 38
[encoder]
name = "ENCODER"
frozen_layers = 3
learning_rate = 0.003
[training]
epochs = 1
batch_size = 16
micro_batch_size = 16
[augmented_sbert]
loss = "cosent"
pairs = "gold"
gold_arguments = 20
max_silver_pairs = 30
"""


@pytest.fixture
def recipe_file(write_recipe, encoder):
    """Write a recipe with a tiny encoder and return its path."""
    return write_recipe(RECIPE.replace("ENCODER", str(encoder)))


@pytest.fixture
def tokeniser(encoder):
    return WordPieceTokeniser.load(encoder, MaxLengths(20, 38))


@pytest.fixture
def train(prepared_work_dir, tokeniser):
    return load_arguments(prepared_work_dir, "train", tokeniser)


def build_experiment(work, recipe, **changes):
    task = msgspec.structs.replace(recipe.task, **changes)
    return StudentTraining(work, msgspec.structs.replace(recipe, task=task), CPU)


def test_gold_pairs_hold_a_positive_and_a_negative_premise(train):
    pairs, reseeded = (sample_gold_pairs(train, 50, np.random.default_rng(seed)) for seed in (0, 1))
    assert pairs["label"].tolist() == [1.0] * 50 + [0.0] * 50
    assert pairs["first"].tolist()[:50] == pairs["first"].tolist()[50:]
    by_premise = train.set_index("premise")
    for first, second, label in pairs.itertuples(index=False):
        assert (by_premise.loc[second, "conclusion"] == first) == (label == 1)
    docnos = by_premise.loc[pairs["second"], "docno"].tolist()
    negatives = train.set_index("docno")["negatives"]
    assert len({*docnos[:50]}) == 50
    assert docnos[50:] == [negatives[docno][0] for docno in docnos[:50]]
    assert not pairs.equals(reseeded)


def test_unlabelled_pairs_exclude_labelled_pairs_and_ignore_order(train, tmp_path):
    def retrieve(arguments, labelled, name):
        return retrieve_unlabelled_pairs(arguments, labelled, 3)

    no_labels = train.iloc[:0].assign(first="", second="")
    pairs = retrieve(train, no_labels, "all")
    assert pairs.groupby("first").size().unique().tolist() == [3]
    positives = train.groupby("conclusion")["premise"].agg(set)
    assert not any(second in positives[first] for first, second in pairs.itertuples(index=False))
    shuffled = retrieve(train.sample(frac=1, random_state=1), no_labels, "shuffled")
    assert {*shuffled.itertuples(index=False)} == {*pairs.itertuples(index=False)}
    remaining = retrieve(train, pairs.iloc[::2].assign(label=1.0), "remaining")
    assert remaining.equals(pairs.iloc[1::2].reset_index(drop=True))


def test_validator_metrics_match_brute_force_and_fit(prepared_work_dir, train, encoder, tokeniser):
    model = networks.build_network(encoder, STUDENT_TRAINING, 0, CPU)
    validation = load_arguments(prepared_work_dir, "validation", tokeniser)
    validator = ConclusionValidator(
        train, validation, prepared_work_dir, tokeniser, CandidateSettings()
    )
    collection = pd.concat([train, validation], ignore_index=True)
    groups = validation.groupby("normalised_conclusion", sort=False)
    vectors = networks.embed_texts(model, collection["premise"].tolist())
    cosines = networks.embed_texts(model, groups["conclusion"].first().tolist()) @ vectors.T
    hits = np.array([
        collection["docno"].iloc[np.lexsort((collection["docno"], -row))].isin(group["docno"])
        for (_, group), row in zip(groups, cosines, strict=True)
    ])  # fmt: skip
    discount = 1 / np.log2(np.arange(2, 12))
    expected = {
        "recall@100": hits[:, :100].sum(1) / 5,
        "MRR@10": (hits[:, :10] / np.arange(1, 11)).max(1),
        "nDCG@10": (hits[:, :10] * discount).sum(1) / discount[:5].sum(),
    }
    values = {name: 100 * by_query.mean() for name, by_query in expected.items()}
    assert validator.measure_retrieval(model, False) == pytest.approx(values, abs=1e-3)
    queries = load_validation_queries(prepared_work_dir, "pieces", tokeniser, CandidateSettings())
    scorer = build_encoder_scorer(PretrainedEncoder(str(encoder)), CPU)
    map_at_20 = validate_candidates(queries, np.arange(25), scorer)["MAP@20"]
    assert validator.measure_map_at_20(model, False) == pytest.approx(map_at_20, abs=0.01)


def test_teacher_labels_the_silver_pairs(work_dir, recipe_file, other_encoder, monkeypatch):
    recipe = load_recipe(recipe_file)
    teacher = str(other_encoder)
    experiment = build_experiment(work_dir, recipe)
    fine_tuned = build_experiment(work_dir, recipe, teacher_encoder=teacher)
    zero_shot = build_experiment(work_dir, recipe, teacher_encoder=teacher, train_teacher=False)
    silver = experiment.silver
    labels = [part.silver["label"].to_numpy() for part in (experiment, fine_tuned, zero_shot)]
    untrained = networks.build_network(
        other_encoder, zero_shot._build_training_config(TEACHER), recipe.seed, CPU
    )
    assert labels[2] == pytest.approx(networks.predict_scores(untrained, silver), abs=1e-6)
    assert not any(np.allclose(*pair, rtol=0, atol=1e-5) for pair in combinations(labels, 2))
    expected = networks.predict_scores(experiment.load_or_train(TEACHER), silver)
    assert labels[0] == pytest.approx(expected, abs=1e-6)
    assert len(silver) == 30
    training_pairs = experiment._build_setup(TrainingVariant("cosine", "gold and silver")).pairs
    assert training_pairs[["first", "second", "label"]].equals(
        pd.concat([experiment.gold, silver], ignore_index=True)
    )
    changes = [{"gold_arguments": 21}, {"bm25_depth": 4}, {"max_silver_pairs": 31}]
    changed = [build_experiment(work_dir, recipe, **change) for change in changes]
    monkeypatch.setattr(type(recipe.task), "version", 99)
    experiments = [experiment, fine_tuned, zero_shot, *changed, build_experiment(work_dir, recipe)]
    assert len({part.cache_key for part in experiments}) == 7


def test_fit_saves_the_student_as_a_checkpoint(work_dir, recipe_file, tmp_path):
    output = tmp_path / "sbert"
    assert_runs(main, "fit", recipe_file, "--work-dir", work_dir, "-o", output, "--device cpu")
    checkpoint = load_checkpoint(output)
    experiment = build_experiment(work_dir, load_recipe(recipe_file))
    texts = ["topic filler abc", "topicab " * 20, ""]
    ids = [checkpoint.tokeniser.encode_premise(text) for text in texts]
    with torch.inference_mode():
        vectors = torch.cat([checkpoint.network.encode(*pad([premise])) for premise in ids]).numpy()
    student, untrained = (
        networks.embed_texts(experiment.load_or_train(network), texts)
        for network in (TrainingVariant("cosent", "gold"), UNTRAINED)
    )
    assert vectors == pytest.approx(student, abs=2e-3)  # stored in half precision
    assert vectors != pytest.approx(untrained, abs=2e-3)
    assert "- augmented_sbert.loss: cosent" in (output / "README.md").read_text()
