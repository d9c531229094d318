"""Steps of training word networks against the same steps with Adam over the whole word table: 100,000 words as in English."""

from __future__ import annotations

import tempfile
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
import torch

from submission.inference.batching import PaddedTexts
from submission.inference.ranker_checkpoint import RANKER_FORMAT, load_checkpoint
from submission.paths import CHECKPOINT_DIR
from submission.storage.artifact_store import ArtifactStore
from submission.text.token_ids import UNKNOWN_ID
from submission.text.vocabulary import Vocabulary
from tests.benchmarks.benchmark import Benchmark
from tests.benchmarks.synthetic_inputs import collection_of
from training.data.pair_tables import TrainingPairs, ValidationQueries
from training.data.split import CANDIDATES_PER_QUERY
from training.data.word_vectors import VECTORS_FILE, VOCABULARY_FILE
from training.fitting.initialisation import build_network
from training.fitting.recipe import Recipe
from training.fitting.trainable import TrainableNetwork
from training.fitting.training_loop import take_step
from training.tasks import load_recipe
from training.tasks.contrastive import ContrastiveTask
from training.tasks.pairs import PairwiseSpec, PairwiseTask

ROWS, DIMENSIONS = 100_000, 300
CPU = torch.device("cpu")
NO_QUERIES = ValidationQueries(
    PaddedTexts.from_ids([]), PaddedTexts.from_ids([]), np.empty((0, CANDIDATES_PER_QUERY), dtype=int), np.empty(0), [], []
)


def knrm_training(_directory: Path) -> Benchmark:
    """KNRM."""
    return _training("knrm", 20)


def conv_knrm_training(_directory: Path) -> Benchmark:
    """Conv-KNRM."""
    return _training("conv_knrm", 5)


def gru_training(_directory: Path) -> Benchmark:
    """GRU."""
    return _training("gru", 3)


def snrm_training(directory: Path) -> Benchmark:
    """SNRM's own recipe and texts: each distinct word of a batch computed once, against the forward over all windows."""
    recipe, checkpoint = load_recipe("snrm"), load_checkpoint(CHECKPOINT_DIR / "snrm")
    batch = recipe.training.batch_size
    arguments = collection_of(directory).sample(batch, replace=True, random_state=0)  # a small one's several times
    reader = checkpoint.tokeniser
    queries, premises = (
        PaddedTexts.from_ids([read(text) for text in arguments[column]])
        for column, read in (("conclusion", reader.encode_query), ("premise", reader.encode_premise))
    )
    task = ContrastiveTask(TrainingPairs(queries, premises, np.roll(np.arange(batch), 1)), NO_QUERIES, recipe, CPU)

    def side() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
        network = deepcopy(checkpoint.ranker).train()
        network.embedding.sparse = True  # as where it is built  # type: ignore[union-attr]
        return network, TrainableNetwork(RANKER_FORMAT, network, reader, None, {}).build_optimiser(
            recipe.training, recipe.encoder
        )

    def train(network: torch.nn.Module, optimiser: torch.optim.Optimizer) -> None:
        take_step(network, optimiser, task, np.arange(batch), batch)

    ours, plain = side(), side()
    plain[0].represent_many = plain[0].represent
    return Benchmark(
        name="snrm_training",
        against="its forward over all windows",
        unit="arguments",
        units=batch,
        ours=lambda: train(*ours),
        baseline=lambda: train(*plain),
    )


def _training(name: str, steps: int) -> Benchmark:
    recipe = Recipe(ranker=name, task=PairwiseSpec())
    trainee = _built(recipe)
    whole = deepcopy(trainee.network)
    whole.embedding.sparse = False  # type: ignore[union-attr]
    batch = recipe.training.batch_size
    task = PairwiseTask(_pairs(steps * batch, recipe), NO_QUERIES, recipe, CPU)

    def train(ranker: torch.nn.Module, optimiser: torch.optim.Optimizer) -> None:
        for rows in np.arange(steps * batch).reshape(steps, batch):
            take_step(ranker, optimiser, task, rows, recipe.training.micro_batch_size)  # type: ignore[arg-type]

    optimisers = (
        trainee.build_optimiser(recipe.training, recipe.encoder),
        torch.optim.Adam(whole.parameters(), recipe.training.learning_rate),
    )
    return Benchmark(
        name=f"{name}_training",
        against="torch.optim.Adam over the whole word table",
        unit="steps",
        units=steps,
        ours=lambda: train(trainee.network, optimisers[0]),
        baseline=lambda: train(whole, optimisers[1]),
    )


def _built(recipe: Recipe) -> TrainableNetwork[Any, Any]:
    with tempfile.TemporaryDirectory() as folder:
        _write_vectors(Path(folder))
        return build_network(recipe, Path(folder), Path(folder))


def _write_vectors(directory: Path) -> None:
    vocabulary = Vocabulary([f"word{number}" for number in range(ROWS - UNKNOWN_ID - 1)])
    vectors = np.random.default_rng(0).normal(size=(len(vocabulary.terms), DIMENSIONS)).astype(np.float32)
    work = ArtifactStore(directory, {})
    work.build_files([VECTORS_FILE], lambda file: safetensors.numpy.save_file({"vectors": vectors}, file))
    work.load_or_build(VOCABULARY_FILE, vocabulary.to_text().encode)


def _pairs(number: int, recipe: Recipe) -> TrainingPairs:
    """Texts of full length, whose words are as frequent as Zipf's law has it (the vocabulary is ordered by frequency)."""
    rng = np.random.default_rng(0)
    frequencies = 1 / np.arange(1, ROWS - UNKNOWN_ID)
    frequencies /= frequencies.sum()

    def texts(length: int) -> PaddedTexts:
        ids = UNKNOWN_ID + 1 + rng.choice(len(frequencies), (number, length), p=frequencies)
        return PaddedTexts(torch.from_numpy(ids).int(), torch.full((number,), length))

    return TrainingPairs(texts(recipe.lengths.query), texts(recipe.lengths.premise), np.roll(np.arange(number), 1))
