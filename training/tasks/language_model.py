"""Pre-train a tagger's layers as a bidirectional language model on the corpus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pyarrow.parquet as pq
import torch
from torch import Tensor

from submission.errors import InputError
from submission.inference.batching import batches
from submission.text.surface_tokens import WrittenPassage, WrittenReader
from submission.text.token_ids import UNKNOWN
from training.data.split import hold_out
from training.data.word_vectors import VectorSettings
from training.data.work_directory import made
from training.fitting.hyperparameters import Count
from training.fitting.initialisation import fill, made_of, vectors_of
from training.fitting.language_model import LANGUAGE, LanguageModel
from training.fitting.learning_curve import Curve
from training.fitting.recipe import Recipe, Settings, TaskSpec
from training.fitting.task import Task, diverged
from training.fitting.trainable import Trainee
from training.fitting.validation import evaluating

HELD_OUT = 100
VALIDATING = 150
TOGETHER = 8  # passages per validation batch: each word is compared with the whole vocabulary


class Language(TaskSpec, frozen=True):
    """Settings of the language model. An example is a group of passages of similar length."""

    curve: ClassVar = Curve(
        "negative log-likelihood per word", ("ahead", "back", "both"), "both", "% of words predicted correctly", "passages"
    )
    networks: ClassVar = ("targer",)
    vectors: Literal["word2vec", "fasttext"] = "word2vec"
    passages: Count = 30_000  # training passages, at most
    together: Count = 16  # passages of similar length per example
    sampled: Count = 1_000  # sampled-softmax negatives

    @property
    def written(self) -> Literal["word2vec", "fasttext"]:
        """Return the method of the surface-token vectors."""
        return self.vectors

    def network_class(self, recipe: Settings) -> type[LanguageModel]:
        """Return the language model's class."""
        return LanguageModel

    def build(self, recipe: Recipe, vectors: Path, checkpoints: Path) -> Trainee[Any, Any]:
        """Build a language model whose output vectors start as the word vectors."""
        vocabulary, word_table, source = vectors_of(recipe, vectors)
        model = made_of(recipe, {"vocabulary": len(vocabulary), "tags": ()})
        assert isinstance(model, LanguageModel)
        fill(model, word_table)
        model.guess_by(model.embedding.weight)
        return Trainee(LANGUAGE, model, WrittenReader(vocabulary, model.config.longest), None, source)

    def task(self, recipe: Recipe, trainee: Trainee[Any, Any], work: Path, device: torch.device) -> LanguageModelling:
        """Load the passages. Raises InputError: the tables are missing."""
        return LanguageModelling.of(self, recipe.seed, trainee, work)


class LanguageModelling(Task[LanguageModel]):
    """Passages for next- and previous-word prediction, and held-out passages."""

    measured = "Percent of words of held-out premises predicted correctly, from the preceding and from the following words."

    def __init__(
        self, learned: Sequence[WrittenPassage], held: Sequence[WrittenPassage], language: Language, vocabulary: int
    ) -> None:
        """Store training and validation passages and the vocabulary size. Raises InputError: no passages of either."""
        if not learned or not held:
            raise InputError(f"{len(learned)} training and {len(held)} validation passages; both must be at least 1")
        self._learned, self._held, self._sampled = learned, held, language.sampled
        self._groups = batches([len(passage) for passage in learned], language.together)
        self.size, self.number = len(self._groups), len(held)
        self._frequencies = np.zeros(vocabulary)
        for passage in learned:
            np.add.at(self._frequencies, passage.ids, 1)
        self._frequencies[: UNKNOWN + 1] = 0
        weights = torch.from_numpy(self._frequencies**0.75)  # word2vec's sampling distribution
        self._share = (weights / weights.sum()).float()
        self._expected = (self._share * language.sampled).log()

    @classmethod
    def of(cls, language: Language, seed: int, trainee: Trainee[LanguageModel, WrittenReader], work: Path) -> Self:
        """Load the premises and split them into passages. Raises InputError: the tables are missing."""
        record, table = made(work), VectorSettings(written=language.vectors).table
        premises = pq.read_table(work / table, columns=["premise"])["premise"]
        held_out, others = hold_out(len(premises), min(VALIDATING, len(premises) // HELD_OUT), seed)
        validation = [text for row in held_out for text in trainee.reader.passages(premises[row].as_py())]
        training: list[WrittenPassage] = []
        for row in others:
            training += trainee.reader.passages(premises[row].as_py())
            if len(training) >= language.passages:
                break
        task = cls(training[: language.passages], validation, language, trainee.network.terms())
        task.data = "args.me arguments (Webis, CC BY 4.0), unlabelled"
        task.decided_by, task.files = record.decided_by, {table: record.files[table].xxh3}
        return task

    def loss(self, network: LanguageModel, part: np.ndarray, rows: np.ndarray) -> Tensor:
        """Return the micro-batch's contribution to the mean over groups and directions."""
        device = network.word.weight.device
        sampling_distribution, log_expected_counts = self._share.to(device), self._expected.to(device)
        losses = []
        for group in part:
            sample = torch.multinomial(sampling_distribution, self._sampled, replacement=True)
            for predicted, targets in network.guesses([self._learned[row] for row in self._groups[group]]):
                if len(targets):
                    losses.append(network.sampled_loss(predicted, targets, sample, log_expected_counts))
        return torch.stack(losses).sum() / (2 * len(rows)) if losses else network.word.weight.sum() * 0

    def baselines(self) -> dict[str, dict[str, float]]:
        """Measure the most frequent word."""
        most_frequent = int(self._frequencies.argmax())
        counts = Counter(word for passage in self._held for word in passage.ids if word > UNKNOWN)
        return {"most frequent word": {"both": _percent(counts[most_frequent], counts.total())}}

    def validated(self, network: LanguageModel, step: int) -> dict[str, float]:
        """Measure accuracy: `ahead` (next word), `back` (previous word) and `both` (their mean)."""
        if not all(bool(parameter.isfinite().all()) for parameter in network.parameters()):
            raise diverged(step, "a weight is not finite")
        correct, total = np.zeros(2), np.zeros(2)
        with evaluating(network), torch.inference_mode():
            for rows in batches([len(passage) for passage in self._held], TOGETHER):
                for direction, (predicted, targets) in enumerate(network.guesses([self._held[row] for row in rows])):
                    correct[direction] += (network.scores(predicted).argmax(1) == targets).sum().item()
                    total[direction] += len(targets)
        ahead, back = map(_percent, correct, total)
        return {"ahead": ahead, "back": back, "both": round((ahead + back) / 2, 2)}


def _percent(part: float, total: float) -> float:
    return round(100 * part / max(1, total), 2)
