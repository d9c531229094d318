from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from submission.models.enricher import TokenAnnotation
from submission.search.snippets import WEIGHT_LEVELS, Highlight, compute_highlights, locate_words
from submission.systems.catalogue import SYSTEMS
from submission.systems.execution import Execution
from tests.conftest import SAMPLE, make_argument

MakeExecution = Callable[..., Execution]
DOCNO = "S89c1bfbf-A23fa7870"


def get_texts_and_labels(execution: Execution, docno: str, highlights: list[Highlight]) -> list[tuple[str, str]]:
    [premise] = execution.documents.read_texts({docno})["premise"]
    return [(premise[highlight.start : highlight.end], highlight.label) for highlight in highlights]


def test_targer_highlights_indexed_claims_and_premises(make_execution: MakeExecution) -> None:
    execution, stage = make_execution(SAMPLE), SYSTEMS["targer_dirichlet"].stage
    pairs = get_texts_and_labels(execution, DOCNO, compute_highlights(stage, execution, DOCNO))
    assert ("home has been turned into farmland", "premise") in pairs
    assert any(text.startswith("Fixing bad zoos through licensing") and label == "claim" for text, label in pairs)


def test_deepct_highlights_words_by_weight_except_urls(make_execution: MakeExecution) -> None:
    execution, stage = make_execution(SAMPLE), SYSTEMS["deepct_dirichlet"].stage
    pairs = get_texts_and_labels(execution, "S89c1bfbf-A55b19fa0", compute_highlights(stage, execution, "S89c1bfbf-A55b19fa0"))
    assert {label for _, label in pairs} <= {f"weight-{level}" for level in range(1, WEIGHT_LEVELS + 1)}
    heaviest = {text.lower() for text, label in pairs if label == f"weight-{WEIGHT_LEVELS}"}
    assert heaviest
    assert heaviest <= {"zoo", "captivity", "elephant", "tiger", "sanctuaries", "conservation", "freedom"}
    assert not any("example" in text for text, _ in pairs)  # part of a URL


def test_words_are_located_in_texts_with_urls() -> None:
    text, passage = "See http://the-zoo.example/cage the zoo. A cage.", "See   the zoo."
    words = [TokenAnnotation(passage[start:end], start, end, 1.0) for start, end in ((0, 3), (6, 9), (10, 13))]
    second_words = [TokenAnnotation("cage", 2, 6, 1.0)]
    places = [(start, text[start:end]) for start, end, _ in locate_words(text, [(passage, words), ("A cage.", second_words)])]
    assert places == [(0, "See"), (32, "the"), (36, "zoo"), (43, "cage")]


def test_highlights_of_the_conclusion_are_omitted(make_execution: MakeExecution, make_input: Callable[..., Path]) -> None:
    conclusion = "Therefore, I strongly believe that zoos should be closed by the government."
    premise = (
        "Animals in small cages suffer from stress and they become ill, because they cannot move. "
        "Moreover, children learn little about wild animals in a zoo."
    )
    execution = make_execution(make_input(arguments=[make_argument("a", conclusion, premise)]), qid="1")
    stage = SYSTEMS["targer_dirichlet"].stage
    spans = [span.text for span in stage.explain(execution, "1", "a").component_spans if span.component]
    assert spans[0] == "zoos should be closed by the government"
    assert len(spans) == 3
    assert [text for text, _ in get_texts_and_labels(execution, "a", compute_highlights(stage, execution, "a"))] == spans[1:]
