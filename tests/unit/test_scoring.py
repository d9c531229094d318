from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from submission import scoring
from submission.checkpoint import open_checkpoint
from submission.encoding import pad
from submission.scoring import score

TOPICS = pd.DataFrame({"qid": ["1", "2"], "query": ["Are zoos cruel?", "unheard of"]})
CORPUS = pd.DataFrame(
    {"docno": ["a", "b", "c", "d"], "premise": ["zoos are cruel", "golf every day", "", "wild animals in cages " * 40]}
)
CANDIDATES = pd.DataFrame({"qid": ["1", "1", "1", "2", "2", "1"], "docno": ["d", "a", "b", "a", "c", "c"]})


def test_each_candidate_once_in_order_as_if_alone(checkpoints: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(scoring.BATCH, "words", 4)
    checkpoint = open_checkpoint(checkpoints / "knrm")
    found = score(CANDIDATES, TOPICS, CORPUS, checkpoint, torch.device("cpu"))
    assert found[["qid", "docno"]].equals(CANDIDATES)
    queries, premises = dict(TOPICS.to_numpy().tolist()), dict(CORPUS.to_numpy().tolist())
    with torch.no_grad():
        alone = [
            checkpoint.ranker(
                *pad([checkpoint.encoder.query(queries[q])]), *pad([checkpoint.encoder.premise(premises[d])])
            ).item()
            for q, d in CANDIDATES.to_numpy()
        ]
    np.testing.assert_allclose(found["score"], alone, rtol=0, atol=1e-6)
    assert len(set(alone)) > 3


def test_a_score_that_is_no_number_is_named(checkpoints: Path) -> None:
    checkpoint = open_checkpoint(checkpoints / "knrm")
    checkpoint.ranker.forward = lambda query, *_: torch.full((len(query),), torch.nan)  # type: ignore[method-assign]
    with pytest.raises(FloatingPointError, match="argument d for topic 1"):
        score(CANDIDATES, TOPICS, CORPUS, checkpoint, torch.device("cpu"))
