"""Benchmarks of word networks' training steps, against plain Adam, which updates all 100,000 rows of the embedding table."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from pathlib import Path

import numpy as np
import safetensors.numpy
import torch

from submission.engine.base import CPU
from submission.inference.ranker_checkpoint import RankerCheckpoint, load_checkpoint
from submission.models.padding import PaddedTexts
from submission.paths import CHECKPOINT_DIR
from submission.text.vocabulary import UNKNOWN_ID, Vocabulary
from tests.benchmarks.benchmark import Benchmark
from tests.benchmarks.synthetic_inputs import load_collection, open_empty_store
from training.data.pair_tables import TrainingPairs, ValidationQueries
from training.data.split import CANDIDATES_PER_QUERY
from training.data.word_vectors import VECTORS_FILE, VOCABULARY_FILE
from training.fitting.initialisation import build_network
from training.fitting.recipe import Recipe
from training.fitting.task import TrainableNetwork
from training.fitting.training_loop import take_step
from training.tasks import load_recipe
from training.tasks.contrastive import ContrastiveTask
from training.tasks.pairs import PairwiseSpec, PairwiseTask

VOCABULARY_SIZE, DIMENSIONS = 100_000, 300
NO_QUERIES = ValidationQueries(
    PaddedTexts.from_ids([]), PaddedTexts.from_ids([]), np.empty((0, CANDIDATES_PER_QUERY), dtype=int), np.empty(0), [], []
)


def build_snrm_benchmark(directory: Path) -> Benchmark:
    """Build the benchmark of SNRM's training step, which computes a distinct word once per batch, against all windows."""
    recipe, checkpoint = load_recipe("snrm"), load_checkpoint(CHECKPOINT_DIR / "snrm")
    batch, tokeniser = recipe.training.batch_size, checkpoint.tokeniser
    arguments = load_collection(directory).sample(batch, replace=True, random_state=0)
    queries, premises = (
        PaddedTexts.from_ids([encode(text) for text in arguments[column]])
        for column, encode in (("conclusion", tokeniser.encode_query), ("premise", tokeniser.encode_premise))
    )
    task = ContrastiveTask(TrainingPairs(queries, premises, np.roll(np.arange(batch), 1)), NO_QUERIES, recipe, CPU)

    def build_side(is_baseline: bool) -> Callable[[], object]:
        network = deepcopy(checkpoint.network).train()
        network.embedding.sparse = True  # as in build_network  # type: ignore[union-attr]
        optimiser = _build_optimiser(TrainableNetwork(RankerCheckpoint, network, tokeniser, None, {}), recipe)
        if is_baseline:
            network.represent_many = network.represent
        return lambda: take_step(network, optimiser, task, np.arange(batch), batch)

    name, baseline_name = "snrm: arguments per training step, CPU", "forward pass over all windows"
    return Benchmark("snrm_training", name, baseline_name, "arguments", batch, build_side(False), build_side(True), 4)


def build_benchmark(name: str, steps: int, target: float, vocabulary_size: int = VOCABULARY_SIZE) -> Benchmark:
    """Build the benchmark of a network's training steps on texts of the maximum lengths."""
    recipe = Recipe(ranker=name, task=PairwiseSpec())
    training, trainable = recipe.training, _build_network(recipe, vocabulary_size)
    dense_network = deepcopy(trainable.network)
    dense_network.embedding.sparse = False  # type: ignore[union-attr]
    pairs = _generate_pairs(steps * training.batch_size, recipe, vocabulary_size)
    task = PairwiseTask(pairs, NO_QUERIES, recipe, CPU)

    def train(ranker: torch.nn.Module, optimiser: torch.optim.Optimizer) -> None:
        for rows in np.arange(steps * training.batch_size).reshape(steps, -1):
            take_step(ranker, optimiser, task, rows, training.micro_batch_size)  # type: ignore[arg-type]

    return Benchmark(
        f"{name}_training",
        f"{name}: training steps, vocabulary of {vocabulary_size:,} words, CPU",
        "torch.optim.Adam over all rows",
        "steps",
        steps,
        partial(train, trainable.network, _build_optimiser(trainable, recipe)),
        partial(train, dense_network, torch.optim.Adam(dense_network.parameters(), training.learning_rate)),
        target,
    )


def _build_optimiser(trainable: TrainableNetwork, recipe: Recipe) -> torch.optim.Optimizer:
    return trainable.build_optimiser(recipe.training.learning_rate, recipe.encoder.learning_rate)


def _build_network(recipe: Recipe, vocabulary_size: int) -> TrainableNetwork:
    """Build a network with random word vectors."""
    vocabulary = Vocabulary([f"word{rank}" for rank in range(vocabulary_size - UNKNOWN_ID - 1)])
    vectors = np.random.default_rng(0).normal(size=(len(vocabulary.terms), DIMENSIONS)).astype(np.float32)
    with open_empty_store() as store:
        store.build_files([VECTORS_FILE], lambda file: safetensors.numpy.save_file({"vectors": vectors}, file))
        store.load_or_build(VOCABULARY_FILE, vocabulary.to_text().encode)
        return build_network(recipe, store.directory, store.directory)


def _generate_pairs(n: int, recipe: Recipe, vocabulary_size: int) -> TrainingPairs:
    """Generate `n` pairs of texts of the maximum lengths with Zipfian word frequencies."""
    rng, frequencies = np.random.default_rng(0), 1 / np.arange(1, vocabulary_size - UNKNOWN_ID)

    def generate(length: int) -> PaddedTexts:
        ids = UNKNOWN_ID + 1 + rng.choice(len(frequencies), (n, length), p=frequencies / frequencies.sum())
        return PaddedTexts(torch.from_numpy(ids).int(), torch.full((n,), length))

    return TrainingPairs(generate(recipe.lengths.query), generate(recipe.lengths.premise), np.roll(np.arange(n), 1))
