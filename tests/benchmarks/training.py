"""Benchmarks of word networks' training steps, against plain Adam, which updates all 100,000 rows of the embedding table."""

from __future__ import annotations

import tempfile
from copy import deepcopy
from pathlib import Path

import numpy as np
import safetensors.numpy
import torch

from submission.inference.ranker_checkpoint import RankerCheckpoint, load_checkpoint
from submission.models.padding import PaddedTexts
from submission.paths import CHECKPOINT_DIR
from submission.storage.artifact_store import ArtifactStore
from submission.text.vocabulary import UNKNOWN_ID, Vocabulary
from tests.benchmarks.benchmark import Benchmark
from tests.benchmarks.synthetic_inputs import load_collection
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

ROWS, DIMENSIONS = 100_000, 300
CPU = torch.device("cpu")
NO_QUERIES = ValidationQueries(
    PaddedTexts.from_ids([]), PaddedTexts.from_ids([]), np.empty((0, CANDIDATES_PER_QUERY), dtype=int), np.empty(0), [], []
)


def build_snrm_benchmark(directory: Path) -> Benchmark:
    """Build the benchmark of SNRM's training step, which computes a distinct word once per batch, against all windows."""
    recipe, checkpoint = load_recipe("snrm"), load_checkpoint(CHECKPOINT_DIR / "snrm")
    batch = recipe.training.batch_size
    arguments = load_collection(directory).sample(batch, replace=True, random_state=0)
    tokeniser = checkpoint.tokeniser
    queries, premises = (
        PaddedTexts.from_ids([encode(text) for text in arguments[column]])
        for column, encode in (("conclusion", tokeniser.encode_query), ("premise", tokeniser.encode_premise))
    )
    task = ContrastiveTask(TrainingPairs(queries, premises, np.roll(np.arange(batch), 1)), NO_QUERIES, recipe, CPU)

    def build_side() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
        network = deepcopy(checkpoint.network).train()
        network.embedding.sparse = True  # as in build_network  # type: ignore[union-attr]
        trainable = TrainableNetwork(RankerCheckpoint, network, tokeniser, None, {})
        return network, trainable.build_optimiser(recipe.training.learning_rate, recipe.encoder.learning_rate)

    def train(network: torch.nn.Module, optimiser: torch.optim.Optimizer) -> None:
        take_step(network, optimiser, task, np.arange(batch), batch)

    ours, baseline = build_side(), build_side()
    baseline[0].represent_many = baseline[0].represent
    return Benchmark(
        name="snrm_training",
        baseline_name="forward pass over all windows",
        unit="arguments",
        units=batch,
        ours=lambda: train(*ours),
        baseline=lambda: train(*baseline),
    )


def build_benchmark(name: str, steps: int) -> Benchmark:
    """Build the benchmark of a network's training steps on texts of the maximum lengths."""
    recipe = Recipe(ranker=name, task=PairwiseSpec())
    trainable = _build_network(recipe)
    dense_network = deepcopy(trainable.network)
    dense_network.embedding.sparse = False  # type: ignore[union-attr]
    batch = recipe.training.batch_size
    task = PairwiseTask(_generate_pairs(steps * batch, recipe), NO_QUERIES, recipe, CPU)

    def train(ranker: torch.nn.Module, optimiser: torch.optim.Optimizer) -> None:
        for rows in np.arange(steps * batch).reshape(steps, batch):
            take_step(ranker, optimiser, task, rows, recipe.training.micro_batch_size)  # type: ignore[arg-type]

    optimisers = (
        trainable.build_optimiser(recipe.training.learning_rate, recipe.encoder.learning_rate),
        torch.optim.Adam(dense_network.parameters(), recipe.training.learning_rate),
    )
    return Benchmark(
        name=f"{name}_training",
        baseline_name="torch.optim.Adam over all rows",
        unit="steps",
        units=steps,
        ours=lambda: train(trainable.network, optimisers[0]),
        baseline=lambda: train(dense_network, optimisers[1]),
    )


def _build_network(recipe: Recipe) -> TrainableNetwork:
    with tempfile.TemporaryDirectory() as folder:
        _write_vectors(Path(folder))
        return build_network(recipe, Path(folder), Path(folder))


def _write_vectors(directory: Path) -> None:
    vocabulary = Vocabulary([f"word{rank}" for rank in range(ROWS - UNKNOWN_ID - 1)])
    vectors = np.random.default_rng(0).normal(size=(len(vocabulary.terms), DIMENSIONS)).astype(np.float32)
    store = ArtifactStore(directory, {})
    store.build_files([VECTORS_FILE], lambda file: safetensors.numpy.save_file({"vectors": vectors}, file))
    store.load_or_build(VOCABULARY_FILE, vocabulary.to_text().encode)


def _generate_pairs(n: int, recipe: Recipe) -> TrainingPairs:
    """Generate `n` pairs of texts of the maximum lengths with Zipfian word frequencies."""
    rng = np.random.default_rng(0)
    frequencies = 1 / np.arange(1, ROWS - UNKNOWN_ID)
    frequencies /= frequencies.sum()

    def generate(length: int) -> PaddedTexts:
        ids = UNKNOWN_ID + 1 + rng.choice(len(frequencies), (n, length), p=frequencies)
        return PaddedTexts(torch.from_numpy(ids).int(), torch.full((n,), length))

    return TrainingPairs(generate(recipe.lengths.query), generate(recipe.lengths.premise), np.roll(np.arange(n), 1))
