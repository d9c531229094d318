"""Train Augmented SBERT students (Thakur et al. 2021) on args.me, on gold, silver or gold+silver pairs."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec
import numpy as np
import pandas as pd
import torch
from sentence_transformers import SentenceTransformer
from torch.nn import Module

from submission.inference.pretrained import Pretrained
from submission.storage.artifact_store import Kept
from submission.storage.code_fingerprint import code_fingerprint
from submission.text.tokenisers import PieceTokeniser
from training.data.split import TRAIN, VALIDATION
from training.data.work_directory import hash_of, made
from training.experiment import Experiment
from training.fitting.recipe import Recipe
from training.sbert.networks import Loss, Model, Training, built, encoder_of, labels, restore, trained
from training.sbert.pairs import arguments, gold, sampled, thinned
from training.sbert.trainer import Run
from training.sbert.validation import Dev

log = logging.getLogger(__name__)

GOLD, SILVER, BOTH = "gold", "silver", "gold and silver"
DRAWS = (GOLD, SILVER)  # RNG stream index = position; append only
TEACHING = 1e-4


class Pairs(Protocol):
    """Sizes and teacher of the training pairs."""

    @property
    def arguments(self) -> int:
        """Number of arguments; each yields a positive and a negative gold pair."""

    @property
    def k(self) -> int:
        """BM25 premises of other conclusions per conclusion."""

    @property
    def silver(self) -> int:
        """Maximum number of silver pairs."""

    @property
    def teacher(self) -> str:
        """Initial encoder of the teacher; empty: the students' encoder."""

    @property
    def taught(self) -> bool:
        """Whether to fine-tune the teacher on gold."""


class Network(NamedTuple):
    """A trained network; without a loss, the pretrained encoder."""

    loss: Loss | None = None
    pairs: str = ""  # GOLD, SILVER or BOTH


UNTRAINED, TEACHER = Network(), Network("cross_entropy", GOLD)


class Result(msgspec.Struct):
    """The results of a network."""

    trained_on: int  # pairs
    map: float  # MAP@20 (percent) over 105 candidates per validation conclusion
    found: dict[str, float]  # retrieval metrics over all premises; empty for a cross-encoder
    seconds: float


