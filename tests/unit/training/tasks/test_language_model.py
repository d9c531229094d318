"""A tagger's layers before they see a tag: which words are guessed from what, what a guess costs, how often it is right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

from submission.errors import CheckpointError, InputError, TrainingError
from submission.inference.checkpoint_io import load_network, save_network
from submission.text.surface_tokens import SurfaceReader
from submission.text.vocabulary import Vocabulary
from training.fitting.language_model import LANGUAGE_MODEL_FORMAT, LanguageModel
from training.tasks.language_model import LanguageModelSpec, LanguageModelTask

READER = SurfaceReader(Vocabulary(["zoos", "are", "cruel", "."]), 6)
ZOOS, ARE, CRUEL = 2, 3, 4
PASSAGES = [passage for text in ("Zoos are what cruel people are", "cruel zoos", "are") for passage in READER.split(text)]


def model(seed: int = 0) -> LanguageModel:
    torch.manual_seed(seed)
    config = LanguageModel.Config(len(READER.vocabulary), (), dimensions=6, letter_dimensions=4, filters=3, hidden=5, longest=6)
    return LanguageModel(config).eval()


def test_predicts_neighbours_independently_of_padding() -> None:
    language = model()
    (ahead, next_words), (back, words_before) = language.predictions(PASSAGES)
    assert next_words.tolist() == [ARE, CRUEL, ARE, ZOOS]
    assert words_before.tolist() == [ZOOS, ARE, CRUEL, CRUEL]
    assert ahead.shape == back.shape == (4, 6)
    (changed, _), (same, _) = language.predictions(READER.split("Zoos are what cruel people zoos"))
    torch.testing.assert_close(changed[:2], ahead[:2])  # nothing but the last word differs, which is behind them
    assert not torch.isclose(same[0], back[0]).all()
    (alone, _), (alone_back, _) = language.predictions([PASSAGES[1]])
    torch.testing.assert_close(alone, ahead[3:])
    torch.testing.assert_close(alone_back, back[3:])


def test_sampled_softmax_estimates_cross_entropy() -> None:
    language = model()
    guessed, targets = next(iter(language.predictions(PASSAGES)))
    share = torch.tensor([0, 0, 0.4, 0.3, 0.2, 0.1])
    sample = torch.multinomial(share, 20_000, replacement=True)
    loss = language.sampled_softmax_loss(guessed, targets, sample, (share * len(sample)).log())
    assert loss.item() == pytest.approx(functional.cross_entropy(language.scores(guessed), targets).item(), abs=0.02)
    torch.nn.init.normal_(language.output_bias.weight)
    everything = torch.arange(2, 6)
    loss = language.sampled_softmax_loss(guessed, targets, everything, torch.zeros(6))
    torch.testing.assert_close(loss, functional.cross_entropy(language.scores(guessed), targets))


def task(**settings: int) -> LanguageModelTask:
    return LanguageModelTask(
        PASSAGES, PASSAGES[:2], LanguageModelSpec(**{"together": 2, "sampled": 50, **settings}), len(READER.vocabulary)
    )


def test_negative_sampling_and_micro_batch_loss() -> None:
    language_task = task()
    assert (language_task.train_size, language_task.validation_size) == (2, 2)
    share = np.array([0, 0, 2, 3, 2, 0]) ** 0.75
    assert language_task._sampling_distribution.tolist() == pytest.approx((share / share.sum()).tolist())
    assert language_task._log_expected_counts[ARE].item() == pytest.approx(np.log(50 * 3**0.75 / share.sum()))

    language, rows = model(), np.array([1, 0])
    torch.manual_seed(3)
    batch_loss = language_task.loss(language, rows, rows)
    torch.manual_seed(3)
    torch.testing.assert_close(
        language_task.loss(language, rows[:1], rows) + language_task.loss(language, rows[1:], rows), batch_loss
    )
    batch_loss.backward()
    assert {name for name, value in language.named_parameters() if value.grad is None} == {
        *("emission.weight", "emission.bias", "crf.transitions")
    }
    single = LanguageModelTask(PASSAGES[2:], PASSAGES, LanguageModelSpec(), len(READER.vocabulary))
    assert single.loss(language, np.array([0]), np.array([0])).item() == 0  # a single word has no neighbour


def test_validation_accuracy() -> None:
    language, language_task = model(), task()
    with torch.no_grad():
        language.output_bias.weight[ARE] = 1e4  # it always guesses this
    assert (
        language_task.validate(language, 1)
        == language_task.validate_final(language, 1)
        == {"ahead": 50.0, "back": 25.0, "both": 37.5}
    )
    assert language_task.measure_baselines() == {"most frequent word": {"both": 33.33}}
    with torch.no_grad():
        language.output_bias.weight[0] = torch.nan
    with pytest.raises(TrainingError, match="step 7: a weight is not finite"):
        language_task.validate(language, 7)
    with pytest.raises(InputError, match="0 training and 2 validation passages; both must be at least 1"):
        LanguageModelTask([], PASSAGES[:2], LanguageModelSpec(), 6)


def test_checkpoint_round_trip_and_probe(tmp_path: Path) -> None:
    save_network(
        tmp_path / "words",
        LANGUAGE_MODEL_FORMAT,
        language := model(),
        READER,
        {},
        {"training_data": {"input": {}}},
        "# test\n",
        None,
    )
    opened, reader, _ = load_network(tmp_path / "words", LANGUAGE_MODEL_FORMAT)
    assert reader.vocabulary.terms == READER.vocabulary.terms
    for (ours, _), (theirs, _) in zip(opened.predictions(PASSAGES), language.predictions(PASSAGES), strict=True):
        assert torch.equal(ours, theirs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LanguageModel, "score", lambda _, guessed: guessed @ torch.ones(6, 6))
        with pytest.raises(CheckpointError, match="text processing or network has changed; train the checkpoint again"):
            load_network(tmp_path / "words", LANGUAGE_MODEL_FORMAT)
