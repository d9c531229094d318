"""Train a sequence tagger; the last network is kept and evaluated on held-out documents.

Shapes: B passages, L tokens, S states of the CRF. A passage has at least one token; masked
positions contribute nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from torch import Tensor

from aragorn.errors import UsageError
from aragorn.inference.checkpoint import TaggerCheckpoint
from aragorn.inference.device import batch_by_tokens
from aragorn.models.network import pad
from aragorn.models.taggers.targer import CRF, FORBIDDEN_SCORE, PADDING_STATE, TARGER
from aragorn.storage.atomic_files import sha256_file
from aragorn.text.surface_tokens import SurfacePassage, SurfaceTokeniser
from aragorn_training.data.corpora import format_credit
from aragorn_training.data.tagged_documents import (
    SOURCES,
    Split,
    TaggedDocument,
    get_table_path,
    list_tags,
    load_documents,
    split_documents,
)
from aragorn_training.data.word_vectors import VectorMethod
from aragorn_training.data.work_directory import read_prepared_manifest
from aragorn_training.evaluation.term_weighting import MajorityTagger, compute_component_metrics
from aragorn_training.fitting.initialisation import (
    copy_word_vectors,
    instantiate,
    load_recipe_vectors,
)
from aragorn_training.fitting.recipe import BaseRecipe, Recipe, TaskSpec
from aragorn_training.fitting.task import CurveSpec, Task, TrainableNetwork, check_weights
from aragorn_training.fitting.validation import use_evaluation_mode
from aragorn_training.tasks.language_model import TRANSFERRED_LAYERS, LanguageModelCheckpoint


class TaggingSpec(TaskSpec, frozen=True):
    """Settings of training a sequence tagger; the batch size is a number of passages."""

    version: ClassVar[int] = 1
    computes_with: ClassVar[tuple[str, ...]] = ("aragorn.text.surface_tokens", "seqeval")

    curve: ClassVar = CurveSpec(
        "negative log-likelihood per passage",
        ("precision", "recall", "F1"),
        "F1",
        "%, whole components",
        "documents",
        True,
    )
    data_kind: ClassVar = "tags"
    supported_networks: ClassVar = ("targer",)
    datasets: tuple[Literal["essays", "webd"], ...]
    vectors: VectorMethod = "word2vec"  # initial word vectors
    init_from: str = ""  # checkpoint of a language model in the output folder; empty: none

    def __post_init__(self) -> None:
        """Raise ValueError if no data set is named or a name is repeated."""
        if not self.datasets or len(set(self.datasets)) < len(self.datasets):
            raise ValueError(
                f"tagging.datasets is {list(self.datasets)}; expected essays, webd or both"
            )

    @property
    def published_files(self) -> tuple[str, ...]:
        """Names of the files of all data sets, which `prepare tags` reads together."""
        return tuple(source.file for source in SOURCES.values())

    @property
    def surface_vector_method(self) -> VectorMethod:
        """Method of the surface-token vectors."""
        return self.vectors

    def get_initial_checkpoint(self, recipe: BaseRecipe) -> str:
        """Return the name of the language model to initialise from, or an empty string."""
        return self.init_from

    def build_network(
        self, recipe: Recipe, vectors_dir: Path, checkpoints_dir: Path
    ) -> TrainableNetwork:
        """Build a tagger, with layers of `init_from` if set; UsageError if they do not fit."""
        vocabulary, word_table, origin = load_recipe_vectors(recipe, vectors_dir)
        network = instantiate(
            recipe, {"vocabulary": len(vocabulary), "tags": list_tags(self.datasets)}
        )
        assert isinstance(network, TARGER)
        copy_word_vectors(network, word_table)
        if self.init_from:
            model = LanguageModelCheckpoint.load(checkpoints_dir / self.init_from)
            states = (model.network.state_dict(), network.state_dict())
            layers, initial = (
                {name: state[name] for name in state if name.startswith(TRANSFERRED_LAYERS)}
                for state in states
            )
            comparison = f"of {self.init_from!r} differ from the recipe's"
            if model.tokeniser.vocabulary.terms != vocabulary.terms:
                cause = f"the word vectors {comparison}; pass those it was trained with"
                raise UsageError(f"tagging.init_from: {cause}")
            shapes = [{name: part[name].shape for name in part} for part in (layers, initial)]
            if shapes[0] != shapes[1]:
                cause = f"the layer sizes {comparison}; use its [network] settings"
                raise UsageError(f"tagging.init_from: {cause}")
            network.load_state_dict(network.state_dict() | layers)
            origin["init_from"] = {"name": self.init_from, "fingerprint": model.fingerprint}
        tokeniser = SurfaceTokeniser(vocabulary, network.config.longest)
        return TrainableNetwork(TaggerCheckpoint, network, tokeniser, None, origin)

    def build_task(
        self, recipe: Recipe, trainee: TrainableNetwork, work_dir: Path, device: str
    ) -> Task[Any]:
        """Load the tagged documents, each data set split into training and test documents."""
        train: list[TaggedDocument] = []
        test: list[TaggedDocument] = []
        for name in self.datasets:
            split = split_documents(load_documents(work_dir, name), recipe.seed)
            train += split.train
            test += split.test
        task = TaggingTask(Split(train, test), trainee.network, trainee.tokeniser)
        sources = " and ".join(SOURCES[name].description for name in self.datasets)
        corpus = read_prepared_manifest(work_dir).inputs  # of the word vectors
        credit = format_credit(corpus)
        task.data_description = f"{sources}; word vectors and language model: {credit}"
        paths = [get_table_path(work_dir, name) for name in self.datasets]
        task.training_data = {
            "input": {path.name: sha256_file(path) for path in paths},
            "data": f"{' and '.join(self.datasets)} (TARGER) and {corpus['data']}",
            "licence": corpus["licence"],
        }
        task.file_hashes = {}
        return task

    def check_prepared(self, work_dir: Path) -> None:
        """Raise InputError if a table is missing."""
        for name in self.datasets:
            load_documents(work_dir, name)


@dataclass(frozen=True)
class TaggedPassages:
    """Tokenised passages with one tag per token."""

    passages: list[SurfacePassage]
    tags: list[list[str]]

    @classmethod
    def from_documents(
        cls, documents: Sequence[TaggedDocument], tokeniser: SurfaceTokeniser
    ) -> Self:
        """Split documents into passages; a component starts with B- in each of its passages."""
        passages = []
        tags = []
        for document in documents:
            remaining_tags = iter(document.tags)
            for passage in tokeniser.split(" ".join(document.tokens)):
                first_tag, *inner_tags = [next(remaining_tags) for _ in passage.tokens]
                passages.append(passage)
                tags.append([first_tag.replace("I-", "B-"), *inner_tags])
        return cls(passages, tags)


class TaggingTask(Task[TARGER]):
    """Training and held-out documents, too few for a validation set: the last network counts."""

    metrics_description = (
        "Percent, on held-out documents: whole components (precision, recall, F1) and tokens "
        "(accuracy). They did not select the network."
    )

    def __init__(self, documents: Split, network: TARGER, tokeniser: SurfaceTokeniser) -> None:
        """Build the training examples and forbid tag transitions that do not occur in them."""
        self._train, self._test = (
            TaggedPassages.from_documents(part, tokeniser)
            for part in (documents.train, documents.test)
        )
        self._tag_ids = {tag: index for index, tag in enumerate(network.config.tags, 1)}
        self.train_size = len(self._train.passages)
        self.validation_size = len(documents.test)
        tags, _ = self._get_gold_tags(range(self.train_size), network.crf.transitions.device)
        forbid_unseen_transitions(network.crf, tags)

    def compute_loss(self, network: TARGER, micro_batch: np.ndarray, batch: np.ndarray) -> Tensor:
        """Return the micro-batch's contribution to the batch loss."""
        inputs = network.collate([self._train.passages[row] for row in micro_batch])
        tags, mask = self._get_gold_tags(micro_batch.tolist(), inputs[-1].device)
        loss = compute_crf_loss(network.crf, network(*inputs), tags, mask)
        return loss * (len(micro_batch) / len(batch))

    def measure_baselines(self) -> dict[str, dict[str, float]]:
        """Measure taggers that predict the most frequent tag, overall or per word."""
        train_words = [passage.tokens for passage in self._train.passages]
        tagger = MajorityTagger(train_words, self._train.tags)
        words = [passage.tokens for passage in self._test.passages]
        predictions = {
            "most frequent tag": [[tagger.most_frequent] * len(passage) for passage in words],
            "most frequent tag per word": tagger.predict(words),
        }
        gold = self._test.tags
        return {name: compute_component_metrics(gold, tags) for name, tags in predictions.items()}

    def validate(self, network: TARGER, step: int) -> dict[str, float]:
        """Measure precision, recall, F1 and accuracy on the held-out documents."""
        check_weights(network, step)
        return compute_component_metrics(
            self._test.tags, predict_tags(network, self._test.passages)
        )

    def _get_gold_tags(self, rows: Sequence[int], device: torch.device) -> tuple[Tensor, Tensor]:
        """Return the tag ids (B, L) and the mask (B, L) of training passages."""
        tags, mask = pad([[self._tag_ids[tag] for tag in self._train.tags[row]] for row in rows])
        return tags.to(device), mask.to(device)


