"""Pre-train a tagger's layers as a bidirectional language model on the corpus."""

from collections import Counter
from collections.abc import Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow.parquet as pq
import torch
from torch import Tensor

from aragorn.bounds import PositiveInt
from aragorn.errors import InputError
from aragorn.inference.device import batch_by_length
from aragorn.text.surface_tokens import SurfacePassage, SurfaceTokeniser
from aragorn.text.tokenisers import UNKNOWN_ID
from aragorn_training.data.corpora import format_credit
from aragorn_training.data.split import hold_out
from aragorn_training.data.word_vectors import VectorMethod, get_premise_table
from aragorn_training.data.work_directory import read_prepared_manifest
from aragorn_training.fitting.initialisation import (
    copy_word_vectors,
    instantiate,
    load_recipe_vectors,
)
from aragorn_training.fitting.language_model import LanguageModel, LanguageModelCheckpoint
from aragorn_training.fitting.recipe import BaseRecipe, Recipe, TaskSpec
from aragorn_training.fitting.task import CurveSpec, Task, TrainableNetwork, check_weights
from aragorn_training.fitting.validation import use_evaluation_mode

HOLD_OUT_ONE_IN = 100  # one in a hundred premises is held out
MAX_VALIDATION_PREMISES = 150
# passages per batch; small, as each word is compared with the whole vocabulary
VALIDATION_BATCH_SIZE = 8


