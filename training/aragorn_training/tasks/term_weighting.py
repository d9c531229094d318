"""Train DeepCT to predict term weights (squared error); R² on held-out discussions selects."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from torch import Tensor

from aragorn.bounds import NonNegativeInt
from aragorn.inference.device import batch_by_tokens, get_max_batch_tokens, map_batches
from aragorn.models.network import PaddedTexts, pad
from aragorn.models.taggers.deepct import DeepCT
from aragorn.text.passages import Passage
from aragorn_training.data.corpora import format_credit
from aragorn_training.data.split import RandomStream, create_generator, hold_out_names
from aragorn_training.data.term_weighting import (
    get_passages_dir,
    iter_passages,
    read_passages_manifest,
)
from aragorn_training.evaluation.term_weighting import (
    LabelledWords,
    TermWeightBaselines,
    compute_term_weighting_metrics,
)
from aragorn_training.fitting.initialisation import TextNetworkSpec
from aragorn_training.fitting.recipe import Recipe
from aragorn_training.fitting.task import (
    CurveSpec,
    Task,
    TrainableNetwork,
    check_scores,
)
from aragorn_training.fitting.validation import use_evaluation_mode

# baselines
CONSTANT = "best constant"
IDF = "linear in IDF"
HOLD_OUT_ONE_IN = 50  # one in fifty discussions is held out
MAX_VALIDATION_PASSAGES = 400
REFERENCES = {
    "topic": "its topic",
    "conclusion": "its conclusion",
    "both": "its topic or conclusion",
}


class TermWeightingSpec(TextNetworkSpec, frozen=True):
    """Settings of training on passages with words labelled by a reference text."""

    version: ClassVar[int] = 1
    computes_with: ClassVar[tuple[str, ...]] = (
        "aragorn.text.passages",
        "aragorn.text.surface_tokens",
        "seqeval",
    )

    curve: ClassVar = CurveSpec(
        "masked mean squared error",
        ("R²", "MAP", "Rprec"),
        "R²",
        "%, words of held-out passages",
        "passages",
    )
    data_kind: ClassVar = "passages"
    supported_networks: ClassVar = ("deepct",)
    # unjudged: without judged arguments; unpooled: also without pooled arguments
    documents: Literal["all", "unjudged", "unpooled"] = "all"
    # a word is relevant if it shares a stem with the reference
    reference: Literal["topic", "conclusion", "both"] = "both"
    max_passages: NonNegativeInt = 0  # size of a seeded sample; 0: all

    @property
    def needs_qrels(self) -> bool:
        """Whether judged documents are excluded from the passages."""
        return self.documents != "all"

    def build_task(
        self, recipe: Recipe, trainee: TrainableNetwork, work_dir: Path, device: str
    ) -> Task[Any]:
        """Load the labelled passages and hold out those of some discussions for validation."""
        manifest = read_passages_manifest(work_dir, self.documents)
        roles = _assign_passages(work_dir, self, recipe.seed)
        training: list[tuple[np.ndarray, np.ndarray]] = []
        passages: list[Passage] = []
        labels: list[LabelledWords] = []
        baseline = TermWeightBaselines()
        for index, row in enumerate(iter_passages(work_dir, self.documents, self.reference)):
            if index not in roles:
                continue
            passage = trainee.tokeniser.encode(row["passage"])
            passage_labels = label_words(passage, dict.fromkeys(row["words"], 1.0))
            if roles[index] == "validation":
                passages.append(passage)
                labels.append(passage_labels)
            else:
                baseline.add(passage_labels)
                targets = build_piece_targets(passage, passage_labels)
                training.append((np.array(passage.piece_ids, np.int32), targets))
        examples = TrainingPassages.from_examples(training)
        task = TermWeightingTask(examples, baseline, passages, labels, device)
        relevance = f"a word is relevant if it shares a stem with {REFERENCES[self.reference]}"
        credit = format_credit(manifest.inputs)
        task.data_description = f"{credit}, labelled by distant supervision: {relevance}"
        task.training_data = manifest.inputs
        task.file_hashes = {name: file.xxh3 for name, file in manifest.files.items()}
        return task

    def check_prepared(self, work_dir: Path) -> None:
        """Raise InputError if the passages, or the qrels or runs they require, are missing."""
        read_passages_manifest(work_dir, self.documents)


@dataclass(frozen=True)
class TrainingPassages:
    """Training passages with one target per subword."""

    word_pieces: PaddedTexts
    targets: Tensor  # (N, L) int8; -1 on subwords that do not start a word

    @classmethod
    def from_examples(cls, examples: Sequence[tuple[np.ndarray, np.ndarray]]) -> Self:
        """Build padded training passages from pairs of ids and targets (-1, 0 or 1)."""
        word_pieces = PaddedTexts.from_ids([ids for ids, _ in examples])
        # padded with 0
        labels = PaddedTexts.from_ids([targets.astype(int) + 1 for _, targets in examples])
        return cls(word_pieces, (labels.ids - 1).to(torch.int8))

    def batch(self, rows: np.ndarray, device: str) -> tuple[Tensor, Tensor, Tensor]:
        """Return ids, mask and targets (B, T) of passages, trimmed to the longest one."""
        ids, mask = self.word_pieces.batch(rows, device)
        return ids, mask, self.targets[rows][:, : ids.shape[1]].to(device)


class TermWeightingTask(Task[DeepCT]):
    """Training passages with labelled words, and held-out passages for validation."""

    metrics_description = (
        "Percent, on passages of held-out discussions: R² over all words; MAP and R-precision over "
        "passages with a relevant word."
    )

    def __init__(
        self,
        training: TrainingPassages,
        baseline: TermWeightBaselines,
        passages: Sequence[Passage],
        labels: Sequence[LabelledWords],
        device: str,
    ) -> None:
        self._training = training
        self._baseline = baseline
        self._passages = passages
        self._labels = labels
        self._device = device
        self.train_size = len(training.targets)
        self.validation_size = len(passages)

    def compute_loss(self, network: DeepCT, micro_batch: np.ndarray, batch: np.ndarray) -> Tensor:
        """Return the micro-batch's contribution to the mean squared error of the batch."""
        ids, mask, targets = self._training.batch(micro_batch, self._device)
        n_labels = (self._training.targets[batch] >= 0).sum().to(self._device)
        return sum_squared_error(network(ids, mask), targets) / n_labels

    def measure_baselines(self) -> dict[str, dict[str, float]]:
        """Measure the best constant term weight and the best linear function of IDF."""
        predict = {
            CONSTANT: self._baseline.predict_constant,
            IDF: self._baseline.predict_from_idf,
        }
        return {
            name: compute_term_weighting_metrics(self._labels, function(self._labels))
            for name, function in predict.items()
        }

    def validate(self, network: DeepCT, step: int) -> dict[str, float]:
        """Measure R², MAP and R-precision on the held-out passages."""
        batches = batch_by_tokens(
            [len(passage) for passage in self._passages], get_max_batch_tokens(self._device)
        )

        def predict_weights(batch: np.ndarray) -> list[np.ndarray]:
            passages = [self._passages[row] for row in batch]
            ids, mask = pad([passage.piece_ids for passage in passages])
            weights = network(ids.to(self._device), mask.to(self._device)).float().cpu().numpy()
            rows = zip(passages, weights, strict=True)
            return [row[passage.first_pieces] for passage, row in rows]

        def concatenate(parts: Sequence[list[np.ndarray]]) -> list[np.ndarray]:
            return list(chain.from_iterable(parts))

        with use_evaluation_mode(network):
            batch_weights = map_batches(predict_weights, batches, self._device, concatenate)
        rows = np.concatenate(batches).tolist()
        weights_by_row = dict(zip(rows, concatenate(batch_weights), strict=True))
        weights = [weights_by_row[row] for row in range(len(weights_by_row))]
        check_scores(np.concatenate(weights), step)
        return compute_term_weighting_metrics(self._labels, weights)


