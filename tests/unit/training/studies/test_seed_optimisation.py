"""Tests of sampled pairs and of seed optimisation."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy.stats import gaussian_kde, ks_2samp

from aragorn.errors import TrainingError
from aragorn_training.sbert import networks
from aragorn_training.sbert.networks import (
    TrainingConfig,
    TrainingSetup,
    predict_scores,
    serialise_trainable_state,
)
from aragorn_training.studies.augmented_sbert import sampling
from aragorn_training.studies.augmented_sbert.trial import train_best_seed
from tests.unit.training.conftest import sample_sentence

rng = np.random.default_rng


@pytest.fixture
def sentences():
    """Return 60 sentences of 30 gold pairs, in three topics."""
    words = [f"{first}{second}ord" for first in "bcdfg" for second in "aeiou"]
    texts = [
        f"{' '.join(rng(n).choice(words, 5))} {'abcdefghij'[n % 10] * 4}{'abcdefghij'[n // 10] * 3}"
        for n in range(60)
    ]
    topics = [f"topic {n % 3}" for n in range(30)]
    columns = {"first": texts[:30], "second": texts[30:], "topic": topics}
    return sampling.SentencePool.from_pairs(pd.DataFrame(columns))


def build_pool(*pairs):
    """Build the pool of gold pairs of one topic; all first sentences come first."""
    rows = [(*pair, "t") for pair in pairs]
    table = pd.DataFrame(rows, columns=["first", "second", "topic"])
    return sampling.SentencePool.from_pairs(table)


def test_bm25_pairs_match_hand_computed_values():
    # Gold pairs (0 and 5, …) are excluded. "Eat" is rarer than "lions", so that 1 prefers 2 to 4
    # and 5; ties go to the first.
    sentences = build_pool(
        ("lions roar loud", "lions sleep"), ("lions eat", "fish swim"), ("fish eat", "birds sing"),
        ("birds fly", "ships sail"), ("lions hunt", "bells ring"),
    )  # fmt: skip
    expected = [[0, 1], [1, 2], [1, 4], [1, 5], [2, 6], [3, 7]]
    assert sampling.pair_by_bm25(sentences, 1).tolist() == expected
    expected = [[0, 1], [0, 4], [1, 2], [1, 4], [1, 5], [2, 6], [3, 7], [4, 5]]
    assert sampling.pair_by_bm25(sentences, 2).tolist() == expected
    expected = []
    unrelated = build_pool(("lions roar", "rivers flow"), ("ships sail", "bells ring"))
    assert sampling.pair_by_bm25(unrelated, 1).tolist() == []


def test_semantic_pairs_match_hand_computed_values():
    sentences = build_pool(("a", "d"), ("b", "e"), ("c", "f"))
    # the tie of b and e goes to b; each excludes its gold partner
    angles = np.deg2rad([0, 20, 60, 10, 20, 100])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1) * [[1], [2], [4], [8], [16], [1]]
    expected = [[0, 1], [1, 2], [1, 3], [1, 5], [3, 4]]
    assert sampling.pair_by_cosine(sentences, vectors, 1).tolist() == expected
    pairs = [[0, 1], [0, 4], [1, 2], [1, 3], [1, 5], [2, 4], [3, 4], [4, 5]]
    assert sampling.pair_by_cosine(sentences, vectors, 2).tolist() == pairs


def test_random_pairs_are_all_pairs_within_topics(sentences):
    pairs = sampling.sample_random_pairs(sentences, 10**6, rng(0)).tolist()
    gold = sentences.gold.tolist()
    topics = sentences.topics
    all_pairs = ([i, j] for i in range(60) for j in range(i + 1, 60) if topics[i] == topics[j])
    assert pairs == [pair for pair in all_pairs if pair not in gold]


def sample_labels(seed, mean, n):
    return np.clip(rng(seed).normal(mean, 0.12, n), 0, 1)


def test_density_mask_approximates_the_gold_distribution():
    gold = sample_labels(0, 0.5, 800)
    scores = sample_labels(1, 0.3, 20_000)
    mask = sampling.draw_density_mask(scores, gold, rng(2))
    assert 100 < mask.sum() < 20_000
    assert ks_2samp(scores[mask], gold).statistic < 0.75 * ks_2samp(scores, gold).statistic
    masks = [sampling.draw_density_mask(scores, gold, rng(seed)).tolist() for seed in (2, 3)]
    assert mask.tolist() == masks[0] != masks[1]
    message = r"the teacher's scores of random pairs are all 0\.500000"
    with pytest.raises(TrainingError, match=message):
        sampling.draw_density_mask(np.full(50, 0.5), gold, rng(0))


def test_retention_is_the_ratio_of_densities():
    gold = sample_labels(0, 0.6, 800)
    scores = sample_labels(1, 0.4, 5000)
    expected = np.minimum(1, gaussian_kde(gold)(scores) / gaussian_kde(scores)(scores))
    assert sampling.estimate_retention(scores, gold) == pytest.approx(expected, abs=0.01)
    assert (
        sampling.estimate_retention(gold, gold) == 1
    ).all()  # equal distributions keep all pairs


@pytest.mark.parametrize(("positive", "negative"), [(2, 1), (1, 3), (5, 4)])
def test_class_ratio_mask_keeps_positives_and_the_gold_ratio(positive, negative):
    scores = rng(0).beta(0.3, 3, 4000)
    gold = np.repeat([1.0, 0.0], [30 * positive, 30 * negative])
    mask = sampling.draw_class_ratio_mask(scores, gold, rng(1))
    positives = (scores >= 0.5).sum()
    negatives = (mask & (scores < 0.5)).sum()
    assert mask[scores >= 0.5].all()
    assert positives > 50
    assert abs(negatives - positives * negative / positive) <= 0.5
    masks = [sampling.draw_class_ratio_mask(scores, gold, rng(seed)).tolist() for seed in (1, 2)]
    assert mask.tolist() == masks[0] != masks[1]
    few_scores = np.array([0.9, 0.8, 0.7, 0.1])  # too few negatives: all remain
    assert sampling.draw_class_ratio_mask(few_scores, np.array([1.0, 0.0, 0.0]), rng(0)).all()


TEACHER = TrainingConfig("cross_entropy", 0.001, max_length=40, frozen_blocks=1, swap_pairs=True)
STUDENT = TrainingConfig("cosine", 0.01, max_length=20, frozen_blocks=1, epochs=2)


def make_setup(training, encoder):
    """Return the setup of a run of ten steps, the last of which has a smaller batch."""
    rng = np.random.default_rng(0)
    rows = [(sample_sentence(rng), sample_sentence(rng), rng.random()) for _ in range(75)]
    pairs = pd.DataFrame(rows, columns=["first", "second", "label"])
    return TrainingSetup(encoder, training, pairs, "cpu")


@pytest.fixture
def steps(monkeypatch):
    """Record the seed and the learning rate of every training step."""
    steps = []
    for trainer in (networks._BiEncoderTrainer, networks._CrossEncoderTrainer):

        def record(self, *args, step=trainer.training_step, **kwargs):
            steps.append((self.args.seed, self.optimizer.param_groups[0]["lr"]))
            return step(self, *args, **kwargs)

        monkeypatch.setattr(trainer, "training_step", record)
    return steps


@pytest.mark.parametrize("training", [TEACHER, pytest.param(STUDENT, marks=pytest.mark.slow)])
def test_best_seed_equals_an_uninterrupted_run(training, encoder, tmp_path, steps):
    setup = make_setup(training, encoder)
    seeds = [11, 12, 13]
    scores = list[float]()

    def measure_or_stop(model, max_calls=6):
        if len(scores) == max_calls:
            raise KeyboardInterrupt
        scores.append(float(predict_scores(model, setup.pairs).mean()))
        return scores[-1]

    model = train_best_seed(setup, seeds, 0.2, measure_or_stop, tmp_path / "seeds")
    best = seeds[int(np.argmax(scores))]
    assert len({*scores}) == 3
    assert [seed for seed, _ in steps] == [11] * 2 + [12] * 2 + [13] * 2 + [best] * 8
    uninterrupted = setup.train(best, tmp_path / "uninterrupted")
    assert serialise_trainable_state(model) == serialise_trainable_state(uninterrupted)
    assert steps[-10:] == [step for step in steps[:6] if step[0] == best] + steps[6:14]

    measure = partial(measure_or_stop, max_calls=5)
    with pytest.raises(KeyboardInterrupt):
        train_best_seed(setup, seeds, 0.2, measure, tmp_path / "killed")
    damaged = tmp_path / "killed" / "seed-11" / "optimizer.pt"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    steps.clear()
    measure = partial(measure_or_stop, max_calls=7)
    resumed = train_best_seed(setup, seeds, 0.2, measure, tmp_path / "killed")
    assert scores[5:] == [scores[0], scores[2]]  # of the damaged and of the missing state
    assert len(steps) == 2 + 2 + 8
    assert serialise_trainable_state(resumed) == serialise_trainable_state(model)


def test_ties_go_to_the_first_seed_with_one_schedule(encoder, tmp_path, steps):
    train_best_seed(make_setup(TEACHER, encoder), [12, 11], 0.2, lambda model: 1.0, tmp_path)
    seeds, rates = zip(*steps, strict=True)
    assert seeds == (12, 12, 11, 11, *[12] * 8)
    schedule = [0.0, *(0.001 * (10 - n) / 9 for n in range(1, 10))]
    assert list(rates) == pytest.approx([*schedule[:2], *schedule[:2], *schedule[2:]])
