"""How each system comes to its run."""

from __future__ import annotations

from functools import cache, cached_property
from pathlib import Path

import pandas as pd
import torch

from submission.checkpoint import Checkpoint, open_checkpoint
from submission.data import Data
from submission.ensemble import LISTED, Ensemble, open_ensemble
from submission.ensemble import NAME as ENSEMBLE
from submission.errors import CheckpointError, InputError, OutputError
from submission.fingerprint import code_fingerprint
from submission.rankers.base import LatentRanker
from submission.retrieval.latent import latent_index, retrieve
from submission.runs import cut, ranked
from submission.scoring import score
from submission.systems import BM25
from submission.work import Work


class Maker:
    """Runs by the systems' names; scores are made once, also for the ensemble."""

    def __init__(self, checkpoints: Path, depth: int, device: torch.device, data: Data, work: Work) -> None:
        self._checkpoints, self._depth, self._device, self._data, self._work = checkpoints, depth, device, data, work
        self._scores: dict[str, pd.DataFrame | Exception] = {}

    @cache  # noqa: B019 one object a process
    def checkpoint(self, name: str) -> Checkpoint:
        """The opened checkpoint of a network."""
        return open_checkpoint(self._checkpoints / name)

    @cached_property
    def ensemble(self) -> Ensemble:
        """The ensemble, its members' checkpoints checked."""
        ensemble = open_ensemble(self._checkpoints / ENSEMBLE)
        ensemble.refuse_others({member.name: self.checkpoint(member.name).fingerprint for member in ensemble.members})
        return ensemble

    def key(self, name: str) -> str:
        """What decides a system's run beside input, settings and code."""
        if name == BM25:
            return "no checkpoint"
        return f"{self.ensemble.fingerprint if name == ENSEMBLE else self.checkpoint(name).fingerprint} {self._device.type}"

    def run(self, name: str) -> pd.DataFrame:
        """`qid docno rank score`, at most `depth` documents a topic."""
        if name == BM25:
            return cut(self._data.candidates, self._data.topics, self._depth)
        return ranked(self.scores(name), self._data.topics, self._depth)

    def scores(self, name: str) -> pd.DataFrame:
        """`qid docno score` of all documents that a system scores; a failure is remembered like scores."""
        if name not in self._scores:
            try:
                self._scores[name] = self._made(name)
            except (InputError, OutputError):
                raise  # not this system's fault
            except Exception as error:
                self._scores[name] = error
        found = self._scores[name]
        if isinstance(found, Exception):
            raise found
        return found

    def _made(self, name: str) -> pd.DataFrame:
        data, device = self._data, self._device
        if name == ENSEMBLE:
            return self.ensemble.combine({member.name: self.listed(member.name) for member in self.ensemble.members})
        checkpoint = self.checkpoint(name)
        if isinstance(checkpoint.ranker, LatentRanker):
            place = self._work.place(f"{name}-index", f"{data.corpus_fingerprint} {code_fingerprint()} {self.key(name)}")
            index = latent_index(data.collected, checkpoint, device, place)
            return retrieve(data.topics, data.collection, checkpoint, index, self._depth)
        place = self._work.place(name, f"{data.fingerprint} {code_fingerprint()} {self.key(name)}")
        return score(data.candidates, data.tokens, checkpoint, device, place)

    def listed(self, name: str) -> pd.DataFrame:
        """What the ensemble takes of a network: its best documents."""
        try:
            return ranked(self.scores(name), self._data.topics, LISTED)
        except (CheckpointError, ValueError, ArithmeticError, RuntimeError) as error:
            raise CheckpointError(f"it needs {name}, which failed: {error}") from None
