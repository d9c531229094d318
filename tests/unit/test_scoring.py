from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from submission import scoring
from submission.checkpoint import Checkpoint, open_checkpoint
from submission.disk.kept import Kept
from submission.encoding import Lengths, WordEncoder, pad
from submission.rankers.gru import GRU
from submission.scoring import score
from submission.stopwatch import Stopwatch
from submission.tokens import Tokens
from submission.vocabulary import Vocabulary

TOPICS = pd.DataFrame({"qid": ["1", "2"], "query": ["Are zoos cruel?", "unheard of"]})
CORPUS = pd.DataFrame(
    {"docno": ["a", "b", "c", "d"], "premise": ["zoos are cruel", "golf every day", "", "wild animals in cages " * 40]}
)
TOKENS = Tokens(TOPICS, lambda docnos: CORPUS[CORPUS["docno"].isin(docnos)], Stopwatch())
CPU = torch.device("cpu")
CANDIDATES = pd.DataFrame({"qid": ["1", "1", "1", "2", "2", "1"], "docno": ["d", "a", "b", "a", "c", "c"]})


def test_each_candidate_once_in_order_as_if_alone(checkpoints: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(scoring.BATCH, "words", 2)
    monkeypatch.setitem(scoring.KEPT_TOGETHER, "words", 3)
    checkpoint = open_checkpoint(checkpoints / "knrm")
    found = score(CANDIDATES, TOKENS, checkpoint, CPU, Kept(tmp_path, {}))
    queries, premises = dict(TOPICS.to_numpy().tolist()), dict(CORPUS.to_numpy().tolist())
    with torch.no_grad():
        alone = [
            checkpoint.ranker(
                *pad([checkpoint.encoder.query(queries[q])]), *pad([checkpoint.encoder.premise(premises[d])])
            ).item()
            for q, d in CANDIDATES.to_numpy()
        ]
    np.testing.assert_allclose(found, alone, rtol=0, atol=1e-6)
    assert len(set(alone)) > 3


def test_finished_parts_are_not_computed_again(checkpoints: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(scoring.BATCH, "words", 2)
    monkeypatch.setitem(scoring.KEPT_TOGETHER, "words", 2)
    checkpoint = open_checkpoint(checkpoints / "knrm")
    first = score(CANDIDATES, TOKENS, checkpoint, CPU, Kept(tmp_path, {}))
    assert sorted(file.name for file in tmp_path.glob("part*")) == [f"part-0000{number}.npy" for number in range(3)]
    (tmp_path / "part-00001.npy").write_bytes(b"\x93NUMPY damaged")  # as by a disk's fault: it is made again
    score_features, calls = checkpoint.ranker.score, []
    checkpoint.ranker.score = lambda features: calls.append(len(features)) or score_features(features)  # type: ignore
    again = score(CANDIDATES, TOKENS, checkpoint, CPU, Kept(tmp_path, {}))
    assert (again == first).all()
    assert calls == [2]  # of 2 + 2 pairs of the one topic, 2 of the other


def test_a_score_that_is_no_number_is_named(checkpoints: Path, tmp_path: Path) -> None:
    checkpoint = open_checkpoint(checkpoints / "knrm")
    checkpoint.ranker.score = lambda features: torch.full((len(features),), torch.nan)  # type: ignore
    with pytest.raises(FloatingPointError, match="argument d for topic 1"):
        score(CANDIDATES, TOKENS, checkpoint, CPU, Kept(tmp_path, {}))


def test_each_premise_is_read_once_for_all_topics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(scoring.BATCH, "words", 3)
    torch.manual_seed(1)
    encoder = WordEncoder(Vocabulary(["zoos", "are", "cruel", "golf", "wild", "animals"]), Lengths())
    ranker = GRU(GRU.Config(vocabulary=8, dimensions=6, hidden=5)).eval()
    represent, read = ranker.represent_many, []
    monkeypatch.setattr(ranker, "represent_many", lambda ids, mask: read.extend(mask.sum(1).tolist()) or represent(ids, mask))
    found = score(CANDIDATES, TOKENS, Checkpoint(ranker, encoder, "a test"), CPU, Kept(tmp_path, {}))
    assert read == [0, 3, 3, 100]  # "c", "a" and "b", "d" cut
    pairs = [
        (encoder.query(dict(TOPICS.to_numpy())[q]), encoder.premise(dict(CORPUS.to_numpy())[d]))
        for q, d in CANDIDATES.to_numpy()
    ]
    with torch.no_grad():
        alone = [ranker(*pad([query]), *pad([document])).item() for query, document in pairs]
    np.testing.assert_allclose(found, alone, rtol=0, atol=1e-6)
    assert len(set(alone)) == 6


def test_no_candidates(checkpoints: Path, tmp_path: Path) -> None:
    found = score(CANDIDATES[:0], TOKENS, open_checkpoint(checkpoints / "knrm"), CPU, Kept(tmp_path, {}))
    assert found.shape == (0,)
