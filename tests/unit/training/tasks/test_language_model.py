"""Test the predictions, loss, accuracy and checkpoint of the language model."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional

from submission.errors import InputError
from submission.text.surface_tokens import SurfaceReader
from submission.text.vocabulary import Vocabulary
from training.fitting.language_model import LanguageModel
from training.tasks.language_model import LanguageModelSpec, LanguageModelTask

READER = SurfaceReader(Vocabulary(["zoos", "are", "cruel", "."]), 6)
ZOOS, ARE, CRUEL = 2, 3, 4
PASSAGES = [passage for text in ("Zoos are what cruel people are", "cruel zoos", "are") for passage in READER.split(text)]


def build_model() -> LanguageModel:
    torch.manual_seed(0)
    config = LanguageModel.Config(len(READER.vocabulary), (), dimensions=6, letter_dimensions=4, filters=3, hidden=5, longest=6)
    return LanguageModel(config).eval()


def test_predictions_depend_on_their_context_only() -> None:
    model = build_model()
    (ahead, next_words), (back, words_before) = model.predict(PASSAGES)
    assert next_words.tolist() == [ARE, CRUEL, ARE, ZOOS]
    assert words_before.tolist() == [ZOOS, ARE, CRUEL, CRUEL]
    (changed_ahead, _), (changed_back, _) = model.predict(READER.split("Zoos are what cruel people zoos"))
    torch.testing.assert_close(changed_ahead[:2], ahead[:2])  # only the last word differs
    assert not torch.isclose(changed_back[0], back[0]).all()
    (single_ahead, _), (single_back, _) = model.predict([PASSAGES[1]])
    torch.testing.assert_close(single_ahead, ahead[3:])
    torch.testing.assert_close(single_back, back[3:])


def test_sampled_softmax_loss_estimates_the_cross_entropy() -> None:
    model = build_model()
    predicted, targets = next(iter(model.predict(PASSAGES)))
    distribution = torch.tensor([0, 0, 0.4, 0.3, 0.2, 0.1])
    sample = torch.multinomial(distribution, 20_000, replacement=True)
    loss = model.sampled_softmax_loss(predicted, targets, sample, (distribution * len(sample)).log())
    assert loss.item() == pytest.approx(functional.cross_entropy(model.score_words(predicted), targets).item(), abs=0.02)


def test_negatives_are_sampled_by_frequency() -> None:
    spec = LanguageModelSpec(passages_per_example=2, negative_samples=50)
    task = LanguageModelTask(PASSAGES, PASSAGES[:2], spec, len(READER.vocabulary))
    assert (task.train_size, task.validation_size) == (2, 2)
    weights = np.array([0, 0, 2, 3, 2, 0]) ** 0.75
    assert task._sampling_distribution.tolist() == pytest.approx((weights / weights.sum()).tolist())
    assert task._log_expected_counts[ARE].item() == pytest.approx(np.log(50 * 3**0.75 / weights.sum()))
    single = LanguageModelTask(PASSAGES[2:], PASSAGES, LanguageModelSpec(), len(READER.vocabulary))
    assert single.loss(build_model(), np.array([0]), np.array([0])).item() == 0  # a single word has no context
    with pytest.raises(InputError, match="0 training and 2 validation passages; both must be at least 1"):
        LanguageModelTask([], PASSAGES[:2], LanguageModelSpec(), 6)