def predict_tags(network: TARGER, passages: Sequence[SurfacePassage]) -> list[list[str]]:
    """Predict one tag per token of each passage."""
    batches = batch_by_tokens([len(passage) for passage in passages], network.min_batch_tokens)
    with use_evaluation_mode(network), torch.inference_mode():
        annotations = chain.from_iterable(
            network.annotate([passages[row] for row in rows]) for rows in batches
        )
        annotations_by_row = dict(zip(np.concatenate(batches).tolist(), annotations, strict=True))
    return [[word.label for word in annotations_by_row[row]] for row in range(len(passages))]


@torch.no_grad()
def forbid_unseen_transitions(crf: CRF, tags: Tensor) -> None:
    """Set transitions that occur in no padded tag sequence (B, L) to FORBIDDEN_SCORE."""
    is_allowed = torch.zeros_like(crf.transitions, dtype=torch.bool)
    is_allowed[tags, _get_previous_tags(crf, tags)] = True
    is_allowed[PADDING_STATE, PADDING_STATE] = True
    crf.transitions[~is_allowed] = FORBIDDEN_SCORE


def compute_crf_loss(crf: CRF, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
    """Compute the mean of log Z - score of tags (B, L) given emissions (B, L, S)."""
    scores = score_tags(crf, emissions, tags, mask)
    return (compute_log_partition(crf, emissions, mask) - scores).mean()


def score_tags(crf: CRF, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
    """Compute the scores (B,) of tag sequences (B, L) given emissions (B, L, S)."""
    emission_scores = emissions.gather(2, tags[:, :, None]).squeeze(2)  # (B, L)
    return ((emission_scores + crf.transitions[tags, _get_previous_tags(crf, tags)]) * mask).sum(1)


def compute_log_partition(crf: CRF, emissions: Tensor, mask: Tensor) -> Tensor:
    """Compute log Z (B,), over all tag sequences, with the forward algorithm."""
    # (B, S), log-sum over the paths that end in each state
    total = emissions[:, 0] + crf.transitions[:, crf.start]
    for emission, is_active in zip(emissions.unbind(1)[1:], mask.unbind(1)[1:], strict=True):
        path_scores = emission + torch.logsumexp(total[:, None] + crf.transitions, dim=2)
        total = torch.where(is_active[:, None], path_scores, total)
    return torch.logsumexp(total, dim=1)


def _get_previous_tags(crf: CRF, tags: Tensor) -> Tensor:
    """Return the previous tag of each token, (B, L); the start state for the first."""
    return torch.cat([torch.full_like(tags[:, :1], crf.start), tags[:, :-1]], dim=1)
