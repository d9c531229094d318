"""Train DeepCT's term weights by squared error; R² on held-out discussions selects the checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from torch import Tensor

from submission.data.args_me import corpus_files
from submission.errors import InputError, UsageError
from submission.inference.batching import Padded, batches_of_positions, pad
from submission.inference.device import in_batches, positions
from submission.models.enrichers.deepct import DeepCT
from submission.storage.hashing import input_hashes
from submission.text.passages import Passage, PassageReader
from training.cards import ARGS_ME
from training.data.seeds import Stream, generator
from training.data.split import hold_out
from training.data.term_weighting import place, prepare_passages, prepared, rows
from training.evaluation.term_weighting import Weighed, Words, measures
from training.fitting.hyperparameters import Amount
from training.fitting.initialisation import NetworkOfTexts
from training.fitting.learning_curve import Curve
from training.fitting.recipe import Recipe
from training.fitting.task import Task, dead, diverged
from training.fitting.trainable import Trainee
from training.fitting.validation import evaluating

CONSTANT, IDF = "best constant", "line over idf"
HELD_OUT = 50
VALIDATING = 400
REFERENCES = {"topic": "its topic", "conclusion": "its conclusion", "both": "its topic or conclusion"}


class Passages(NetworkOfTexts, frozen=True):
    """Passages to train on, and the reference that labels their words."""

    curve: ClassVar = Curve(
        "masked mean squared error", ("R²", "MAP", "Rprec"), "R²", "%, words of held-out passages", "passages"
    )
    networks: ClassVar = ("deepct",)
    documents: Literal["all", "unjudged", "unpooled"] = "all"  # without judged, or without judged and pooled arguments
    reference: Literal["topic", "conclusion", "both"] = "both"  # a word is relevant if it shares a stem with the reference
    most: Amount = 0  # size of a seeded sample; 0: all

    def task(self, recipe: Recipe, trainee: Trainee[Any, Any], work: Path, device: torch.device) -> TermWeighting:
        """Load the passages. Raises InputError: missing, or of a single discussion."""
        return TermWeighting.of(self, recipe.seed, trainee.reader, work, device)

    def require(self, work: Path) -> None:
        """Raise InputError if the passages are missing."""
        prepared(work, self.documents)

    def prepare(self, source: Path, work: Path, made: dict[str, Any]) -> dict[str, str]:
        """Prepare the passages again. Raises UsageError: they were filtered by judgments."""
        if made["qrels"] or made["runs"]:
            raise UsageError("its passages were filtered by judgments; run `prepare passages` and `fit` again")
        prepare_passages(source, work)
        return input_hashes(corpus_files(source))


@dataclass(frozen=True)
class Learned:
    """Training passages: word-piece ids and targets (N, L) int8, -1 on pieces that do not start a word."""

    pieces: Padded
    targets: Tensor

    @classmethod
    def of(cls, found: Sequence[tuple[np.ndarray, np.ndarray]]) -> Learned:
        """Pad the ids and targets (-1, 0 or 1) of passages."""
        pieces, labels = Padded.of([ids for ids, _ in found]), Padded.of([targets.astype(int) + 1 for _, targets in found])
        return cls(pieces, (labels.ids - 1).to(torch.int8))  # padded with 0

    def take(self, part: np.ndarray, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
        """Return ids, mask and targets (B, T) of some passages."""
        ids, mask = self.pieces.take(part, device)
        return ids, mask, self.targets[part][:, : ids.shape[1]].to(device)


class TermWeighting(Task[DeepCT]):
    """Passages with labelled words, and held-out passages for validation."""

    measured = (
        "Percent, on passages of held-out discussions: R² over all words; MAP and R-precision over passages with a relevant "
        "word."
    )

    def __init__(
        self,
        learned: Learned,
        words: Words,
        passages: Sequence[Passage],
        labels: Sequence[Weighed],
        device: torch.device,
    ) -> None:
        """Store training passages, baseline statistics and validation passages."""
        self._learned, self._words, self._passages, self._labels = learned, words, passages, labels
        self._device = device
        self.size, self.number = len(learned.targets), len(passages)

    @classmethod
    def of(cls, settings: Passages, seed: int, reader: PassageReader, work: Path, device: torch.device) -> Self:
        """Load the passages and split them by debate. Raises InputError: missing, or of a single discussion."""
        record, roles = prepared(work, settings.documents), _chosen(work, settings, seed)
        training: list[tuple[np.ndarray, np.ndarray]] = []
        passages: list[Passage] = []
        labels: list[Weighed] = []
        baseline = Words()
        for index, row in enumerate(rows(work, settings.documents, settings.reference)):
            if index not in roles:
                continue
            passage = reader.passage(row["passage"])
            passage_labels = labels_of(passage, dict.fromkeys(row["words"], 1.0))
            if roles[index] == "validation":
                passages.append(passage)
                labels.append(passage_labels)
            else:
                baseline.add(passage_labels)
                training.append((np.array(passage.ids, np.int32), targets_of(passage, passage_labels)))
        task = cls(Learned.of(training), baseline, passages, labels, device)
        task.data = f"{ARGS_ME}: a word is relevant if it shares a stem with {REFERENCES[settings.reference]}"
        task.decided_by, task.files = record.decided_by, {name: file.xxh3 for name, file in record.files.items()}
        return task

    def loss(self, network: DeepCT, part: np.ndarray, rows: np.ndarray) -> Tensor:
        """Return the micro-batch's contribution to the mean over all words of the batch."""
        ids, mask, targets = self._learned.take(part, self._device)
        return squared_errors(network(ids, mask), targets) / (self._learned.targets[rows] >= 0).sum().to(self._device)

    def baselines(self) -> dict[str, dict[str, float]]:
        """Measure the best constant and a linear function of IDF."""
        return {
            CONSTANT: measures(self._labels, self._words.constants(self._labels)),
            IDF: measures(self._labels, self._words.by_idf(self._labels)),
        }

    def validated(self, network: DeepCT, step: int) -> dict[str, float]:
        """Measure R², MAP and R-precision."""
        batches = batches_of_positions([len(passage) for passage in self._passages], positions(self._device))

        def compute(batch: np.ndarray) -> list[np.ndarray]:
            passages = [self._passages[row] for row in batch]
            weights = network(*(tensor.to(self._device) for tensor in pad([passage.ids for passage in passages])))
            return [row[passage.places] for passage, row in zip(passages, weights.float().cpu().numpy(), strict=True)]

        with evaluating(network):
            computed = in_batches(compute, batches, self._device, lambda parts: list(chain.from_iterable(parts)))
        weights_by_row = dict(zip(np.concatenate(batches).tolist(), chain.from_iterable(computed), strict=True))
        weights = [weights_by_row[row] for row in range(len(weights_by_row))]
        all_weights = np.concatenate(weights)
        if not np.isfinite(all_weights).all():
            raise diverged(step, "a weight of a validation passage is not finite")
        if (all_weights == all_weights[0]).all():
            raise dead(step)
        return measures(self._labels, weights)


