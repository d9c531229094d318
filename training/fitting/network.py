"""Recipe → network as training begins: built, filled with word vectors or a pretrained encoder, with its optimiser."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic

import numpy as np
import torch
from torch import nn

from submission.disk.files import sha256
from submission.enrichment.base import Enricher
from submission.enrichment.checkpoint import ENRICHERS
from submission.enrichment.targer import TARGER
from submission.errors import UsageError
from submission.rankers.base import LatentRanker, Ranker
from submission.rankers.bert import BERTNetwork, BERTRanker
from submission.rankers.network import Network
from submission.scoring.checkpoint import RANKERS, open_checkpoint
from submission.scoring.pretrained import Pretrained
from submission.scoring.stored import Kind, N, R, open_network
from submission.text.tokenisers import PieceTokeniser, Tokeniser, WordTokeniser
from submission.text.vocabulary import Vocabulary
from submission.text.written import WrittenReader
from training.data import vectors as word_vectors
from training.data.conll import tags_of
from training.data.work import made
from training.fitting.adam import LazyAdam
from training.fitting.language import LANGUAGE, LEARNED, LanguageModel
from training.fitting.recipe import Recipe, Tags


@dataclass(frozen=True)
class Trainee(Generic[N, R]):
    """A network to train, and what turns texts into what it reads."""

    kind: Kind[N, R]  # of its checkpoint
    network: N
    reader: R
    pretrained: Pretrained | None  # of BERT networks
    source: dict[str, Any]  # for the provenance: vectors or encoder

    def trains(self, recipe: Recipe) -> bool:
        """Whether there is anything to train. Raises UsageError: the recipe's epochs say otherwise."""
        trained = any(value.requires_grad for value in self.network.parameters())
        if trained != (recipe.training.epochs > 0):
            expected = "1 or more, or all blocks frozen and no head" if trained else "0: all that the network has is frozen"
            raise UsageError(f"training.epochs is {recipe.training.epochs}; expected {expected}")
        return trained

    def optimiser(self, recipe: Recipe) -> LazyAdam:
        """Adam, lazy on word tables; a pretrained encoder has a learning rate of its own."""
        trained = {name: value for name, value in self.network.named_parameters() if value.requires_grad}
        encoder = [value for name, value in trained.items() if name.startswith("encoder.")]
        head = [value for name, value in trained.items() if not name.startswith("encoder.")]
        rates = [(head, recipe.training.learning_rate), (encoder, recipe.encoder.learning_rate)]
        return LazyAdam([{"params": part, "lr": rate, "initial_lr": rate} for part, rate in rates if part])


def build(recipe: Recipe, vectors: Path, checkpoints: Path) -> Trainee[Any, Any]:
    """Build what a recipe says, from its seed.

    Args:
        recipe: which network.
        vectors: what `embed` wrote, for word networks.
        checkpoints: where a BERT network's or a tagger's `start` is.

    Raises:
        InputError: no word vectors. UsageError: vectors of other words or dimensions, sizes that no network can have.
        CheckpointError: no encoder, no start.
    """
    torch.manual_seed(recipe.seed)
    if issubclass(recipe.network_class, BERTNetwork):
        return _bert_network(recipe, checkpoints)
    if recipe.tags:
        return _tagger(recipe, recipe.tags, vectors, checkpoints)
    return _language_model(recipe, vectors) if recipe.language else _word_network(recipe, vectors)


def _make(recipe: Recipe, given: dict[str, Any]) -> Network:
    """The network of the recipe's sizes and those given by vocabulary or encoder."""
    network_class = recipe.network_class
    try:
        return network_class(network_class.Config(**given, **recipe.network))
    except (ValueError, RuntimeError, ZeroDivisionError) as error:
        raise UsageError(
            f"the recipe's network {recipe.network} makes no {network_class.name()} ({error}); change [network]"
        ) from None


def _word_network(recipe: Recipe, vectors: Path) -> Trainee[Ranker, Tokeniser]:
    vocabulary, table, source = _vectors(recipe, vectors)
    ranker = _make(recipe, {"vocabulary": len(vocabulary)})
    assert isinstance(ranker, Ranker)
    if isinstance(ranker, LatentRanker):  # begins with vectors of length 1, as the authors' code
        table = table / np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-12)
    ranker.state_dict()["embedding.weight"].zero_()  # that of an unknown word too
    _fill(ranker, table)
    return Trainee(RANKERS, ranker, WordTokeniser(vocabulary, recipe.lengths), None, source)


