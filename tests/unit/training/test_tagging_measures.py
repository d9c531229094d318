"""What tags are worth beside the right ones, and what needs no network."""

from __future__ import annotations

from training.tagging.measures import Majority, measures

GOLD = [["O", "B-P", "I-P", "B-P", "O"], ["B-C", "I-C", "O"], ["O"]]


def test_a_component_agrees_whole_or_not_at_all() -> None:
    found = [["O", "B-P", "I-P", "O", "B-P"], ["B-P", "I-P", "O"], ["B-C"]]
    # Of three components one is found whole, among four; four words of nine are tagged rightly.
    assert measures(GOLD, found) == {"precision": 25.0, "recall": 33.33, "F1": 28.57, "accuracy": 44.44}
    assert measures(GOLD, GOLD) == {"precision": 100.0, "recall": 100.0, "F1": 100.0, "accuracy": 100.0}


def test_a_component_ends_with_its_passage_and_where_another_begins() -> None:
    whole, parts = [["B-P", "I-P"], ["O"]], [["B-P", "B-P"], ["O"]]
    assert measures(whole, parts) == {"precision": 0.0, "recall": 0.0, "F1": 0.0, "accuracy": 66.67}
    assert measures([["O", "B-P"], ["B-P", "O"]], [["O", "B-P"], ["B-P", "O"]])["F1"] == 100.0


def test_nothing_found_is_no_error() -> None:
    assert measures(GOLD, [["O"] * len(tags) for tags in GOLD]) == {
        "precision": 0.0, "recall": 0.0, "F1": 0.0, "accuracy": 44.44,
    }  # fmt: skip


def test_the_majority_is_of_each_form_and_of_all() -> None:
    words = [["Zoos", "zoos", "ZOOS", "1984"], ["zoos", "ants", "1066"]]
    majority = Majority(words, [["B-P", "O", "O", "I-P"], ["B-P", "I-P", "I-P"]])
    assert majority.most_frequent == "I-P"
    assert majority.tags([["zoos", "2024", "bees"], []]) == [["B-P", "I-P", "I-P"], []]
