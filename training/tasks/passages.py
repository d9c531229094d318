"""Learning how much each word of a passage matters, by squared errors; R² on held-out discussions picks the network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from torch import Tensor

from submission.disk.fingerprint import input_hashes
from submission.enrichment.deepct import DeepCT
from submission.errors import InputError, UsageError
from submission.input.args_me import corpus_files
from submission.scoring.batches import Padded, batches_of_positions, pad
from submission.scoring.device import in_batches, positions
from submission.text.passages import Passage, PassageReader
from training.cards import ARGS_ME
from training.data.seeds import Stream, generator
from training.deepct.measures import Weighed, Words, measures
from training.deepct.prepare import place, prepare_passages, prepared, rows
from training.fitting.curves import Curve
from training.fitting.network import NetworkOfTexts
from training.fitting.recipe import Recipe
from training.fitting.settings import Amount
from training.fitting.task import Task, dead, diverged
from training.fitting.trainee import Trainee
from training.fitting.validation import evaluating

CONSTANT, IDF = "best constant", "line over idf"
HELD_OUT = 50  # one discussion of so many validates
VALIDATING = 400  # passages at most
REFERENCES = {"topic": "its topic", "conclusion": "its conclusion", "both": "its topic or conclusion"}


class Passages(NetworkOfTexts, frozen=True):
    """The passages whose words an enricher learns to weigh, and the reference that says which of them matter."""

    curve: ClassVar = Curve(
        "masked mean squared error", ("R²", "MAP", "Rprec"), "R²", "percent, words of held-out passages", "passages"
    )
    networks: ClassVar = ("deepct",)
    documents: Literal["all", "unjudged", "unpooled"] = "all"  # all arguments; less the judged; less the judged and retrieved
    reference: Literal["topic", "conclusion", "both"] = "both"  # words that share a stem with it matter
    most: Amount = 0  # a seeded part of them; 0: all

    def task(self, recipe: Recipe, trainee: Trainee[Any, Any], work: Path, device: torch.device) -> TermWeighting:
        """Read the passages. Raises InputError: they are missing, or there are none to validate on."""
        return TermWeighting.of(self, recipe.seed, trainee.reader, work, device)

    def require(self, work: Path) -> None:
        """Raise InputError where a working directory has no passages, or not those of `documents`."""
        prepared(work, self.documents)

    def prepare(self, source: Path, work: Path, made: dict[str, Any]) -> dict[str, str]:
        """Prepare the passages of the corpus in `source` again. Raises UsageError: judgments had a part in them."""
        if made["qrels"] or made["runs"]:
            raise UsageError("its passages were told apart by judgments; `prepare passages` and `fit` make it anew")
        prepare_passages(source, work)
        return input_hashes(corpus_files(source))


@dataclass(frozen=True)
class Learned:
    """The passages that are learned from: their pieces, and the targets (N, L) int8 of these, -1 where none begins a word."""

    pieces: Padded
    targets: Tensor

    @classmethod
    def of(cls, found: Sequence[tuple[np.ndarray, np.ndarray]]) -> Learned:
        """Pad the ids and the targets (-1, 0 or 1) of passages."""
        pieces, targets = Padded.of([ids for ids, _ in found]), Padded.of([one.astype(int) + 1 for _, one in found])
        return cls(pieces, (targets.ids - 1).to(torch.int8))  # padded with 0

    def take(self, part: np.ndarray, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
        """Ids (B, T), mask (B, T) and targets (B, T) of some."""
        ids, mask = self.pieces.take(part, device)
        return ids, mask, self.targets[part][:, : ids.shape[1]].to(device)


class TermWeighting(Task[DeepCT]):
    """Passages whose words matter where a reference shares their stems, and others to validate on."""

    measured = (
        "Percent, over passages of discussions that were held out: R² over all their words; means over those with a word that "
        "matters."
    )

    def __init__(
        self,
        learned: Learned,
        words: Words,
        passages: Sequence[Passage],
        labels: Sequence[Weighed],
        device: torch.device,
    ) -> None:
        """Take the training passages with their words, and the validation passages with theirs."""
        self._learned, self._words, self._passages, self._labels = learned, words, passages, labels
        self._device = device
        self.size, self.number = len(learned.targets), len(passages)

    @classmethod
    def of(cls, settings: Passages, seed: int, reader: PassageReader, work: Path, device: torch.device) -> Self:
        """Read what `prepare passages` wrote. Raises InputError: it is missing, or has nothing to validate on."""
        record, chosen = prepared(work, settings.documents), _chosen(work, settings, seed)
        learned: list[tuple[np.ndarray, np.ndarray]] = []
        validating: list[tuple[Passage, Weighed]] = []
        words = Words()
        for number, row in enumerate(rows(work, settings.documents, settings.reference)):
            part = chosen.get(number)
            if part is None:
                continue
            passage = reader.passage(row["passage"])
            labelled = labels_of(passage, dict.fromkeys(row["words"], 1.0))
            if part == "validates":
                validating.append((passage, labelled))
            else:
                words.add(labelled)
                learned.append((np.array(passage.ids, np.int32), targets_of(passage, labelled)))
        passages, labels = [passage for passage, _ in validating], [labelled for _, labelled in validating]
        task = cls(Learned.of(learned), words, passages, labels, device)
        task.data = f"{ARGS_ME}: a premise's word matters where it shares a stem with {REFERENCES[settings.reference]}"
        task.decided_by, task.files = record.decided_by, {name: file.xxh3 for name, file in record.files.items()}
        return task

    def loss(self, network: DeepCT, part: np.ndarray, rows: np.ndarray) -> Tensor:
        """The part's share of the mean over all words of the batch."""
        ids, mask, targets = self._learned.take(part, self._device)
        return squared_errors(network(ids, mask), targets) / (self._learned.targets[rows] >= 0).sum().to(self._device)

    def baselines(self) -> dict[str, dict[str, float]]:
        """The best constant, and a line over idf."""
        return {
            CONSTANT: measures(self._labels, self._words.constants(self._labels)),
            IDF: measures(self._labels, self._words.by_idf(self._labels)),
        }

    def validated(self, network: DeepCT, step: int) -> dict[str, float]:
        """R², MAP and R-precision."""
        work = batches_of_positions([len(passage) for passage in self._passages], positions(self._device))

        def compute(some: np.ndarray) -> list[np.ndarray]:
            passages = [self._passages[row] for row in some]
            weights = network(*(tensor.to(self._device) for tensor in pad([passage.ids for passage in passages])))
            return [own[passage.places] for passage, own in zip(passages, weights.float().cpu().numpy(), strict=True)]

        with evaluating(network):
            found = in_batches(compute, work, self._device, lambda parts: [one for part in parts for one in part])
        by_row = dict(zip(np.concatenate(work).tolist(), (one for part in found for one in part), strict=True))
        weights = [by_row[row] for row in range(len(by_row))]
        everything = np.concatenate(weights)
        if not np.isfinite(everything).all():
            raise diverged(step, "a weight of a passage to validate on is not finite")
        if (everything == everything[0]).all():
            raise dead(step)
        return measures(self._labels, weights)

    def final(self, network: DeepCT, step: int) -> dict[str, float]:
        """Validate the kept network: all passages pick it."""
        return self.validated(network, step)