class Students(Experiment[Network, Result]):
    """Experiment over networks, which are trained on demand and cached in the working directory."""

    name, unit, result = "students", "networks", Result

    def __init__(self, work: Path, recipe: Recipe, pairs: Pairs, device: torch.device) -> None:
        """Load the arguments; everything else is computed lazily.

        Args:
            work: Working directory prepared by `prepare pairs`; also caches results.
            recipe: Encoder, training settings, text lengths and seed.
            pairs: Sizes and teacher of the training pairs.
            device: Device to compute on.

        Raises:
            InputError: If the working directory is not prepared.
            CheckpointError: If an encoder is missing.
        """
        pretrained = Pretrained(recipe.encoder.name)
        tokeniser = PieceTokeniser.load(pretrained.folder, recipe.lengths)
        self._train, validation = (arguments(work, split, tokeniser) for split in (TRAIN, VALIDATION))
        self._dev = Dev(self._train, validation, work, tokeniser)
        self._recipe, self._settings, self._encoder, self._device = recipe, pairs, pretrained.folder, device
        self._teacher = Pretrained(pairs.teacher) if pairs.teacher else pretrained
        pair_settings = [pairs.arguments, pairs.k, pairs.silver, self._teacher.sha256, pairs.taught]
        settings = [recipe.seed, recipe.encoder, recipe.lengths, recipe.training, pair_settings]
        table_hashes = {name: file.xxh3 for name, file in made(work).files.items()}
        self._key = hash_of(
            [msgspec.to_builtins(settings), pretrained.sha256, code_fingerprint(__name__), device.type, table_hashes]
        )
        self._kept = Kept(work / "students" / self._key[:16], {})

    def key(self, network: Network) -> object:
        """Return the cache key of a network."""
        return self._key, network

    def compute(self, network: Network) -> Result:
        """Train and evaluate a network.

        Raises:
            OutputError: If a file cannot be written.
        """
        start = time.monotonic()
        training = self._training(network)
        model, pairs = self.model(network), len(self._run(network).pairs) if network.loss else 0
        retrieval = self._dev.found(model, training.bfloat16) if isinstance(model, SentenceTransformer) else {}
        map_at_20 = self._dev.validated(model, training.bfloat16)
        measures = {"MAP@20": map_at_20, **retrieval}
        log.info("%s: %s", _name(network), ", ".join(f"{name} {value:.2f}" for name, value in measures.items()))
        return Result(pairs, map_at_20, retrieval, round(time.monotonic() - start, 1))

    def model(self, network: Network) -> Model:
        """Load a network, training it if its weights are not cached."""
        model = built(self._start(network), self._training(network), self._recipe.seed, self._device)
        if network.loss and (network != TEACHER or self._settings.taught):
            restore(model, self._kept.content(f"{_name(network)}.safetensors", lambda: self._learned(network)))
        return model

    def _learned(self, network: Network) -> bytes:
        return trained(self._run(network).whole(self._recipe.seed, self._kept.directory / "scratch"))

    def _run(self, network: Network) -> Run:
        pairs = [self.gold] if network.pairs in (GOLD, BOTH) else []
        pairs += [self.silver] if network.pairs in (SILVER, BOTH) else []
        return Run(self._start(network), self._training(network), pd.concat(pairs, ignore_index=True), self._device)

    def _start(self, network: Network) -> Path:
        return self._teacher.folder if network == TEACHER else self._encoder

    def _training(self, network: Network) -> Training:
        """Return the training settings; no attention dropout, as texts are long."""
        lengths, encoder, training = self._recipe.lengths, self._recipe.encoder, self._recipe.training
        student = Training(
            network.loss or "cosine",
            encoder.learning_rate,
            pieces=lengths.premise + 2,
            batch=training.global_batch_size,
            epochs=training.epochs,
            frozen=encoder.frozen,
            attention_dropout=False,
            bfloat16=encoder.bfloat16,
        )
        if network != TEACHER:
            return student
        return replace(
            student, learning_rate=TEACHING, pieces=lengths.query + lengths.premise + 3, frozen=self._teacher.blocks // 2
        )

    @cached_property
    def gold(self) -> pd.DataFrame:
        """Gold pairs `first second label` by distant supervision."""
        return gold(self._train, self._settings.arguments, self._rng(GOLD))

    @cached_property
    def silver(self) -> pd.DataFrame:
        """Silver pairs `first second label`, labelled by the teacher."""
        pairs = sampled(self._train, self.gold, self._settings.k, self._kept)
        pairs = pairs.iloc[thinned(np.arange(len(pairs)), self._settings.silver, self._rng(SILVER))].reset_index(drop=True)

        def label_pairs() -> np.ndarray:
            return labels(self.model(TEACHER), pairs, self._training(TEACHER))

        return pairs.assign(label=self._kept.array("silver.npy", label_pairs))

    def _rng(self, draw: str) -> np.random.Generator:
        return np.random.default_rng([self._recipe.seed, DRAWS.index(draw)])


def teach(ranker: Module, recipe: Recipe, pairs: Pairs, student: Network, work: Path, device: torch.device) -> None:
    """Load a student's weights into a ranker built from its recipe.

    Raises:
        InputError: If the working directory is not prepared.
        CheckpointError: If an encoder is missing.
        OutputError: If a file cannot be written.
    """
    student_encoder = encoder_of(Students(work, recipe, pairs, device).model(student))
    state = ranker.state_dict()
    weights = {f"encoder.bert.{name}": value for name, value in student_encoder.state_dict().items()}
    # the ranker has no pooler
    ranker.load_state_dict({**state, **{name: value for name, value in weights.items() if name in state}})


def _name(network: Network) -> str:
    return f"{network.loss}-{network.pairs.replace(' ', '-')}" if network.loss else "untrained"
