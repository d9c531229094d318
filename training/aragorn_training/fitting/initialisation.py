"""Build a recipe's network, initialised from word vectors or a pretrained encoder."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor, nn

from aragorn.errors import CheckpointError, UsageError
from aragorn.inference.checkpoint import RankerCheckpoint, TaggerCheckpoint, load_checkpoint
from aragorn.inference.pretrained import (
    CONFIG_FILE,
    TOKENISER_FILE,
    WEIGHTS_FILE,
    PretrainedEncoder,
)
from aragorn.models.bert import BERTNetwork, BERTRanker
from aragorn.models.network import LatentRanker, Network, Ranker
from aragorn.models.rankers.snrm import HALF_WINDOW, SNRM
from aragorn.models.taggers import Tagger
from aragorn.models.transformer import BERTConfig
from aragorn.storage.atomic_files import sha256_file
from aragorn.text.tokenisers import Vocabulary, WordPieceTokeniser, WordTokeniser
from aragorn_training.data import word_vectors
from aragorn_training.data.split import RandomStream, create_generator
from aragorn_training.data.work_directory import read_prepared_manifest
from aragorn_training.fitting.recipe import ClusterInitialisation, Recipe, TaskSpec
from aragorn_training.fitting.task import TrainableNetwork

KMEANS_ITERATIONS = 15  # later iterations reassign few words
EPSILON = 1e-12


# of checkpoints; the other fields of BERTConfig have their defaults
BERT_FIELDS = [
    field.name
    for field in fields(BERTConfig)
    if field.name not in ("pad_token_id", "initializer_range")
]


def check_inputs(recipe: Recipe, work_dir: Path, vectors_dir: Path) -> None:
    """Raise InputError, with the command to run, if examples or word vectors are missing."""
    recipe.task.check_prepared(work_dir)
    if not issubclass(recipe.network_class, BERTNetwork):
        dimensions = recipe.network.get("dimensions", recipe.network_class.Config.dimensions)
        method = recipe.task.surface_vector_method
        word_vectors.check_vectors(vectors_dir, work_dir, method, dimensions)


def build_network(recipe: Recipe, vectors_dir: Path, checkpoints_dir: Path) -> TrainableNetwork:
    """Build and initialise a network with the recipe's seed.

    Raises:
        InputError: If there are no word vectors.
        UsageError: If vectors or sizes do not fit the network.
        CheckpointError: If the encoder or the initial checkpoint is missing.
    """
    torch.manual_seed(recipe.seed)
    return recipe.task.build_network(recipe, vectors_dir, checkpoints_dir)


class TextNetworkSpec(TaskSpec, frozen=True):
    """Base of tasks whose networks start from an encoder or from vectors of normalised words."""

    version: ClassVar[int] = 1
    computes_with: ClassVar[tuple[str, ...]] = ("scipy",)

    def build_network(
        self, recipe: Recipe, vectors_dir: Path, checkpoints_dir: Path
    ) -> TrainableNetwork:
        """Build a BERT network from a pretrained encoder, or another one from word vectors."""
        if issubclass(recipe.network_class, BERTNetwork):
            return _build_bert_network(recipe, checkpoints_dir)
        return _build_word_network(recipe, vectors_dir)


def instantiate(recipe: Recipe, derived_fields: dict[str, Any]) -> Network:
    """Instantiate the recipe's network with `derived_fields`; raise UsageError if invalid."""
    network_class = recipe.network_class
    try:
        return network_class(network_class.Config(**derived_fields, **recipe.network))
    except (ValueError, RuntimeError, ZeroDivisionError) as error:
        name = network_class.get_name()
        raise UsageError(
            f"cannot build {name} from [network] {recipe.network} ({error}); correct these values"
        ) from None


def _build_word_network(recipe: Recipe, vectors_dir: Path) -> TrainableNetwork:
    vocabulary, word_table, origin = load_recipe_vectors(recipe, vectors_dir)
    ranker = instantiate(recipe, {"vocabulary": len(vocabulary)})
    assert isinstance(ranker, Ranker)
    if recipe.clusters:
        word_table = initialise_from_clusters(ranker, word_table, recipe.clusters, recipe.seed)
    elif isinstance(ranker, LatentRanker):  # unit vectors, as in the original code of SNRM
        norms = np.linalg.norm(word_table, axis=1, keepdims=True)
        word_table = word_table / np.maximum(norms, 1e-12)
    ranker.state_dict()["embedding.weight"].zero_()  # including the unknown word's row
    copy_word_vectors(ranker, word_table)
    tokeniser = WordTokeniser(vocabulary, recipe.lengths)
    return TrainableNetwork(RankerCheckpoint, ranker, tokeniser, None, origin)


