"""Learning to tag words; documents that are held out tell what the last network is worth, and pick none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from torch import Tensor

from submission.disk.files import sha256
from submission.enrichment.checkpoint import ENRICHERS
from submission.enrichment.targer import TARGER
from submission.errors import UsageError
from submission.scoring.batches import batches_of_positions, pad
from submission.scoring.stored import open_network
from submission.text.written import WrittenPassage, WrittenReader
from training.data.conll import SOURCES, Document
from training.data.conll import tags_of as tags_in
from training.fitting.curves import Curve
from training.fitting.network import fill, made_of, vectors_of
from training.fitting.recipe import Recipe, Settings, TaskSpec
from training.fitting.task import Task, diverged
from training.fitting.trainee import Trainee
from training.fitting.validation import evaluating
from training.tagging.language import LANGUAGE, LEARNED
from training.tagging.measures import Majority, measures
from training.tagging.prepare import Split, documents_of, place, split


class Tags(TaskSpec, frozen=True):
    """The documents whose tags a tagger learns, and the start of its layers; batches are of passages."""

    curve: ClassVar = Curve(
        "negative log-likelihood of a passage",
        ("precision", "recall", "F1"),
        "F1",
        "percent, whole components",
        "documents",
        keeps_last=True,
    )
    networks: ClassVar = ("targer",)
    data: tuple[Literal["essays", "webd"], ...]
    vectors: Literal["word2vec", "fasttext"] = "word2vec"
    start: str = ""  # a language model's checkpoint beside the one to be written, whose layers are the start

    def __post_init__(self) -> None:
        """Raise ValueError where data are none, or repeated."""
        if not self.data or len(set(self.data)) < len(self.data):
            raise ValueError(f"tags.data is {list(self.data)}; expected essays, webd or both")

    @property
    def written(self) -> Literal["word2vec", "fasttext"]:
        """The method that made the vectors of words as written."""
        return self.vectors

    def starts_from(self, recipe: Settings) -> str:
        """Return the name of the language model, or an empty string."""
        return self.start

    def build(self, recipe: Recipe, vectors: Path, checkpoints: Path) -> Trainee[Any, Any]:
        """Build a tagger, with the layers of its start. Raises UsageError: that has other words or sizes."""
        vocabulary, table, source = vectors_of(recipe, vectors)
        network = made_of(recipe, {"vocabulary": len(vocabulary), "tags": tags_in(self.data)})
        assert isinstance(network, TARGER)
        fill(network, table)
        if self.start:
            model, reader, fingerprint = open_network(checkpoints / self.start, LANGUAGE)
            learned = {name: value for name, value in model.state_dict().items() if name.startswith(LEARNED)}
            shapes = {name: value.shape for name, value in network.state_dict().items() if name.startswith(LEARNED)}
            if reader.vocabulary.terms != vocabulary.terms or {name: value.shape for name, value in learned.items()} != shapes:
                raise UsageError(
                    f"tags.start is {self.start!r}, which has other words or sizes than the recipe; make them alike"
                )
            network.load_state_dict({**network.state_dict(), **learned})
            source["start"] = {"name": self.start, "fingerprint": fingerprint}
        return Trainee(ENRICHERS, network, WrittenReader(vocabulary, network.config.longest), None, source)

    def task(self, recipe: Recipe, trainee: Trainee[Any, Any], work: Path, device: torch.device) -> Tagging:
        """Read the documents. Raises InputError: they are missing or damaged."""
        return Tagging.of(self.data, recipe.seed, trainee, work)

    def require(self, work: Path) -> None:
        """Raise InputError where a working directory has no table of some of the data."""
        for name in self.data:
            documents_of(work, name)

    def prepare(self, source: Path, work: Path, made: dict[str, Any]) -> dict[str, str]:
        """Raise UsageError: one directory does not have tagged documents and the corpus."""
        verbs = "`prepare tags`, `prepare vectors` and `fit` make it anew"
        raise UsageError(f"learned from tagged documents, not from a corpus; {verbs}")


@dataclass(frozen=True)
class Examples:
    """The passages of documents, and the tags of their words."""

    passages: list[WrittenPassage]
    tags: list[list[str]]

    @classmethod
    def of(cls, documents: Sequence[Document], reader: WrittenReader) -> Examples:
        """Cut as texts are; a component that goes on from an earlier passage begins anew: nothing tells that it does."""
        passages, tags = [], []
        for document in documents:
            left = iter(document.tags)
            for passage in reader.passages(" ".join(document.words)):
                own = [next(left) for _ in passage.words]
                passages.append(passage)
                tags.append([own[0].replace("I-", "B-"), *own[1:]])
        return cls(passages, tags)


class Tagging(Task[TARGER]):
    """Documents that are learned from, and those that tell how well.

    Labelled documents are too few to spare some that would pick a network: the learning rate falls to 0, and the last is kept.
    """

    measured = "Percent, of whole components and of words, over documents that neither taught nor picked the network."

    def __init__(self, documents: Split, network: TARGER, reader: WrittenReader) -> None:
        """Forbids the network what does not follow upon each other in the documents that are learned from."""
        self._train, self._test = (Examples.of(part, reader) for part in (documents.train, documents.test))
        self._numbers = {tag: number for number, tag in enumerate(network.config.tags, 1)}
        self.size, self.number = len(self._train.passages), len(documents.test)
        tags, _ = self._gold(range(self.size), network.crf.transitions.device)
        network.crf.forbid_unseen(tags)

    @classmethod
    def of(cls, data: Sequence[str], seed: int, trainee: Trainee[TARGER, WrittenReader], work: Path) -> Self:
        """Read what `prepare tags` wrote. Raises InputError: it is missing or damaged."""
        splits = [split(documents_of(work, name), seed) for name in data]
        task = cls(sum(splits[1:], splits[0]), trainee.network, trainee.reader)
        files = [place(work, name) for name in data]
        tagged = " and ".join(SOURCES[name].about for name in data)
        task.data = f"{tagged}, with the words of args.me arguments (Webis, CC BY 4.0)"
        task.decided_by = {"input": {file.name: sha256(file) for file in files}}
        task.files = {}
        return task

    def loss(self, network: TARGER, part: np.ndarray, rows: np.ndarray) -> Tensor:
        """The part's share of the batch's mean."""
        batch = network.batch([self._train.passages[row] for row in part])
        tags, mask = self._gold(part.tolist(), batch[-1].device)
        return network.crf.loss(network(*batch), tags, mask) * (len(part) / len(rows))

    def baselines(self) -> dict[str, dict[str, float]]:
        """The most frequent tag, of all words and of each word's form."""
        majority = Majority([passage.words for passage in self._train.passages], self._train.tags)
        words = [passage.words for passage in self._test.passages]
        return {
            "most frequent tag": measures(self._test.tags, [[majority.most_frequent] * len(own) for own in words]),
            "most frequent tag of each word": measures(self._test.tags, majority.tags(words)),
        }

    def validated(self, network: TARGER, step: int) -> dict[str, float]:
        """Precision, recall, F1 and accuracy over the held-out documents."""
        if not all(bool(value.isfinite().all()) for value in network.parameters()):
            raise diverged(step, "a weight is not finite")
        return measures(self._test.tags, tags_of(network, self._test.passages))

    def final(self, network: TARGER, step: int) -> dict[str, float]:
        """Measure the last network over the held-out documents."""
        return self.validated(network, step)

    def _gold(self, rows: Sequence[int], device: torch.device) -> tuple[Tensor, Tensor]:
        """The numbers of the tags (B, L) of examples, and the mask (B, L)."""
        tags, mask = pad([[self._numbers[tag] for tag in self._train.tags[row]] for row in rows])
        return tags.to(device), mask.to(device)


def tags_of(network: TARGER, passages: Sequence[WrittenPassage]) -> list[list[str]]:
    """The tags that a network gives the words of passages."""
    work = batches_of_positions([len(passage) for passage in passages], network.together)
    with evaluating(network), torch.inference_mode():
        found = chain.from_iterable(network.words([passages[row] for row in rows]) for rows in work)
        of_row = dict(zip(np.concatenate(work).tolist(), found, strict=True))
    return [[word.label for word in of_row[row]] for row in range(len(passages))]
