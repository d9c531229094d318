"""Test the examples, loss, baselines and metrics of sequence tagging."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from submission.errors import TrainingError
from submission.models.crf import FORBIDDEN_SCORE
from submission.models.enricher import TokenAnnotation
from submission.models.enrichers.targer import TARGER
from submission.text.surface_tokens import SurfacePassage, SurfaceReader
from submission.text.vocabulary import Vocabulary
from training.data.datasets.argument_components import TaggedDocument
from training.data.tagged_documents import Split
from training.evaluation.term_weighting import MajorityTagger, component_metrics
from training.tasks.tagging import TaggedPassages, TaggingTask, compute_crf_loss, predict_tags

TAGS = ("O", "B-P", "I-P", "B-C", "I-C")
READER = SurfaceReader(Vocabulary(["zoos", "are", "cruel", "."]), 4)


def document(text: str) -> TaggedDocument:
    """Parse a document from `word/tag` tokens."""
    words, tags = zip(*(word.split("/") for word in text.split()), strict=True)
    return TaggedDocument(words, tags)


TRAIN = [
    document("Zoos/B-P are/I-P cruel/I-P ./I-P They/I-P are/O small/B-C"),
    document("Zoos/O"),
    document("So/O zoos/B-C close/I-C ./O"),
]
TEST = [document("zoos/B-P close/O"), document("cruel/O ./O")]


def build_tagger() -> TARGER:
    torch.manual_seed(0)
    config = TARGER.Config(len(READER.vocabulary), TAGS, dimensions=6, letter_dimensions=4, filters=3, hidden=5, longest=4)
    return TARGER(config)


def test_components_restart_per_passage_and_unseen_transitions_are_forbidden() -> None:
    examples = TaggedPassages.from_documents(TRAIN, READER)
    assert [passage.text for passage in examples.passages] == ["Zoos are cruel .", "They are small", "Zoos", "So zoos close ."]
    assert examples.tags == [["B-P", "I-P", "I-P", "I-P"], ["B-P", "O", "B-C"], ["O"], ["O", "B-C", "I-C", "O"]]

    tagger = build_tagger()
    task = TaggingTask(Split(TRAIN, TEST), tagger, READER)
    assert (task.train_size, task.validation_size) == (4, 2)
    allowed = tagger.crf.transitions > FORBIDDEN_SCORE
    transitions = {(TAGS[to - 1], (*TAGS, "start")[origin - 1]) for to, origin in allowed[1:-1, 1:].nonzero().add(1).tolist()}
    expected = {("B-P", "start"), ("O", "start"), ("I-P", "B-P"), ("I-P", "I-P"), ("O", "B-P")}
    assert transitions == expected | {("B-C", "O"), ("I-C", "B-C"), ("O", "I-C")}
    with torch.no_grad():
        tagger.emission.bias[1] = torch.nan
    with pytest.raises(TrainingError, match=r"step 7: a weight is not finite; lower training\.learning_rate"):
        task.validate(tagger, 7)


def test_loss_adds_up_over_micro_batches() -> None:
    tagger = build_tagger().eval()
    task = TaggingTask(Split(TRAIN, TEST), tagger, READER)
    rows = np.array([3, 0, 2])
    loss = task.loss(tagger, rows, rows)
    torch.testing.assert_close(sum(task.loss(tagger, part, rows) for part in (rows[:2], rows[2:])), loss)
    examples = TaggedPassages.from_documents(TRAIN, READER)
    values = []
    for row in rows:
        inputs = tagger.collate([examples.passages[row]])
        tags = torch.tensor([[TAGS.index(tag) + 1 for tag in examples.tags[row]]])
        emissions = tagger(*inputs)
        values.append(compute_crf_loss(tagger.crf, emissions, tags, inputs[-1]))
    torch.testing.assert_close(torch.stack(values).mean(), loss)


def test_validation_and_baselines_use_held_out_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    tagger = build_tagger()
    task = TaggingTask(Split(TRAIN, TEST), tagger, READER)
    tags = {"zoos": "B-P", "close": "B-C", "cruel": "O", ".": "O"}

    def predict(_: TARGER, passages: list[SurfacePassage]) -> list[list[str]]:
        return [[tags[token] for token in passage.tokens] for passage in passages]

    monkeypatch.setattr("training.tasks.tagging.predict_tags", predict)
    expected = {"precision": 50.0, "recall": 100.0, "F1": 66.67, "accuracy": 75.0}
    assert task.validate(tagger, 1) == task.validate_final(tagger, 1) == expected
    baselines = task.measure_baselines()
    assert baselines["most frequent tag"] == {"precision": 0.0, "recall": 0.0, "F1": 0.0, "accuracy": 75.0}
    assert baselines["most frequent tag per word"]["accuracy"] == 25.0  # the first tag wins a tie


def test_predict_tags_keeps_the_order_of_passages(monkeypatch: pytest.MonkeyPatch) -> None:
    tagger = build_tagger().eval()
    tagger.min_batch_tokens = 5  # type: ignore[misc]
    passages = [passage for text in ("zoos . a b c", "x", "cruel zoos", "") for passage in READER.split(text)]
    predicted = predict_tags(tagger, passages)
    assert [len(tags) for tags in predicted] == [2, 3, 1, 2]
    assert predicted == [[word.label for word in tagger.annotate([passage])[0]] for passage in passages]
    annotate, modes = TARGER.annotate, []

    def record(self: TARGER, batch: list[SurfacePassage]) -> list[list[TokenAnnotation]]:
        modes.append(self.training)
        return annotate(self, batch)

    monkeypatch.setattr(TARGER, "annotate", record)
    assert predict_tags(tagger.train(), passages) == predicted
    assert set(modes) == {False}
    assert tagger.training


GOLD = [["O", "B-P", "I-P", "B-P", "O"], ["B-C", "I-C", "O"], ["O"]]


def test_component_metrics_count_exact_components() -> None:
    predicted = [["O", "B-P", "I-P", "O", "B-P"], ["B-P", "I-P", "O"], ["B-C"]]
    # One of three components is among the four predicted; four of nine tags are correct.
    assert component_metrics(GOLD, predicted) == {"precision": 25.0, "recall": 33.33, "F1": 28.57, "accuracy": 44.44}
    assert component_metrics(GOLD, GOLD) == {"precision": 100.0, "recall": 100.0, "F1": 100.0, "accuracy": 100.0}
    no_components = [["O"] * len(tags) for tags in GOLD]
    assert component_metrics(GOLD, no_components) == {"precision": 0.0, "recall": 0.0, "F1": 0.0, "accuracy": 44.44}
    # A component ends with its passage or at the next B- tag.
    single, split = [["B-P", "I-P"], ["O"]], [["B-P", "B-P"], ["O"]]
    assert component_metrics(single, split) == {"precision": 0.0, "recall": 0.0, "F1": 0.0, "accuracy": 66.67}
    assert component_metrics([["O", "B-P"], ["B-P", "O"]], [["O", "B-P"], ["B-P", "O"]])["F1"] == 100.0


def test_majority_tagger_falls_back_to_the_overall_majority() -> None:
    words = [["Zoos", "zoos", "ZOOS", "1984"], ["zoos", "ants", "1066"]]
    majority = MajorityTagger(words, [["B-P", "O", "O", "I-P"], ["B-P", "I-P", "I-P"]])
    assert majority.most_frequent == "I-P"
    assert majority.predict([["zoos", "2024", "bees"], []]) == [["B-P", "I-P", "I-P"], []]