def _tagger(recipe: Recipe, tags: Tags, vectors: Path, checkpoints: Path) -> Trainee[Any, Any]:
    vocabulary, table, source = _vectors(recipe, vectors)
    network = _make(recipe, {"vocabulary": len(vocabulary), "tags": tags_of(tags.data)})
    assert isinstance(network, TARGER)
    _fill(network, table)
    if tags.start:
        model, reader, fingerprint = open_network(checkpoints / tags.start, LANGUAGE)
        learned = {name: value for name, value in model.state_dict().items() if name.startswith(LEARNED)}
        shapes = {name: value.shape for name, value in network.state_dict().items() if name.startswith(LEARNED)}
        if reader.vocabulary.terms != vocabulary.terms or {name: value.shape for name, value in learned.items()} != shapes:
            raise UsageError(f"tags.start is {tags.start!r}, which has other words or sizes than the recipe; make them alike")
        network.load_state_dict({**network.state_dict(), **learned})
        source["start"] = {"name": tags.start, "fingerprint": fingerprint}
    return Trainee(ENRICHERS, network, WrittenReader(vocabulary, network.config.longest), None, source)


def _language_model(recipe: Recipe, vectors: Path) -> Trainee[Any, Any]:
    vocabulary, table, source = _vectors(recipe, vectors)
    model = _make(recipe, {"vocabulary": len(vocabulary), "tags": ()})
    assert isinstance(model, LanguageModel)
    _fill(model, table)
    model.guess_by(model.embedding.weight)
    return Trainee(LANGUAGE, model, WrittenReader(vocabulary, model.config.longest), None, source)


def _vectors(recipe: Recipe, vectors: Path) -> tuple[Vocabulary, np.ndarray, dict[str, Any]]:
    """The vocabulary, its vectors, and where they come from."""
    vocabulary, table = word_vectors.load(vectors)
    record = made(vectors).decided_by
    method, expected = record.get("written"), recipe.written
    if method != expected:
        given = f"of words as they are written, by {method}" if method else "of normalised words"
        verb = f"`embed --written {expected}`" if expected else "`embed` without --written"
        raise UsageError(f"{vectors}: vectors {given}; expected {verb}, as the recipe says")
    if recipe.terms:
        vocabulary, table = Vocabulary(vocabulary.terms[: recipe.terms]), table[: recipe.terms]
    return vocabulary, table, {"vectors": {**record, "sha256": sha256(vectors / word_vectors.VECTORS)}}


def _fill(network: Network, vectors: np.ndarray) -> None:
    """Put vectors into the last rows of a network's word table: behind those for padding and unknown."""
    weight = network.state_dict()["embedding.weight"]
    if weight.shape[1] != vectors.shape[1]:
        raise UsageError(
            f"the recipe's network has {weight.shape[1]} dimensions, the word vectors {vectors.shape[1]}; "
            "change network.dimensions or run `embed --dimensions`"
        )
    weight[-len(vectors) :] = torch.from_numpy(vectors)
    for module in network.modules():
        if isinstance(module, nn.Embedding):
            module.sparse = True  # a batch has few of the words: neither its gradient nor its step is as large as the table


def _bert_network(recipe: Recipe, checkpoints: Path) -> Trainee[Any, Any]:
    pretrained = Pretrained(recipe.encoder.name)
    network = _make(recipe, pretrained.config(recipe.encoder.frozen))
    assert isinstance(network, BERTNetwork)
    network.load_state_dict({**network.state_dict(), **pretrained.tensors(), **(pretrained.pooler() if network.pooled else {})})
    source: dict[str, Any] = {"encoder": {"name": pretrained.name, "sha256": pretrained.sha256}}
    if recipe.encoder.start:
        start = open_checkpoint(checkpoints / recipe.encoder.start)
        if not isinstance(start.ranker, BERTRanker):
            raise UsageError(f"encoder.start is {recipe.encoder.start!r}, which has no encoder; name a BERT network")
        trained = {name: value for name, value in start.ranker.state_dict().items() if name.startswith("encoder.")}
        network.load_state_dict({**network.state_dict(), **trained})
        source["encoder"]["start"] = {"name": recipe.encoder.start, "fingerprint": start.fingerprint}
    if recipe.encoder.bfloat16:
        network.use_precision(torch.bfloat16)
    if isinstance(network, Enricher):
        return Trainee(ENRICHERS, network, network.Reader.load(pretrained.folder, network.config), pretrained, source)
    assert isinstance(network, Ranker)
    return Trainee(RANKERS, network, PieceTokeniser.load(pretrained.folder, recipe.lengths), pretrained, source)
