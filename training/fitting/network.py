"""Build a recipe's network as training begins: filled with word vectors or with a pretrained encoder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from submission.disk.files import sha256
from submission.enrichment.base import Enricher
from submission.enrichment.checkpoint import ENRICHERS
from submission.errors import UsageError
from submission.rankers.base import LatentRanker, Ranker
from submission.rankers.bert import BERTNetwork, BERTRanker
from submission.rankers.network import Network
from submission.scoring.checkpoint import RANKERS, open_checkpoint
from submission.scoring.pretrained import Pretrained
from submission.text.tokenisers import PieceTokeniser, Tokeniser, WordTokeniser
from submission.text.vocabulary import Vocabulary
from training.data import vectors as word_vectors
from training.data.work import made
from training.fitting.clusters import begin_with_clusters
from training.fitting.recipe import Recipe, TaskSpec
from training.fitting.trainee import Trainee


def build(recipe: Recipe, vectors: Path, checkpoints: Path) -> Trainee[Any, Any]:
    """Build what a recipe says, from its seed.

    Args:
        recipe: which network.
        vectors: what `prepare vectors` wrote, for word networks.
        checkpoints: where a BERT network's or a tagger's `start` is.

    Raises:
        InputError: no word vectors. UsageError: vectors of other words or dimensions, sizes that no network can have.
        CheckpointError: no encoder, no start.
    """
    torch.manual_seed(recipe.seed)
    return recipe.task.build(recipe, vectors, checkpoints)


class NetworkOfTexts(TaskSpec, frozen=True):
    """A task of networks that begin with a pretrained encoder or with vectors of normalised words."""

    def build(self, recipe: Recipe, vectors: Path, checkpoints: Path) -> Trainee[Any, Any]:
        """Build a BERT network or a word network."""
        if issubclass(recipe.network_class, BERTNetwork):
            return _bert_network(recipe, checkpoints)
        return _word_network(recipe, vectors)


def made_of(recipe: Recipe, given: dict[str, Any]) -> Network:
    """Create the network with the recipe's sizes and those that vocabulary or encoder give. Raises UsageError."""
    network_class = recipe.network_class
    try:
        return network_class(network_class.Config(**given, **recipe.network))
    except (ValueError, RuntimeError, ZeroDivisionError) as error:
        raise UsageError(
            f"the recipe's network {recipe.network} makes no {network_class.name()} ({error}); change [network]"
        ) from None


def _word_network(recipe: Recipe, vectors: Path) -> Trainee[Ranker, Tokeniser]:
    vocabulary, table, source = vectors_of(recipe, vectors)
    ranker = made_of(recipe, {"vocabulary": len(vocabulary)})
    assert isinstance(ranker, Ranker)
    if recipe.clusters:
        table = begin_with_clusters(ranker, table, recipe.clusters, recipe.seed)
    elif isinstance(ranker, LatentRanker):  # begins with vectors of length 1, as the authors' code
        table = table / np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-12)
    ranker.state_dict()["embedding.weight"].zero_()  # that of an unknown word too
    fill(ranker, table)
    return Trainee(RANKERS, ranker, WordTokeniser(vocabulary, recipe.lengths), None, source)


def vectors_of(recipe: Recipe, vectors: Path) -> tuple[Vocabulary, np.ndarray, dict[str, Any]]:
    """Load the vocabulary, its vectors (V, E), and their source for the provenance. Raises InputError, UsageError."""
    vocabulary, table = word_vectors.load(vectors)
    record = made(vectors).decided_by
    method, expected = record.get("written"), recipe.task.written
    if method != expected:
        given = f"of words as they are written, by {method}" if method else "of normalised words"
        verb = f"`prepare vectors --written {expected}`" if expected else "`prepare vectors` without --written"
        raise UsageError(f"{vectors}: vectors {given}; expected {verb}, as the recipe says")
    if recipe.terms:
        vocabulary, table = Vocabulary(vocabulary.terms[: recipe.terms]), table[: recipe.terms]
    return vocabulary, table, {"vectors": {**record, "sha256": sha256(vectors / word_vectors.VECTORS)}}


def fill(network: Network, vectors: np.ndarray) -> None:
    """Copy vectors into the last rows of a network's word table, behind padding and unknown. Raises UsageError: other sizes."""
    weight = network.state_dict()["embedding.weight"]
    if weight.shape[1] != vectors.shape[1]:
        raise UsageError(
            f"the recipe's network has {weight.shape[1]} dimensions, the word vectors {vectors.shape[1]}; "
            "change network.dimensions or run `prepare vectors --dimensions`"
        )
    weight[-len(vectors) :] = torch.from_numpy(vectors)
    for module in network.modules():
        if isinstance(module, nn.Embedding):
            module.sparse = True  # a batch has few of the words: neither its gradient nor its step is as large as the table


def _bert_network(recipe: Recipe, checkpoints: Path) -> Trainee[Any, Any]:
    pretrained = Pretrained(recipe.encoder.name)
    network = made_of(recipe, pretrained.config(recipe.encoder.frozen))
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
        network.encoder.autocast = torch.bfloat16
    if isinstance(network, Enricher):
        return Trainee(ENRICHERS, network, network.Reader.load(pretrained.folder, network.config), pretrained, source)
    assert isinstance(network, Ranker)
    return Trainee(RANKERS, network, PieceTokeniser.load(pretrained.folder, recipe.lengths), pretrained, source)