def load_recipe_vectors(
    recipe: Recipe, vectors_dir: Path
) -> tuple[Vocabulary, np.ndarray, dict[str, Any]]:
    """Load the vocabulary, cut to the recipe's `max_terms`, its vectors (V, E) and their
    provenance; raise UsageError unless they represent the recipe's surface tokens or normalised
    words."""
    vocabulary, word_table = word_vectors.load_vectors(vectors_dir)
    inputs = read_prepared_manifest(vectors_dir).inputs
    stored_method = inputs.get("surface_method")
    expected_method = recipe.task.surface_vector_method
    if stored_method != expected_method:
        units = [
            f"surface tokens ({method})" if method else "normalised words"
            for method in (stored_method, expected_method)
        ]
        flag = f" --surface-tokens {expected_method}" if expected_method else ""
        cause = f"contains vectors of {units[0]}, but the recipe needs {units[1]}"
        fix = f"run `aragorn-training prepare vectors --work-dir WORK_DIR{flag}` and omit --vectors"
        raise UsageError(f"{vectors_dir}: {cause}; {fix}")
    if recipe.max_terms:
        vocabulary = Vocabulary(vocabulary.terms[: recipe.max_terms])
        word_table = word_table[: recipe.max_terms]
    vectors_hash = sha256_file(vectors_dir / word_vectors.VECTORS_FILE)
    return vocabulary, word_table, {"vectors": {**inputs, "sha256": vectors_hash}}


def copy_word_vectors(network: Network, vectors: np.ndarray) -> None:
    """Copy word vectors into the last rows of the embedding table, and make its gradients sparse;
    raise UsageError if their dimensions differ."""
    weight = network.state_dict()["embedding.weight"]
    size = weight.shape[1]
    if size != (n := vectors.shape[1]):
        cause = f"network.dimensions is {size}, but the word vectors have {n}"
        flags = f"--work-dir WORK_DIR --overwrite --dimensions {size}"
        command = f"aragorn-training prepare vectors {flags}"
        raise UsageError(f"{cause}; set it to {n} or run `{command}`")
    weight[-len(vectors) :] = torch.from_numpy(vectors)
    for module in network.modules():
        if isinstance(module, nn.Embedding):
            module.sparse = True  # a batch updates few rows; see LazyAdam


def _build_bert_network(recipe: Recipe, checkpoints_dir: Path) -> TrainableNetwork:
    pretrained = PretrainedEncoder(recipe.encoder.name)
    network = instantiate(recipe, read_encoder_config(pretrained, recipe.encoder.frozen_layers))
    assert isinstance(network, BERTNetwork)
    weights = pretrained.load_encoder_weights()
    if "pooler.weight" in network.state_dict():
        weights |= load_pooler_weights(pretrained)
    network.load_state_dict(network.state_dict() | weights)
    origin: dict[str, Any] = {"encoder": {"name": pretrained.name, "sha256": pretrained.sha256}}
    if recipe.encoder.init_from:
        checkpoint = load_checkpoint(checkpoints_dir / recipe.encoder.init_from)
        name = recipe.encoder.init_from
        if not isinstance(checkpoint.network, BERTRanker):
            cause = f"{name!r} has no encoder; set it to a BERT checkpoint"
            raise UsageError(f"encoder.init_from: {cause}")
        state = checkpoint.network.state_dict()
        weights = {key: state[key] for key in state if key.startswith("encoder.")}
        network.load_state_dict(network.state_dict() | weights)
        fingerprint = checkpoint.fingerprint
        origin["encoder"]["init_from"] = {"name": name, "fingerprint": fingerprint}
    if recipe.encoder.bfloat16:
        network.encoder.autocast_dtype = torch.bfloat16
    if isinstance(network, Tagger):
        passage_tokeniser = network.tokeniser_class.load(pretrained.folder, network.config)
        return TrainableNetwork(TaggerCheckpoint, network, passage_tokeniser, pretrained, origin)
    assert isinstance(network, Ranker)
    tokeniser = WordPieceTokeniser.load(pretrained.folder, recipe.lengths)
    return TrainableNetwork(RankerCheckpoint, network, tokeniser, pretrained, origin)