class LanguageModelSpec(TaskSpec, frozen=True):
    """Settings of pre-training as a language model; an example is a group of passages."""

    version: ClassVar[int] = 1

    curve: ClassVar = CurveSpec(
        "negative log-likelihood per word",
        ("ahead", "back", "both"),
        "both",
        "% of words predicted correctly",
        "passages",
    )
    supported_networks: ClassVar = ("targer",)
    vectors: VectorMethod = "word2vec"  # initial word vectors
    max_passages: PositiveInt = 30_000  # maximum number of training passages
    passages_per_example: PositiveInt = 16  # passages of similar length per example
    negative_samples: PositiveInt = 1_000  # sampled-softmax negatives

    @property
    def surface_vector_method(self) -> VectorMethod:
        """Method of the surface-token vectors."""
        return self.vectors

    def resolve_network_class(self, recipe: BaseRecipe) -> type[LanguageModel]:
        """Return LanguageModel, which is trained in place of the recipe's tagger."""
        return LanguageModel

    def build_network(
        self, recipe: Recipe, vectors_dir: Path, checkpoints_dir: Path
    ) -> TrainableNetwork:
        """Build a language model with the word vectors as input and output vectors."""
        vocabulary, word_table, origin = load_recipe_vectors(recipe, vectors_dir)
        model = instantiate(recipe, {"vocabulary": len(vocabulary), "tags": ()})
        assert isinstance(model, LanguageModel)
        copy_word_vectors(model, word_table)
        weights = model.state_dict()
        weights["output_embedding.weight"].copy_(weights["embedding.weight"])
        tokeniser = SurfaceTokeniser(vocabulary, model.config.longest)
        return TrainableNetwork(LanguageModelCheckpoint, model, tokeniser, None, origin)

    def build_task(
        self, recipe: Recipe, trainee: TrainableNetwork, work_dir: Path, device: str
    ) -> Task[Any]:
        """Load the training premises, hold out some of them and split all into passages."""
        manifest = read_prepared_manifest(work_dir)
        table = get_premise_table(self.vectors)
        premises = pq.read_table(work_dir / table, columns=["premise"])["premise"]
        validation_size = min(MAX_VALIDATION_PREMISES, len(premises) // HOLD_OUT_ONE_IN)
        held_out_rows, remaining_rows = hold_out(len(premises), validation_size, recipe.seed)
        validation = [
            text for row in held_out_rows for text in trainee.tokeniser.split(premises[row].as_py())
        ]
        passages = (
            passage
            for row in remaining_rows
            for passage in trainee.tokeniser.split(premises[row].as_py())
        )
        training = [*islice(passages, self.max_passages)]
        size = trainee.network.get_vocabulary_size()
        task = LanguageModelTask(training, validation, self, size)
        task.data_description = f"{format_credit(manifest.inputs)}, unlabelled"
        task.training_data = manifest.inputs
        task.file_hashes = {table: manifest.files[table].xxh3}
        return task


class LanguageModelTask(Task[LanguageModel]):
    """Training passages for prediction of next and previous words, and held-out passages."""

    metrics_description = (
        "Percent of the words of held-out premises that are predicted from the words before (or "
        "after) them."
    )

    def __init__(
        self,
        training: Sequence[SurfacePassage],
        validation: Sequence[SurfacePassage],
        spec: LanguageModelSpec,
        vocabulary_size: int,
    ) -> None:
        if not training or not validation:
            cause = f"{len(training)} training and {len(validation)} validation passages"
            raise InputError(f"{cause}; both must be at least 1; use a larger corpus")
        self._training = training
        self._validation = validation
        self._negative_samples = spec.negative_samples
        self._groups = batch_by_length(
            [len(passage) for passage in training], spec.passages_per_example
        )
        self.train_size = len(self._groups)
        self.validation_size = len(validation)
        self._frequencies = np.zeros(vocabulary_size)
        for passage in training:
            np.add.at(self._frequencies, passage.token_ids, 1)
        self._frequencies[: UNKNOWN_ID + 1] = 0
        weights = torch.from_numpy(self._frequencies**0.75)  # word2vec's sampling distribution
        self._sampling_distribution = (weights / weights.sum()).float()
        self._log_expected_counts = (self._sampling_distribution * spec.negative_samples).log()

    def compute_loss(
        self, network: LanguageModel, micro_batch: np.ndarray, batch: np.ndarray
    ) -> Tensor:
        """Return the micro-batch's contribution to the mean loss over groups and directions."""
        device = network.output_embedding.weight.device
        distribution = self._sampling_distribution.to(device)
        log_expected_counts = self._log_expected_counts.to(device)
        losses = []
        for group in micro_batch:
            sample = torch.multinomial(distribution, self._negative_samples, replacement=True)
            passages = [self._training[row] for row in self._groups[group]]
            losses += [
                network.compute_softmax_loss(vectors, targets, sample, log_expected_counts)
                for vectors, targets in network.predict(passages)
                if len(targets)
            ]
        if not losses:
            return network.output_embedding.weight.sum() * 0
        return torch.stack(losses).sum() / (2 * len(batch))

    def measure_baselines(self) -> dict[str, dict[str, float]]:
        """Measure the accuracy of always predicting the most frequent word."""
        most_frequent = int(self._frequencies.argmax())
        tokens = chain.from_iterable(passage.token_ids for passage in self._validation)
        counts = Counter(token for token in tokens if token > UNKNOWN_ID)
        accuracy = _compute_percent(counts[most_frequent], counts.total())
        return {"most frequent word": {"both": accuracy}}

    def validate(self, network: LanguageModel, step: int) -> dict[str, float]:
        """Measure the accuracy of predicting next (`ahead`) and previous words (`back`)."""
        check_weights(network, step)
        correct = np.zeros(2)
        total = np.zeros(2)
        lengths = [len(passage) for passage in self._validation]
        with use_evaluation_mode(network), torch.inference_mode():
            for rows in batch_by_length(lengths, VALIDATION_BATCH_SIZE):
                passages = [self._validation[row] for row in rows]
                for direction, (vectors, targets) in enumerate(network.predict(passages)):
                    is_correct = network.score_words(vectors).argmax(1) == targets
                    correct[direction] += is_correct.sum().item()
                    total[direction] += len(targets)
        ahead, back = map(_compute_percent, correct, total)
        return {"ahead": ahead, "back": back, "both": round((ahead + back) / 2, 2)}


def _compute_percent(part: float, total: float) -> float:
    # a run's state cannot hold NumPy numbers
    return round(100 * float(part) / max(1.0, float(total)), 2)
