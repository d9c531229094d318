"""Term frequency highlighting of a document, with and without enrichment."""

from __future__ import annotations

import json
from collections import Counter
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
    terms = shade_terms("mine", stage, stage.enrichment, execution, "a0-0")
    assert (terms.system, terms.docno) == ("mine", "a0-0")
    for spans in (terms.original, terms.enriched):
        assert "".join(span.text for span in spans).split() == text.split()
    before = {span.text.lower(): span.frequency for span in terms.original if span.frequency}
    frequencies = Counter(
        {"zoos": 3, "cage": 1, "b": 2, "zoo": 1, "elephant": 1, "cages": 1, "hurt": 1, "whoever": 1, "wherever": 1}
    )
    assert before == frequencies  # each occurrence is shaded by how often the document has its term; stop words count nothing
    assert {span.text: span.level for span in terms.original if span.text in ("Zoos", "cage", "the")} == {
        "Zoos": SHADE_LEVELS, "cage": 3, "the": 0,
    }  # fmt: skip
    after = {span.text: (span.frequency, span.level) for span in terms.enriched if span.frequency}
    assert after == {"elephant": (90, SHADE_LEVELS), "cages": (31, 4), "Zoos": (1, 1), "zoos": (1, 1)}