def labels_of(passage: Passage, labels: Mapping[str, float]) -> Weighed:
    """Label the words of a passage; 0 without a label."""
    return Weighed(passage.words, np.array([labels.get(word, 0.0) for word in passage.words]))


def targets_of(passage: Passage, labels: Weighed) -> np.ndarray:
    """Return targets (L,): a word's label on its first piece, -1 elsewhere."""
    targets = np.full(len(passage), -1.0)
    targets[passage.places] = labels.labels
    return targets


def squared_errors(weights: Tensor, targets: Tensor) -> Tensor:
    """Return the summed squared error where targets (B, T) are at least 0."""
    is_labelled = targets >= 0
    return (weights[is_labelled] - targets[is_labelled]).square().sum()


def _chosen(work: Path, settings: Passages, seed: int) -> dict[int, str]:
    """Assign passages to training or validation by discussion. Raises InputError: a single discussion."""
    discussions = [row["discussion"] for row in rows(work, settings.documents, settings.reference)]
    names = sorted(set(discussions))
    indices, _ = hold_out(len(names), len(names) // HELD_OUT, seed)
    is_held_out = np.isin(np.array(discussions, dtype=object), [names[index] for index in indices])
    if not (~is_held_out).any():
        raise InputError(f"{place(work)}: 1 discussion; at least 2 are needed to hold one out")
    training, validation = np.flatnonzero(~is_held_out), np.flatnonzero(is_held_out)
    training = generator(seed, Stream.SAMPLE).permutation(training)[: settings.most or None]
    validation = generator(seed, Stream.QUERIES).permutation(validation)[:VALIDATING]
    return dict.fromkeys(training.tolist(), "training") | dict.fromkeys(validation.tolist(), "validation")
