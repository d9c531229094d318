"""Benchmarks of training steps, against dense Adam and, for SNRM, a pass over all windows."""

from copy import deepcopy
from functools import partial

import numpy as np
import torch

from aragorn.engine import CPU
from aragorn.inference.checkpoint import RankerCheckpoint, load_checkpoint
from aragorn.models.network import PaddedTexts
from aragorn.paths import CHECKPOINT_DIR
from aragorn.text.tokenisers import UNKNOWN_ID
from aragorn_training.data.pair_tables import TrainingPairs, ValidationQueries
from aragorn_training.data.split import CANDIDATES_PER_QUERY
from aragorn_training.fitting.initialisation import instantiate
from aragorn_training.fitting.recipe import Recipe
from aragorn_training.fitting.task import TrainableNetwork
from aragorn_training.fitting.training_loop import take_step
from aragorn_training.tasks import load_recipe
from aragorn_training.tasks.contrastive import ContrastiveTask
from aragorn_training.tasks.pairs import PairwiseSpec, PairwiseTask
from tests.benchmarks.synthetic_inputs import load_collection

VOCABULARY_SIZE = 100_000
NO_TEXTS = PaddedTexts.from_ids([])
NO_CANDIDATES = np.empty((0, CANDIDATES_PER_QUERY), dtype=int)
NO_QUERIES = ValidationQueries(NO_TEXTS, NO_TEXTS, NO_CANDIDATES, np.empty(0), [], [], [])


def measure_snrm(inputs):
    """Compare SNRM's training step, which computes each distinct word once, with a plain one."""
    recipe = load_recipe("snrm")
    checkpoint = load_checkpoint(CHECKPOINT_DIR / "snrm")
    batch = recipe.training.batch_size
    tokeniser = checkpoint.tokeniser
    arguments = load_collection(inputs.directory).sample(batch, replace=True, random_state=0)
    queries, premises = (
        PaddedTexts.from_ids([encode(text) for text in arguments[column]])
        for encode, column in (
            (tokeniser.encode_query, "conclusion"),
            (tokeniser.encode_premise, "premise"),
        )
    )
    rows = np.arange(batch)
    pairs = TrainingPairs(queries, premises, np.roll(rows, 1))
    task = ContrastiveTask(pairs, NO_QUERIES, recipe, CPU)
    ours, baseline = (deepcopy(checkpoint.network).train() for _ in range(2))
    baseline.encode_batch = baseline.encode
    sides = [
        partial(take_step, network, _build_optimiser(network, recipe), task, rows, batch)
        for network in (ours, baseline)
    ]
    name = "snrm: arguments per training step, CPU"
    baseline_name = "forward pass over all windows"
    return inputs.compare(name, baseline_name, "arguments", batch, *sides, 4)


def measure(name, steps, target, inputs, vocabulary_size=VOCABULARY_SIZE):
    """Compare steps on Zipfian texts of the maximum lengths with dense Adam."""
    recipe = Recipe(ranker=name, task=PairwiseSpec())
    training = recipe.training
    rng = np.random.default_rng(0)
    rows = np.arange(steps * training.batch_size)
    word_ids = np.arange(UNKNOWN_ID + 1, vocabulary_size)
    frequencies = 1 / np.arange(1, len(word_ids) + 1)

    def generate(length):
        ids = rng.choice(word_ids, (len(rows), length), p=frequencies / frequencies.sum())
        return PaddedTexts(torch.from_numpy(ids).int(), torch.full((len(rows),), length))

    texts = (generate(length) for length in (recipe.lengths.query, recipe.lengths.premise))
    pairs = TrainingPairs(*texts, np.roll(rows, 1))
    task = PairwiseTask(pairs, NO_QUERIES, recipe, CPU)

    def train(network, optimiser):
        for batch in rows.reshape(steps, -1):
            take_step(network, optimiser, task, batch, training.micro_batch_size)

    network = instantiate(recipe, {"vocabulary": vocabulary_size})  # with random word vectors
    dense_network = deepcopy(network)
    ours = partial(train, network, _build_optimiser(network, recipe))
    adam = torch.optim.Adam(dense_network.parameters(), training.learning_rate)
    baseline = partial(train, dense_network, adam)
    title = f"{name}: training steps, vocabulary of {vocabulary_size:,} words, CPU"
    baseline_name = "torch.optim.Adam over all rows"
    return inputs.compare(title, baseline_name, "steps", steps, ours, baseline, target)


def _build_optimiser(network, recipe):
    """Make the gradients of the embeddings sparse, as `fit` does, and build the optimiser."""
    network.embedding.sparse = True
    trainable = TrainableNetwork(RankerCheckpoint, network, None, None, {})
    return trainable.build_optimiser(recipe.training.learning_rate, recipe.encoder.learning_rate)
