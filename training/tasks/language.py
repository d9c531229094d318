"""Learning a language: the words of the corpus' own texts, each guessed from its neighbours; others tell how often rightly."""

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
from submission.scoring.batches import batches
from submission.text.ids import UNKNOWN
from submission.text.written import WrittenPassage, WrittenReader
from training.data.prepare import prepare_again
from training.data.seeds import Stream, generator
from training.data.vectors import VectorSettings
from training.data.work import made
from training.fitting.curves import Curve
from training.fitting.network import fill, made_of, vectors_of
from training.fitting.recipe import Recipe, Settings, TaskSpec
from training.fitting.settings import Count
from training.fitting.task import Task, diverged
from training.fitting.trainee import Trainee
from training.fitting.validation import evaluating
from training.tagging.language import LANGUAGE, LanguageModel

HELD_OUT = 100  # one premise of so many validates
VALIDATING = 150  # premises at most
TOGETHER = 8  # passages that are validated at a time: each of their words is compared with the whole vocabulary


class Language(TaskSpec, frozen=True):
    """The texts whose words a tagger's layers learn to guess, each from those before and from those behind it.

    An example is some passages of like length.
    """

    curve: ClassVar = Curve(
        "negative log-likelihood of a word", ("ahead", "back", "both"), "both", "percent, words guessed right", "passages"
    )
    networks: ClassVar = ("targer",)
    vectors: Literal["word2vec", "fasttext"] = "word2vec"
    passages: Count = 30_000  # that are learned from, at most
    together: Count = 16  # of them
    sampled: Count = 1_000  # words that stand for all but the right one

    @property
    def written(self) -> Literal["word2vec", "fasttext"]:
        """The method that made the vectors of words as written."""
        return self.vectors

    def network_class(self, recipe: Settings) -> type[LanguageModel]:
        """Return the language model around the tagger's layers."""
        return LanguageModel

    def build(self, recipe: Recipe, vectors: Path, checkpoints: Path) -> Trainee[Any, Any]:
        """Build a language model that compares with the word vectors."""
        vocabulary, table, source = vectors_of(recipe, vectors)
        model = made_of(recipe, {"vocabulary": len(vocabulary), "tags": ()})
        assert isinstance(model, LanguageModel)
        fill(model, table)
        model.guess_by(model.embedding.weight)
        return Trainee(LANGUAGE, model, WrittenReader(vocabulary, model.config.longest), None, source)

    def task(self, recipe: Recipe, trainee: Trainee[Any, Any], work: Path, device: torch.device) -> LanguageModelling:
        """Read the passages. Raises InputError: they are missing."""
        return LanguageModelling.of(self, recipe.seed, trainee, work)

    def require(self, work: Path) -> None:
        """Raise InputError where a working directory has no tables."""
        made(work)

    def prepare(self, source: Path, work: Path, made: dict[str, Any]) -> dict[str, str]:
        """Prepare the tables of the corpus in `source` again."""
        return prepare_again(source, work, made)


class LanguageModelling(Task[LanguageModel]):
    """Passages whose words are guessed, in groups of like length, and others that tell how often rightly."""

    measured = "Percent of the words of held-out premises that are guessed right, from those before and from those behind them."

    def __init__(
        self, learned: Sequence[WrittenPassage], held: Sequence[WrittenPassage], language: Language, vocabulary: int
    ) -> None:
        """Take passages to learn from and to validate on, and the number of ids. Raises InputError: none of either."""
        if not learned or not held:
            raise InputError(f"{len(learned)} passages to learn from, {len(held)} to validate on; expected some of both")
        self._learned, self._held, self._sampled = learned, held, language.sampled
        self._groups = batches([len(passage) for passage in learned], language.together)
        self.size, self.number = len(self._groups), len(held)
        self._frequencies = np.zeros(vocabulary)
        for passage in learned:
            np.add.at(self._frequencies, passage.ids, 1)
        self._frequencies[: UNKNOWN + 1] = 0
        share = torch.from_numpy(self._frequencies**0.75)  # as word2vec draws
        self._share = (share / share.sum()).float()
        self._expected = (self._share * language.sampled).log()

    @classmethod
    def of(cls, language: Language, seed: int, trainee: Trainee[LanguageModel, WrittenReader], work: Path) -> Self:
        """Read the premises that `prepare pairs` wrote. Raises InputError: they are missing."""
        record, table = made(work), VectorSettings(written=language.vectors).table
        premises = pq.read_table(work / table, columns=["premise"])["premise"]
        order = generator(seed, Stream.SPLIT).permutation(len(premises))
        number = min(VALIDATING, max(1, len(order) // HELD_OUT))
        held = [passage for row in order[:number] for passage in trainee.reader.passages(premises[row].as_py())]
        learned: list[WrittenPassage] = []
        for row in order[number:]:
            learned += trainee.reader.passages(premises[row].as_py())
            if len(learned) >= language.passages:
                break
        task = cls(learned[: language.passages], held, language, trainee.network.terms())
        task.data = "the words of args.me arguments (Webis, CC BY 4.0)"
        task.decided_by, task.files = record.decided_by, {table: record.files[table].xxh3}
        return task

    def loss(self, network: LanguageModel, part: np.ndarray, rows: np.ndarray) -> Tensor:
        """The part's share of the mean over groups and directions."""
        share, expected = self._share.to(network.word.weight.device), self._expected.to(network.word.weight.device)
        losses = []
        for number in part:
            sample = torch.multinomial(share, self._sampled, replacement=True)
            for guessed, targets in network.guesses([self._learned[row] for row in self._groups[number]]):
                if len(targets):
                    losses.append(network.sampled_loss(guessed, targets, sample, expected))
        return torch.stack(losses).sum() / (2 * len(rows)) if losses else network.word.weight.sum() * 0

    def baselines(self) -> dict[str, dict[str, float]]:
        """The most frequent word."""
        most = int(self._frequencies.argmax())
        words = Counter(number for passage in self._held for number in passage.ids if number > UNKNOWN)
        return {"most frequent word": {"both": _percent(words[most], words.total())}}

    def validated(self, network: LanguageModel, step: int) -> dict[str, float]:
        """Measure the share of words guessed right: ahead (from the words before), back (from those behind), both (mean)."""
        if not all(bool(value.isfinite().all()) for value in network.parameters()):
            raise diverged(step, "a weight is not finite")
        right, words = np.zeros(2), np.zeros(2)
        with evaluating(network), torch.inference_mode():
            for rows in batches([len(passage) for passage in self._held], TOGETHER):
                for way, (guessed, targets) in enumerate(network.guesses([self._held[row] for row in rows])):
                    right[way] += (network.scores(guessed).argmax(1) == targets).sum().item()
                    words[way] += len(targets)
        ahead, back = map(_percent, right, words)
        return {"ahead": ahead, "back": back, "both": round((ahead + back) / 2, 2)}

    def final(self, network: LanguageModel, step: int) -> dict[str, float]:
        """Validate the kept network: all held-out passages pick it."""
        return self.validated(network, step)


def _percent(some: float, every: float) -> float:
    return round(100 * some / max(1, every), 2)
