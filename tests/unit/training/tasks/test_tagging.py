"""Tests of sequence tagging and of the language model that initialises the tagger."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from aragorn.models.taggers.targer import FORBIDDEN_SCORE, TARGER
from aragorn.text.surface_tokens import SurfaceTokeniser
from aragorn.text.tokenisers import Vocabulary
from aragorn_training.data.tagged_documents import Split, TaggedDocument
from aragorn_training.evaluation.term_weighting import MajorityTagger, compute_component_metrics
from aragorn_training.tasks.language_model import (
    LanguageModel,
    LanguageModelSpec,
    LanguageModelTask,
)
from aragorn_training.tasks.tagging import TaggedPassages, TaggingTask, predict_tags

TAGS = ("O", "B-P", "I-P", "B-C", "I-C")
READER = SurfaceTokeniser(Vocabulary(["zoos", "are", "cruel", "."]), 4)


def parse_document(text):
    """Parse a document from `word/tag` tokens."""
    words, tags = zip(*(word.split("/") for word in text.split()), strict=True)
    return TaggedDocument(words, tags)


TRAIN = [
    parse_document("Zoos/B-P are/I-P cruel/I-P ./I-P They/I-P are/O small/B-C"),
    parse_document("Zoos/O"),
    parse_document("So/O zoos/B-C close/I-C ./O"),
]
TEST = [parse_document("zoos/B-P close/O"), parse_document("cruel/O ./O")]


def build_tagger():
    torch.manual_seed(0)
    sizes = {"dimensions": 6, "character_dimensions": 4, "filters": 3, "hidden": 5, "longest": 4}
    config = TARGER.Config(len(READER.vocabulary), TAGS, **sizes)
    return TARGER(config)


def test_components_restart_per_passage():
    examples = TaggedPassages.from_documents(TRAIN, READER)
    expected = ["Zoos are cruel .", "They are small", "Zoos", "So zoos close ."]
    assert [passage.text for passage in examples.passages] == expected
    expected = [["B-P", "I-P", "I-P", "I-P"], ["B-P", "O", "B-C"], ["O"], ["O", "B-C", "I-C", "O"]]
    assert examples.tags == expected


def test_transitions_without_example_are_forbidden():
    tagger = build_tagger()
    task = TaggingTask(Split(TRAIN, TEST), tagger, READER)
    assert (task.train_size, task.validation_size) == (4, 2)
    allowed = tagger.crf.transitions > FORBIDDEN_SCORE
    transitions = {
        (TAGS[to - 1], (*TAGS, "start")[origin - 1])
        for to, origin in allowed[1:-1, 1:].nonzero().add(1).tolist()
    }
    expected = {("B-P", "start"), ("O", "start"), ("I-P", "B-P"), ("I-P", "I-P"), ("O", "B-P")}
    assert transitions == expected | {("B-C", "O"), ("I-C", "B-C"), ("O", "I-C")}


def test_predicted_tags_are_in_the_order_of_passages():
    tagger = build_tagger().eval()
    tagger.min_batch_tokens = 5
    texts = ("zoos . a b c", "x", "cruel zoos", "")
    passages = [passage for text in texts for passage in READER.split(text)]
    predicted = predict_tags(tagger, passages)
    assert [len(tags) for tags in predicted] == [2, 3, 1, 2]
    expected = [[word.label for word in tagger.annotate([passage])[0]] for passage in passages]
    assert predicted == expected


GOLD = [["O", "B-P", "I-P", "B-P", "O"], ["B-C", "I-C", "O"], ["O"]]


@pytest.mark.parametrize(("gold", "predicted", "expected"), [  # precision, recall, F1 and accuracy
    (GOLD, [["O", "B-P", "I-P", "O", "B-P"], ["B-P", "I-P", "O"], ["B-C"]], (25.0, 33.33, 28.57, 44.44)),
    (GOLD, [["O"] * len(tags) for tags in GOLD], (0, 0, 0, 44.44)),
    # a component ends at the next B- tag
    ([["B-P", "I-P"], ["O"]], [["B-P", "B-P"], ["O"]], (0, 0, 0, 66.67)),
    # components end with passages
    ([["O", "B-P"], ["B-P", "O"]], [["O", "B-P"], ["B-P", "O"]], (100, 100, 100, 100)),
])  # fmt: skip
def test_metrics_count_exact_components(gold, predicted, expected):
    assert tuple(compute_component_metrics(gold, predicted).values()) == expected


def test_majority_tagger_falls_back_to_the_overall_majority():
    words = [["Zoos", "zoos", "ZOOS", "1984"], ["zoos", "ants", "1066"]]
    majority = MajorityTagger(words, [["B-P", "O", "O", "I-P"], ["B-P", "I-P", "I-P"]])
    assert majority.most_frequent == "I-P"
    assert majority.predict([["zoos", "2024", "bees"], []]) == [["B-P", "I-P", "I-P"], []]


MODEL_READER = SurfaceTokeniser(Vocabulary(["zoos", "are", "cruel", "."]), 6)
ZOOS = 2
ARE = 3
CRUEL = 4
MODEL_TEXTS = ("Zoos are what cruel people are", "cruel zoos", "are")
PASSAGES = [passage for text in MODEL_TEXTS for passage in MODEL_READER.split(text)]


def build_model():
    torch.manual_seed(0)
    sizes = {"dimensions": 6, "character_dimensions": 4, "filters": 3, "hidden": 5, "longest": 6}
    config = LanguageModel.Config(len(MODEL_READER.vocabulary), (), **sizes)
    return LanguageModel(config).eval()


def test_predictions_depend_on_their_context_only():
    model = build_model()
    (ahead, next_words), (back, words_before) = model.predict(PASSAGES)
    assert next_words.tolist() == [ARE, CRUEL, ARE, ZOOS]
    assert words_before.tolist() == [ZOOS, ARE, CRUEL, CRUEL]
    (changed_ahead, _), (changed_back, _) = model.predict(
        MODEL_READER.split("Zoos are what cruel people zoos")
    )
    torch.testing.assert_close(changed_ahead[:2], ahead[:2])  # only the last word differs
    assert not torch.isclose(changed_back[0], back[0]).all()
    (single_ahead, _), (single_back, _) = model.predict([PASSAGES[1]])
    torch.testing.assert_close(single_ahead, ahead[3:])
    torch.testing.assert_close(single_back, back[3:])


def test_sampled_softmax_loss_estimates_the_cross_entropy():
    model = build_model()
    predicted, targets = next(iter(model.predict(PASSAGES)))
    distribution = torch.tensor([0, 0, 0.4, 0.3, 0.2, 0.1])
    sample = torch.multinomial(distribution, 20_000, replacement=True)
    loss = model.compute_softmax_loss(
        predicted, targets, sample, (distribution * len(sample)).log()
    )
    expected = functional.cross_entropy(model.score_words(predicted), targets).item()
    assert loss.item() == pytest.approx(expected, abs=0.02)


def test_passages_of_one_word_have_no_loss():
    spec = LanguageModelSpec()
    task = LanguageModelTask(PASSAGES[2:], PASSAGES, spec, len(MODEL_READER.vocabulary))
    # a single word has no context
    assert task.compute_loss(build_model(), np.array([0]), np.array([0])).item() == 0