def labels_of(passage: Passage, labels: Mapping[str, float]) -> Weighed:
    """The words of a passage with their labels, 0 where a word has none."""
    return Weighed(passage.words, np.array([labels.get(word, 0.0) for word in passage.words]))


def targets_of(passage: Passage, labels: Weighed) -> np.ndarray:
    """The targets (L,) of a passage's pieces: a word's label on its first piece, -1 on the others."""
    targets = np.full(len(passage), -1.0)
    targets[passage.places] = labels.labels
    return targets


def squared_errors(weights: Tensor, targets: Tensor) -> Tensor:
    """The sum of the squared errors of weights (B, T) where targets (B, T) are 0 or more, a scalar."""
    inside = targets >= 0
    return (weights[inside] - targets[inside]).square().sum()


def _chosen(work: Path, settings: Passages, seed: int) -> dict[int, str]:
    """The numbers of the passages that are learned from and that validate, with which of both. Raises InputError."""
    discussions = [row["discussion"] for row in rows(work, settings.documents, settings.reference)]
    names = sorted(set(discussions))
    held = generator(seed, Stream.SPLIT).permutation(len(names))[: max(1, len(names) // HELD_OUT)]
    held_out = np.isin(np.array(discussions, dtype=object), [names[number] for number in held])
    if not (~held_out).any():
        raise InputError(f"{place(work)}: passages of one discussion; expected those of two or more, to hold one out")
    learn, validate = np.flatnonzero(~held_out), np.flatnonzero(held_out)
    learn = generator(seed, Stream.SAMPLE).permutation(learn)[: settings.most or None]
    validate = generator(seed, Stream.QUERIES).permutation(validate)[:VALIDATING]
    return dict.fromkeys(learn.tolist(), "learned") | dict.fromkeys(validate.tolist(), "validates")
