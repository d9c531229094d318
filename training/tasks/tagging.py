"""Train a sequence tagger; held-out documents measure the last network, none selects it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from torch import Tensor

from submission.errors import UsageError
from submission.inference.batching import batches_of_positions, pad
from submission.inference.checkpoint_io import open_network
from submission.inference.enricher_checkpoint import ENRICHERS
from submission.models.enrichers.targer import TARGER
from submission.storage.atomic_files import sha256
from submission.text.surface_tokens import WrittenPassage, WrittenReader
from training.data.datasets.argument_components import SOURCES, Document
from training.data.datasets.argument_components import tags_of as tags_in
from training.data.tagged_documents import Split, documents_of, place, split
from training.evaluation.tagging import Majority, measures
from training.fitting.initialisation import fill, made_of, vectors_of
from training.fitting.language_model import LANGUAGE, LEARNED
from training.fitting.learning_curve import Curve
from training.fitting.recipe import Recipe, Settings, TaskSpec
from training.fitting.task import Task, diverged
from training.fitting.trainable import Trainee
from training.fitting.validation import evaluating


class Tags(TaskSpec, frozen=True):
    """Data of the tagger and the initialisation of its layers; batch sizes count passages."""

    curve: ClassVar = Curve(
        "negative log-likelihood per passage",
        ("precision", "recall", "F1"),
        "F1",
        "%, whole components",
        "documents",
        keeps_last=True,
    )
    networks: ClassVar = ("targer",)
    data: tuple[Literal["essays", "webd"], ...]
    vectors: Literal["word2vec", "fasttext"] = "word2vec"
    start: str = ""  # checkpoint of a language model in the same folder

    def __post_init__(self) -> None:
        """Raise ValueError if data sets are missing or repeated."""
        if not self.data or len(set(self.data)) < len(self.data):
            raise ValueError(f"tags.data is {list(self.data)}; expected essays, webd or both")

    @property
    def written(self) -> Literal["word2vec", "fasttext"]:
        """Return the method of the surface-token vectors."""
        return self.vectors

    def starts_from(self, recipe: Settings) -> str:
        """Return the name of the language model or an empty string."""
        return self.start

    def build(self, recipe: Recipe, vectors: Path, checkpoints: Path) -> Trainee[Any, Any]:
        """Build a tagger and initialise its layers from the language model. Raises UsageError: vocabularies or sizes differ."""
        vocabulary, word_table, source = vectors_of(recipe, vectors)
        network = made_of(recipe, {"vocabulary": len(vocabulary), "tags": tags_in(self.data)})
        assert isinstance(network, TARGER)
        fill(network, word_table)
        if self.start:
            model, reader, fingerprint = open_network(checkpoints / self.start, LANGUAGE)
            pretrained, initial = (
                {name: tensor for name, tensor in module.state_dict().items() if name.startswith(LEARNED)}
                for module in (model, network)
            )
            shapes, expected_shapes = (
                {name: tensor.shape for name, tensor in tensors.items()} for tensors in (pretrained, initial)
            )
            if reader.vocabulary.terms != vocabulary.terms or shapes != expected_shapes:
                raise UsageError(
                    f"tags.start: {self.start!r} has another vocabulary or other sizes than the recipe; use the same vectors "
                    "and [network]"
                )
            network.load_state_dict({**network.state_dict(), **pretrained})
            source["start"] = {"name": self.start, "fingerprint": fingerprint}
        return Trainee(ENRICHERS, network, WrittenReader(vocabulary, network.config.longest), None, source)

    def task(self, recipe: Recipe, trainee: Trainee[Any, Any], work: Path, device: torch.device) -> Tagging:
        """Load the documents. Raises InputError: missing or damaged."""
        return Tagging.of(self.data, recipe.seed, trainee, work)

    def require(self, work: Path) -> None:
        """Raise InputError if a table is missing."""
        for name in self.data:
            documents_of(work, name)

    def prepare(self, source: Path, work: Path, made: dict[str, Any]) -> dict[str, str]:
        """Raise UsageError: the data cannot be rebuilt from a single directory."""
        commands = "`prepare tags`, `prepare vectors` and `fit`"
        raise UsageError(f"trained on tagged documents, not on a corpus; run {commands} again")


@dataclass(frozen=True)
class Examples:
    """Passages and the tags of their tokens."""

    passages: list[WrittenPassage]
    tags: list[list[str]]

    @classmethod
    def of(cls, documents: Sequence[Document], reader: WrittenReader) -> Examples:
        """Split documents into passages.

        A component that continues from the previous passage starts with B-.
        """
        passages, tags = [], []
        for document in documents:
            remaining_tags = iter(document.tags)
            for passage in reader.passages(" ".join(document.words)):
                first, *inner = [next(remaining_tags) for _ in passage.words]
                passages.append(passage)
                tags.append([first.replace("I-", "B-"), *inner])
        return cls(passages, tags)


class Tagging(Task[TARGER]):
    """Training and held-out documents.

    There are too few labelled documents for a separate validation set: the learning rate decays to 0 and the last network is
    kept.
    """

    measured = (
        "Percent, on held-out documents: whole components (precision, recall, F1) and tokens (accuracy). They did not select "
        "the network."
    )

    def __init__(self, documents: Split, network: TARGER, reader: WrittenReader) -> None:
        """Build the training examples and forbid tag transitions that do not occur in them."""
        self._train, self._test = (Examples.of(half, reader) for half in (documents.train, documents.test))
        self._numbers = {tag: index for index, tag in enumerate(network.config.tags, 1)}
        self.size, self.number = len(self._train.passages), len(documents.test)
        tags, _ = self._gold(range(self.size), network.crf.transitions.device)
        network.crf.forbid_unseen(tags)

    @classmethod
    def of(cls, data: Sequence[str], seed: int, trainee: Trainee[TARGER, WrittenReader], work: Path) -> Self:
        """Load the documents and split them. Raises InputError: missing or damaged."""
        splits = [split(documents_of(work, name), seed) for name in data]
        task = cls(sum(splits[1:], splits[0]), trainee.network, trainee.reader)
        paths = [place(work, name) for name in data]
        sources = " and ".join(SOURCES[name].about for name in data)
        task.data = f"{sources}; word vectors and language model: args.me arguments (Webis, CC BY 4.0)"
        task.decided_by = {"input": {path.name: sha256(path) for path in paths}}
        task.files = {}
        return task

    def loss(self, network: TARGER, part: np.ndarray, rows: np.ndarray) -> Tensor:
        """Return the micro-batch's contribution to the batch loss."""
        batch = network.batch([self._train.passages[row] for row in part])
        tags, mask = self._gold(part.tolist(), batch[-1].device)
        return network.crf.loss(network(*batch), tags, mask) * (len(part) / len(rows))

    def baselines(self) -> dict[str, dict[str, float]]:
        """Measure the most frequent tag, overall and per word."""
        majority = Majority([passage.words for passage in self._train.passages], self._train.tags)
        words = [passage.words for passage in self._test.passages]
        return {
            "most frequent tag": measures(self._test.tags, [[majority.most_frequent] * len(passage) for passage in words]),
            "most frequent tag of each word": measures(self._test.tags, majority.tags(words)),
        }

    def validated(self, network: TARGER, step: int) -> dict[str, float]:
        """Measure precision, recall, F1 and accuracy on the held-out documents."""
        if not all(bool(parameter.isfinite().all()) for parameter in network.parameters()):
            raise diverged(step, "a weight is not finite")
        return measures(self._test.tags, tags_of(network, self._test.passages))

    def _gold(self, rows: Sequence[int], device: torch.device) -> tuple[Tensor, Tensor]:
        """Return tag ids and mask (B, L) of some examples."""
        tags, mask = pad([[self._numbers[tag] for tag in self._train.tags[row]] for row in rows])
        return tags.to(device), mask.to(device)


def tags_of(network: TARGER, passages: Sequence[WrittenPassage]) -> list[list[str]]:
    """Predict the tags of passages."""
    batches = batches_of_positions([len(passage) for passage in passages], network.together)
    with evaluating(network), torch.inference_mode():
        tagged = chain.from_iterable(network.words([passages[row] for row in rows]) for rows in batches)
        words_by_row = dict(zip(np.concatenate(batches).tolist(), tagged, strict=True))
    return [[word.label for word in words_by_row[row]] for row in range(len(passages))]