def read_encoder_config(encoder: PretrainedEncoder, frozen_blocks: int = -1) -> dict[str, Any]:
    """Return the `EncoderConfig` fields of a pretrained encoder (`frozen_blocks` -1: nothing is
    frozen); raise CheckpointError if it is no BERT."""
    values = json.loads((encoder.folder / CONFIG_FILE).read_text(encoding="utf-8"))
    if (kind := values.get("model_type")) != "bert":
        raise CheckpointError(f"{encoder.folder}: model type is {kind!r}; choose a 'bert' encoder")
    tokeniser = json.loads((encoder.folder / TOKENISER_FILE).read_text(encoding="utf-8"))
    vocabulary = tokeniser["model"]["vocab"]
    names = [name for name in BERT_FIELDS if name in values]
    config = {"bert": {name: values[name] for name in names}}
    ids = {"cls": vocabulary["[CLS]"], "sep": vocabulary["[SEP]"]}
    return config | ids | {"frozen": frozen_blocks}


def load_pooler_weights(encoder: PretrainedEncoder) -> dict[str, Tensor]:
    """Load a pretrained encoder's pooler by names of tensors; CheckpointError if it has none."""
    weights = encoder.load_weights()
    try:
        return {f"pooler.{name}": weights[f"pooler.dense.{name}"] for name in ("weight", "bias")}
    except KeyError as error:
        cause = f"{encoder.folder / WEIGHTS_FILE}: no tensor {error.args[0]}"
        raise CheckpointError(f"{cause}; choose an encoder with a pooler") from None


def initialise_from_clusters(
    ranker: Ranker, vectors: np.ndarray, clusters: ClusterInitialisation, seed: int
) -> np.ndarray:
    """Set an SNRM's filters to centroids of word vectors (V, E), most frequent word first; return
    the transformed word vectors (V, E) float32.

    With these, a word w at the window's centre activates the term of centroid c with r(w) · max(0,
    cos(w, c) - threshold), regardless of the neighbouring words. As the network has no bias, all
    returned vectors share a component in the mean direction, for which a filter's weight is minus
    the threshold. The rarity r is ln(1 + frequency rank), relative to that of the rarest word and
    raised to `rarity_exponent`; by Zipf's law this is IDF up to a constant. Centroids come from
    spherical k-means (Dhillon and Modha 2001), weighted by rarity.

    Raises:
        UsageError: If the network is not an SNRM, has hidden layers, or has more latent terms than
            there are words.
    """
    if not isinstance(ranker, SNRM) or len(ranker.layers) > 1:
        cause = "[clusters] applies only to snrm without hidden layers"
        raise UsageError(f"{cause}; remove it from the recipe")
    n_clusters = ranker.config.latent
    if n_clusters > (n := len(vectors)):
        cause = f"network.latent is {n_clusters}, but the vocabulary has only {n} words"
        raise UsageError(f"{cause}; lower it")
    mean_vector = vectors.mean(0, keepdims=True)
    mean_direction = _normalise_rows(mean_vector)
    offsets = vectors - mean_vector
    # (V, E), orthogonal to the mean
    unit_vectors = _normalise_rows(offsets - (offsets @ mean_direction.T) * mean_direction)
    rarity = np.log(1 + np.arange(1, len(vectors) + 1))
    centroids = _spherical_k_means(
        unit_vectors, rarity, n_clusters, create_generator(seed, RandomStream.CENTROIDS)
    )
    weight = ranker.state_dict()["layers.0.weight"].zero_()  # (latent, E, 5)
    weight[:, :, HALF_WINDOW] = torch.from_numpy(centroids - clusters.threshold * mean_direction)
    word_weights = (rarity / rarity.max()) ** clusters.rarity_exponent
    return np.asarray((unit_vectors + mean_direction) * word_weights[:, None], np.float32)


def _spherical_k_means(
    unit_vectors: np.ndarray, weights: np.ndarray, n_clusters: int, rng: np.random.Generator
) -> np.ndarray:
    """Return unit centroids (n_clusters, E) of unit vectors (V, E) with weights (V,)."""
    n_words = len(unit_vectors)
    probabilities = weights / weights.sum()
    weights = weights.astype(unit_vectors.dtype)
    centroids = unit_vectors[rng.choice(n_words, n_clusters, replace=False, p=probabilities)]
    for _ in range(KMEANS_ITERATIONS):
        nearest_centroids = (unit_vectors @ centroids.T).argmax(1)
        membership = csr_matrix(
            (weights, (nearest_centroids, np.arange(n_words))), (n_clusters, n_words)
        )
        sums = membership @ unit_vectors
        is_empty = np.linalg.norm(sums, axis=1) < EPSILON
        words = rng.choice(n_words, int(is_empty.sum()), replace=False, p=probabilities)
        sums[is_empty] = unit_vectors[words]
        centroids = _normalise_rows(sums)
    return centroids


def _normalise_rows(vectors: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(norms, EPSILON))
