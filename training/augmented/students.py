"""Augmented SBERT on args.me: students by three losses, on gold, on silver and on both, beside the encoder as it comes."""

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

from submission.disk.code import code_fingerprint
from submission.disk.kept import Kept
from submission.scoring.pretrained import Pretrained
from submission.text.tokenisers import PieceTokeniser
from training.augmented.arguments import arguments, gold, sampled
from training.augmented.collection import Dev
from training.augmented.models import Loss, Model, Training, built, encoder_of, labels, restore, trained
from training.augmented.runs import Run
from training.augmented.sampling import thinned
from training.data.split import TRAIN, VALIDATION
from training.data.work import hash_of, made
from training.experiment import Experiment, run
from training.fitting.recipe import Recipe

log = logging.getLogger(__name__)

GOLD, SILVER, BOTH = "gold", "silver", "gold and silver"
LOSSES: tuple[Loss, ...] = ("cosine", "cosent", "multiple_negatives")
DRAWS = (GOLD, SILVER)  # what is drawn; a number must stay what it is


TEACHING = 1e-4  # the teacher's rate


class Pairs(Protocol):
    """The numbers of pairs, of which those that the students learn from are drawn."""

    @property
    def arguments(self) -> int:
        """Arguments; each gives gold two pairs: with its own conclusion, and a premise of another."""

    @property
    def k(self) -> int:
        """Premises that BM25 finds for a conclusion among those of others."""

    @property
    def silver(self) -> int:
        """Pairs of these that the teacher labels, at most."""

    @property
    def teacher(self) -> str:
        """The encoder where the teacher starts; empty: where students do."""

    @property
    def taught(self) -> bool:
        """Whether the teacher is trained on gold before it labels."""


class Network(NamedTuple):
    """A row of the table; without a loss the encoder as it comes."""

    loss: Loss | None = None
    pairs: str = ""  # GOLD, SILVER or BOTH


UNTRAINED, TEACHER = Network(), Network("cross_entropy", GOLD)
NETWORKS = (UNTRAINED, TEACHER, *(Network(loss, pairs) for pairs in (GOLD, SILVER, BOTH) for loss in LOSSES))


class Result(msgspec.Struct):
    """The results of a network."""

    trained_on: int  # pairs
    map: float  # at 20, in percent, over the 105 premises of each validation conclusion
    found: dict[str, float]  # in the whole collection; of a teacher, which has no vectors, nothing
    seconds: float


class Students(Experiment[Network, Result]):
    """The networks of a working directory, trained when they are needed and kept; and the experiment that measures them."""

    name, unit, result = "students", "networks", Result

    def __init__(self, work: Path, recipe: Recipe, pairs: Pairs, device: torch.device) -> None:
        """Read the arguments; nothing else before it is asked for.

        Args:
            work: what `prepare pairs` wrote; what is finished is kept there.
            recipe: the encoder, its training, the lengths of texts and the seed.
            pairs: how many of them there are.
            device: where to compute.

        Raises:
            InputError: nothing prepared. CheckpointError: no encoder.
        """
        pretrained = Pretrained(recipe.encoder.name)
        tokeniser = PieceTokeniser.load(pretrained.folder, recipe.lengths)
        self._train, validation = (arguments(work, split, tokeniser) for split in (TRAIN, VALIDATION))
        self._dev = Dev(self._train, validation, work, tokeniser)
        self._recipe, self._settings, self._encoder, self._device = recipe, pairs, pretrained.folder, device
        self._teacher = Pretrained(pairs.teacher) if pairs.teacher else pretrained
        numbers = [pairs.arguments, pairs.k, pairs.silver, self._teacher.sha256, pairs.taught]
        settings = [recipe.seed, recipe.encoder, recipe.lengths, recipe.training, numbers]
        prepared = {name: file.xxh3 for name, file in made(work).files.items()}
        self._key = hash_of(
            [msgspec.to_builtins(settings), pretrained.sha256, code_fingerprint(__name__), device.type, prepared]
        )
        self._kept = Kept(work / "students" / self._key[:16], {})

    def key(self, network: Network) -> object:
        """Return all that decides the results of a network."""
        return self._key, network

    def compute(self, network: Network) -> Result:
        """Train and measure a network. Raises OutputError: its weights cannot be kept."""
        start = time.monotonic()
        training = self._training(network)
        model, pairs = self.model(network), len(self._run(network).pairs) if network.loss else 0
        found = self._dev.found(model, training.bfloat16) if isinstance(model, SentenceTransformer) else {}
        mean = self._dev.validated(model, training.bfloat16)
        measures = {"MAP@20": mean, **found}
        log.info("%s: %s", _name(network), ", ".join(f"{name} {value:.2f}" for name, value in measures.items()))
        return Result(pairs, mean, found, round(time.monotonic() - start, 1))

    def model(self, network: Network) -> Model:
        """A network; its weights are kept."""
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
        """Without dropout in the attention: texts are long."""
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
        """Pairs `first second label` by distant supervision."""
        return gold(self._train, self._settings.arguments, self._rng(GOLD))

    @cached_property
    def silver(self) -> pd.DataFrame:
        """Pairs `first second label` of other conclusions, as the teacher labels them."""
        found = sampled(self._train, self.gold, self._settings.k, self._kept)
        found = found.iloc[thinned(np.arange(len(found)), self._settings.silver, self._rng(SILVER))].reset_index(drop=True)

        def labelled() -> np.ndarray:
            return labels(self.model(TEACHER), found, self._training(TEACHER))

        return found.assign(label=self._kept.array("silver.npy", labelled))

    def _rng(self, draw: str) -> np.random.Generator:
        return np.random.default_rng([self._recipe.seed, DRAWS.index(draw)])


def students(work: Path, recipe: Recipe, pairs: Pairs, device: torch.device) -> pd.DataFrame:
    """Train and measure everything that is not kept.

    Args:
        work: what `prepare pairs` wrote; what is finished is kept there.
        recipe: the encoder, its training, the lengths of texts and the seed.
        pairs: how many of them there are.
        device: where to compute.

    Returns:
        A row for each of NETWORKS, in percent: MAP at 20 of the thesis' validation; recall, MRR and nDCG in the whole
        collection.

    Raises:
        InputError: nothing prepared. CheckpointError: no encoder.
        OutputError: something cannot be kept.
    """
    results = run(Students(work, recipe, pairs, device), NETWORKS, work)
    return pd.DataFrame(
        {
            "loss": network.loss or "", "pairs": network.pairs, "trained on": result.trained_on,
            "MAP@20": result.map, **result.found, "seconds": result.seconds,
        }
        for network, result in results.items()
    )  # fmt: skip


def teach(ranker: Module, recipe: Recipe, pairs: Pairs, student: Network, work: Path, device: torch.device) -> None:
    """Give a ranker, as its recipe builds it, the weights of a student. Raises as `study students` does."""
    learned = encoder_of(Students(work, recipe, pairs, device).model(student))
    own = ranker.state_dict()
    weights = {f"encoder.bert.{name}": value for name, value in learned.state_dict().items()}
    ranker.load_state_dict({**own, **{name: value for name, value in weights.items() if name in own}})  # it has no pooler


def _name(network: Network) -> str:
    return f"{network.loss}-{network.pairs.replace(' ', '-')}" if network.loss else "untrained"
