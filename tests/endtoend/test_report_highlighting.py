"""Tests of the highlighting of terms by frequency, with and without enrichment."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from submission.models.enrichers.deepct import DeepCT
from submission.systems.catalogue import SYSTEMS
from submission.systems.lexical import LexicalStage
from tests.endtoend.conftest import MakeExecution
from training.report.highlighting import SHADE_LEVELS, shade_terms


def test_words_are_highlighted_by_frequency(
    corpus_with_topics: Path, all_checkpoints_dir: Path, make_execution: MakeExecution, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = corpus_with_topics / "args-me.json"
    content = json.loads(file.read_text())
    text = "Zoos, zoos and the zoos! A cage <b>is</b> no zoo for an elephant: cages hurt it, whoever it is and wherever."
    content["arguments"][0]["premises"][0]["text"] = text
    file.write_text(json.dumps(content))
    monkeypatch.setattr(DeepCT, "compute_term_frequencies", lambda *_: {"elephant": 90, "cages": 31, "zoos": 1, "the": 500})
    execution = make_execution(corpus_with_topics, checkpoints=all_checkpoints_dir)
    stage = SYSTEMS["deepct_dirichlet"].stage
    assert isinstance(stage, LexicalStage)
    assert stage.enrichment is not None
    document = shade_terms("mine", stage, stage.enrichment, execution, "a0-0")
    assert (document.system, document.docno) == ("mine", "a0-0")
    for spans in (document.original, document.enriched):
        assert "".join(span.text for span in spans).split() == text.split()
    frequencies = {span.text.lower(): span.frequency for span in document.original if span.frequency}
    once = dict.fromkeys(("cage", "zoo", "elephant", "cages", "hurt", "whoever", "wherever"), 1)
    assert frequencies == {"zoos": 3, "b": 2, **once}  # stop words are not indexed
    assert {span.text: span.level for span in document.original if span.text in ("Zoos", "cage", "the")} == {
        "Zoos": SHADE_LEVELS, "cage": 3, "the": 0,
    }  # fmt: skip
    enriched = {span.text: (span.frequency, span.level) for span in document.enriched if span.frequency}
    assert enriched == {"elephant": (90, SHADE_LEVELS), "cages": (31, 4), "Zoos": (1, 1), "zoos": (1, 1)}