def label_words(passage: Passage, labels: Mapping[str, float]) -> LabelledWords:
    """Label the words of a passage; words that are not in `labels` get 0."""
    return LabelledWords(passage.words, np.array([labels.get(word, 0.0) for word in passage.words]))


def build_piece_targets(passage: Passage, labels: LabelledWords) -> np.ndarray:
    """Return targets (L,): a word's label on its first piece, -1 elsewhere."""
    targets = np.full(len(passage), -1.0)
    targets[passage.first_pieces] = labels.labels
    return targets


def sum_squared_error(weights: Tensor, targets: Tensor) -> Tensor:
    """Sum the squared errors of the weights whose targets (B, T) are at least 0."""
    is_labelled = targets >= 0
    return (weights[is_labelled] - targets[is_labelled]).square().sum()


def _assign_passages(work_dir: Path, settings: TermWeightingSpec, seed: int) -> dict[int, str]:
    """Map sampled passages to "training" or "validation" by discussion, two at least."""
    discussions = [
        row["discussion"] for row in iter_passages(work_dir, settings.documents, settings.reference)
    ]
    names = sorted(set(discussions))
    folder = get_passages_dir(work_dir)
    held_out = hold_out_names(names, HOLD_OUT_ONE_IN, seed, "discussion", folder)
    is_held_out = np.isin(np.array(discussions, dtype=object), held_out)
    training = np.flatnonzero(~is_held_out)
    validation = np.flatnonzero(is_held_out)
    roles: dict[int, str] = {}
    for role, rows, stream, size in (
        ("training", training, RandomStream.SAMPLE, settings.max_passages or None),
        ("validation", validation, RandomStream.VALIDATION_SAMPLE, MAX_VALIDATION_PASSAGES),
    ):
        sample = create_generator(seed, stream).permutation(rows)[:size]
        roles |= dict.fromkeys(sample.tolist(), role)
    return roles
