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
from submission.stopwatch import Stopwatch
from submission.tokens import Tokens

TOPICS = pd.DataFrame({"qid": ["1", "2"], "query": ["Are zoos cruel?", "unheard of"]})
CORPUS = pd.DataFrame(
    {"docno": ["a", "b", "c", "d"], "premise": ["zoos are cruel", "golf every day", "", "wild animals in cages " * 40]}
)
TOKENS = Tokens(TOPICS, lambda docnos: {docno: text for docno, text in CORPUS.to_numpy() if docno in docnos}, Stopwatch())
CPU = torch.device("cpu")
CANDIDATES = pd.DataFrame({"qid": ["1", "1", "1", "2", "2", "1"], "docno": ["d", "a", "b", "a", "c", "c"]})


def test_each_candidate_once_in_order_as_if_alone(checkpoints: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(scoring.BATCH, "words", 2)
    monkeypatch.setattr(scoring, "PART", 2)
    checkpoint = open_checkpoint(checkpoints / "knrm")
    found = score(CANDIDATES, TOKENS, checkpoint, CPU, tmp_path)
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


def test_finished_parts_are_not_computed_again(checkpoints: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(scoring.BATCH, "words", 2)
    monkeypatch.setattr(scoring, "PART", 2)
    checkpoint = open_checkpoint(checkpoints / "knrm")
    first = score(CANDIDATES, TOKENS, checkpoint, CPU, tmp_path)
    assert sorted(file.name for file in tmp_path.glob("part*")) == ["part-00000.npy", "part-00001.npy"]
    (tmp_path / "part-00001.npy").write_bytes(b"\x93NUMPY damaged")  # as by a disk's fault: it is made again
    forward, calls = checkpoint.ranker.forward, []
    checkpoint.ranker.forward = lambda *tensors: calls.append(len(tensors[0])) or forward(*tensors)  # type: ignore
    again = score(CANDIDATES, TOKENS, checkpoint, CPU, tmp_path)
    assert again.equals(first)
    assert calls == [2]  # of 2 + 2 + 2 pairs


def test_a_score_that_is_no_number_is_named(checkpoints: Path, tmp_path: Path) -> None:
    checkpoint = open_checkpoint(checkpoints / "knrm")
    checkpoint.ranker.forward = lambda query, *_: torch.full((len(query),), torch.nan)  # type: ignore[method-assign]
    with pytest.raises(FloatingPointError, match="argument d for topic 1"):
        score(CANDIDATES, TOKENS, checkpoint, CPU, tmp_path)
