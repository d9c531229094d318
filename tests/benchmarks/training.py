"""Steps of training word networks against the same steps with Adam over the whole word table: 100,000 words as in English."""

from __future__ import annotations

import tempfile
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
import torch

from submission.inference.batching import Padded
from submission.inference.ranker_checkpoint import RANKERS, open_checkpoint
from submission.paths import CHECKPOINTS
from submission.storage.artifact_store import Kept
from submission.text.token_ids import UNKNOWN
from submission.text.vocabulary import Vocabulary
from tests.benchmarks.benchmark import Benchmark
from tests.benchmarks.synthetic_inputs import collection_of
from training.data.pair_tables import Queries, TrainingPairs
from training.data.split import CANDIDATES
from training.data.word_vectors import VECTORS, VOCABULARY
from training.fitting.initialisation import build
from training.fitting.recipe import Recipe
from training.fitting.trainable import Trainee
from training.fitting.training_loop import take_step
from training.tasks import read_recipe
from training.tasks.contrastive import InBatch
from training.tasks.pairs import Pairs, Pairwise

ROWS, DIMENSIONS = 100_000, 300
CPU = torch.device("cpu")
NO_QUERIES = Queries(Padded.of([]), Padded.of([]), np.empty((0, CANDIDATES), dtype=int), np.empty(0), [], [])


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
    recipe, checkpoint = read_recipe("snrm"), open_checkpoint(CHECKPOINTS / "snrm")
    batch = recipe.training.global_batch_size
    arguments = collection_of(directory).sample(batch, replace=True, random_state=0)  # a small one's several times
    reader = checkpoint.tokeniser
    queries, premises = (
        Padded.of([read(text) for text in arguments[column]])
        for column, read in (("conclusion", reader.query), ("premise", reader.premise))
    )
    task = InBatch(TrainingPairs(queries, premises, np.roll(np.arange(batch), 1)), NO_QUERIES, recipe, CPU)

    def side() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
        network = deepcopy(checkpoint.ranker).train()
        network.embedding.sparse = True  # as where it is built  # type: ignore[union-attr]
        return network, Trainee(RANKERS, network, reader, None, {}).optimiser(recipe.training, recipe.encoder)

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
    recipe = Recipe(ranker=name, task=Pairs())
    trainee = _built(recipe)
    whole = deepcopy(trainee.network)
    whole.embedding.sparse = False  # type: ignore[union-attr]
    batch = recipe.training.global_batch_size
    task = Pairwise(_pairs(steps * batch, recipe), NO_QUERIES, recipe, CPU)

    def train(ranker: torch.nn.Module, optimiser: torch.optim.Optimizer) -> None:
        for rows in np.arange(steps * batch).reshape(steps, batch):
            take_step(ranker, optimiser, task, rows, recipe.training.micro_batch_size)  # type: ignore[arg-type]

    optimisers = (
        trainee.optimiser(recipe.training, recipe.encoder),
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


def _built(recipe: Recipe) -> Trainee[Any, Any]:
    with tempfile.TemporaryDirectory() as folder:
        _write_vectors(Path(folder))
        return build(recipe, Path(folder), Path(folder))


def _write_vectors(directory: Path) -> None:
    vocabulary = Vocabulary([f"word{number}" for number in range(ROWS - UNKNOWN - 1)])
    vectors = np.random.default_rng(0).normal(size=(len(vocabulary.terms), DIMENSIONS)).astype(np.float32)
    work = Kept(directory, {})
    work.make([VECTORS], lambda file: safetensors.numpy.save_file({"vectors": vectors}, file))
    work.content(VOCABULARY, vocabulary.dumps().encode)


def _pairs(number: int, recipe: Recipe) -> TrainingPairs:
    """Texts of full length, whose words are as frequent as Zipf's law has it (the vocabulary is ordered by frequency)."""
    rng = np.random.default_rng(0)
    frequencies = 1 / np.arange(1, ROWS - UNKNOWN)
    frequencies /= frequencies.sum()

    def texts(length: int) -> Padded:
        ids = UNKNOWN + 1 + rng.choice(len(frequencies), (number, length), p=frequencies)
        return Padded(torch.from_numpy(ids).int(), torch.full((number,), length))

    return TrainingPairs(texts(recipe.lengths.query), texts(recipe.lengths.premise), np.roll(np.arange(number), 1))
