"""Benchmark training steps: networks on word embeddings compared with dense Adam, SNRM with a
forward pass over all windows."""

from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from aragorn.engine.base import CPU
from aragorn.inference.checkpoint import RankerCheckpoint, load_checkpoint
from aragorn.models.padding import PaddedTexts
from aragorn.paths import CHECKPOINT_DIR
from aragorn.text.vocabulary import UNKNOWN_ID
from aragorn_training.data.pair_tables import TrainingPairs, ValidationQueries
from aragorn_training.data.split import CANDIDATES_PER_QUERY
from aragorn_training.fitting.initialisation import instantiate
from aragorn_training.fitting.recipe import Recipe
from aragorn_training.fitting.task import TrainableNetwork
from aragorn_training.fitting.training_loop import take_step
from aragorn_training.tasks import load_recipe
from aragorn_training.tasks.contrastive import ContrastiveTask
from aragorn_training.tasks.pairs import PairwiseSpec, PairwiseTask
from tests.benchmarks.benchmark import Benchmark
from tests.benchmarks.synthetic_inputs import load_collection

VOCABULARY_SIZE = 100_000
NO_QUERIES = ValidationQueries(
    PaddedTexts.from_ids([]),
    PaddedTexts.from_ids([]),
    np.empty((0, CANDIDATES_PER_QUERY), dtype=int),
    np.empty(0),
    [],
    [],
    [],
)


def build_snrm_benchmark(directory: Path) -> Benchmark:
    """Build the benchmark of SNRM's training step, which computes each distinct word once per
    batch, against all windows."""
    recipe = load_recipe("snrm")
    checkpoint = load_checkpoint(CHECKPOINT_DIR / "snrm")
    batch = recipe.training.batch_size
    tokeniser = checkpoint.tokeniser
    arguments = load_collection(directory).sample(batch, replace=True, random_state=0)
    queries = PaddedTexts.from_ids(
        [tokeniser.encode_query(text) for text in arguments["conclusion"]]
    )
    premises = PaddedTexts.from_ids(
        [tokeniser.encode_premise(text) for text in arguments["premise"]]
    )
    task = ContrastiveTask(
        TrainingPairs(queries, premises, np.roll(np.arange(batch), 1)), NO_QUERIES, recipe, CPU
    )
    ours, baseline = (deepcopy(checkpoint.network).train() for _ in range(2))
    baseline.represent_many = baseline.represent
    sides = [
        partial(
            take_step, network, _build_optimiser(network, recipe), task, np.arange(batch), batch
        )
        for network in (ours, baseline)
    ]
    name = "snrm: arguments per training step, CPU"
    baseline_name = "forward pass over all windows"
    return Benchmark(name, baseline_name, "arguments", batch, *sides, 4)


def build_benchmark(
    name: str, steps: int, target: float, vocabulary_size: int = VOCABULARY_SIZE
) -> Benchmark:
    """Build the benchmark of training steps on Zipfian texts of the maximum lengths, against dense
    Adam (all rows updated)."""
    recipe = Recipe(ranker=name, task=PairwiseSpec())
    training = recipe.training
    rng = np.random.default_rng(0)
    rows = np.arange(steps * training.batch_size)
    frequencies = 1 / np.arange(1, vocabulary_size - UNKNOWN_ID)

    def generate(length: int) -> PaddedTexts:
        ids = (
            UNKNOWN_ID
            + 1
            + rng.choice(len(frequencies), (len(rows), length), p=frequencies / frequencies.sum())
        )
        return PaddedTexts(torch.from_numpy(ids).int(), torch.full((len(rows),), length))

    pairs = TrainingPairs(
        generate(recipe.lengths.query), generate(recipe.lengths.premise), np.roll(rows, 1)
    )
    task: Any = PairwiseTask(pairs, NO_QUERIES, recipe, CPU)

    def train(network: Any, optimiser: torch.optim.Optimizer) -> None:
        for batch in rows.reshape(steps, -1):
            take_step(network, optimiser, task, batch, training.micro_batch_size)

    network = instantiate(recipe, {"vocabulary": vocabulary_size})  # with random word vectors
    dense_network = deepcopy(network)
    ours = partial(train, network, _build_optimiser(network, recipe))
    baseline = partial(
        train, dense_network, torch.optim.Adam(dense_network.parameters(), training.learning_rate)
    )
    title = f"{name}: training steps, vocabulary of {vocabulary_size:,} words, CPU"
    return Benchmark(
        title, "torch.optim.Adam over all rows", "steps", steps, ours, baseline, target
    )


def _build_optimiser(network: Any, recipe: Recipe) -> torch.optim.Optimizer:
    """Make the gradients of a network's embedding table sparse, as `fit` does, and build its
    optimiser."""
    network.embedding.sparse = True
    trainable = TrainableNetwork(RankerCheckpoint, network, None, None, {})
    return trainable.build_optimiser(recipe.training.learning_rate, recipe.encoder.learning_rate)
