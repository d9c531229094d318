"""Pre-train a tagger's layers as a bidirectional language model on the corpus.

Dai, Le: Semi-supervised Sequence Learning. NIPS 2015. Peters et al.: Semi-supervised sequence
tagging with bidirectional language models. ACL 2017.

Shapes as in the TARGER network; V vocabulary rows, including those for padding and unknown words; M
predicted words.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, ClassVar, Self

import msgspec
import numpy as np
import pyarrow.parquet as pq
import torch
from torch import Tensor, nn
from torch.nn import functional

from aragorn.bounds import PositiveInt
from aragorn.errors import CheckpointError, InputError, abbreviate
from aragorn.inference.checkpoint import (
    PROBE_TEXTS,
    PROBE_TEXTS_CHANGED,
    TOLERANCE,
    NetworkCheckpoint,
    build_from_config,
)
from aragorn.inference.device import batch_by_length
from aragorn.models.taggers.targer import TARGER
from aragorn.text.surface_tokens import SurfacePassage, SurfaceTokeniser
from aragorn.text.tokenisers import FIRST_TERM_ID, UNKNOWN_ID
from aragorn_training.data.corpora import format_credit
from aragorn_training.data.split import hold_out
from aragorn_training.data.word_vectors import VectorMethod, get_premise_table
from aragorn_training.data.work_directory import read_prepared_manifest
from aragorn_training.fitting.initialisation import (
    copy_word_vectors,
    instantiate,
    load_recipe_vectors,
)
from aragorn_training.fitting.recipe import BaseRecipe, Recipe, TaskSpec
from aragorn_training.fitting.task import CurveSpec, Task, TrainableNetwork, check_weights
from aragorn_training.fitting.validation import use_evaluation_mode

# copied into a tagger
TRANSFERRED_LAYERS = (
    "embedding.",
    "char_embedding.",
    "convolution.",
    "forward_rnn.",
    "backward_rnn.",
)


class LanguageModel(TARGER):
    """Language model of both directions on a tagger's layers, with shared output embeddings."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.predict_next, self.predict_previous = (
            nn.Linear(config.hidden, config.dimensions) for _ in range(2)
        )
        self.output_embedding = nn.Embedding(config.vocabulary, config.dimensions)
        self.output_bias = nn.Embedding(config.vocabulary, 1)
        nn.init.zeros_(self.output_bias.weight)

    def predict(self, passages: Sequence[SurfacePassage]) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield predicted vectors (M, E) and target ids (M,) per direction, forward first, of known
        words that have a context."""
        ids, letters, words, mask = self.collate(passages)
        forward, backward = self.encode(ids, letters, words, mask)
        token_ids = ids[words]  # (B, L)
        directions = (
            (self.predict_next, forward[:, :-1], token_ids[:, 1:]),
            (self.predict_previous, backward[:, 1:], token_ids[:, :-1]),
        )
        for project, states, targets in directions:
            is_known = mask[:, 1:] & (targets > UNKNOWN_ID)
            yield project(self.output_dropout(states[is_known])), targets[is_known]

    def compute_softmax_loss(
        self, vectors: Tensor, targets: Tensor, sample: Tensor, log_expected_counts: Tensor
    ) -> Tensor:
        """Return the mean negative log-likelihood of target ids (M,), M ≥ 1, a scalar, for
        predicted vectors (M, E), estimated by softmax over ids (N,) sampled with replacement.

        The logarithms (V,) of the words' expected counts in the sample correct for its distribution
        (Bengio and Senécal 2003).
        """
        # (M,)
        target_scores = (vectors * self.output_embedding(targets)).sum(1) + self.output_bias(
            targets
        ).squeeze(1)
        bias = self.output_bias(sample).squeeze(1)
        # (M, N)
        sample_scores = (
            vectors @ self.output_embedding(sample).T + bias - log_expected_counts[sample]
        )
        sample_scores = sample_scores.masked_fill(sample == targets[:, None], -torch.inf)
        return functional.softplus(sample_scores.logsumexp(1) - target_scores).mean()

    def score_words(self, vectors: Tensor) -> Tensor:
        """Return the scores (M, V) of all words for vectors (M, E); -inf for no known word."""
        scores = vectors @ self.output_embedding.weight.T + self.output_bias.weight.squeeze(1)
        scores[:, :FIRST_TERM_ID] = -torch.inf
        return scores


class _ProbeRow(msgspec.Struct):
    """A probe text, and the mean log-likelihoods of its passages per direction."""

    text: str
    log_likelihoods: list[float]

    def check_reproduced(self, file: Path, recomputed: Self) -> None:
        """Raise CheckpointError if the recomputed log-likelihoods differ."""
        if self.text != recomputed.text:
            raise CheckpointError(f"{file}: {PROBE_TEXTS_CHANGED}")
        actual, expected = (torch.tensor(row.log_likelihoods) for row in (recomputed, self))
        if actual.shape != expected.shape or not torch.allclose(
            actual, expected, rtol=TOLERANCE, atol=TOLERANCE
        ):
            raise CheckpointError(
                f"{file}: log-likelihoods of {abbreviate(self.text, 40)!r} are "
                f"{recomputed.log_likelihoods}, expected "
                f"{self.log_likelihoods}: the text processing or the network has changed; retrain "
                "the network"
            )


class LanguageModelCheckpoint(NetworkCheckpoint[LanguageModel, SurfaceTokeniser]):
    """A loaded checkpoint of a language model, with the tokeniser of its input texts."""

    name_key = "model"
    probe_type = _ProbeRow

    @staticmethod
    def find_network_class(name: str) -> type[LanguageModel]:
        return LanguageModel

    @classmethod
    def build(cls, directory: Path, config: Any) -> tuple[LanguageModel, SurfaceTokeniser]:
        model = build_from_config(LanguageModel, config["config"])
        return model, SurfaceTokeniser.load(directory, model.config)

    @staticmethod
    def run_probe(network: LanguageModel, tokeniser: SurfaceTokeniser) -> list[_ProbeRow]:
        """Compute the log-likelihoods of the probe texts, one passage at a time."""
        rows = []
        for text in PROBE_TEXTS:
            log_likelihoods = [
                network.score_words(vectors)
                .log_softmax(1)
                .gather(1, targets[:, None])
                .mean()
                .item()
                if len(targets)
                else 0.0
                for passage in tokeniser.split(text)
                for vectors, targets in network.predict([passage])
            ]
            rows.append(_ProbeRow(text, log_likelihoods))
        return rows


HOLD_OUT_ONE_IN = 100  # one in a hundred premises is held out
MAX_VALIDATION_PREMISES = 150
# passages per batch; small, as each word is compared with the whole vocabulary
VALIDATION_BATCH_SIZE = 8


class LanguageModelSpec(TaskSpec, frozen=True):
    """Settings of pre-training as a language model; an example is a group of passages."""

    version: ClassVar[int] = 1
    computes_with: ClassVar[tuple[str, ...]] = ("aragorn.text.surface_tokens",)

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
        forward, backward = map(_compute_percent, correct, total)
        return {"ahead": forward, "back": backward, "both": round((forward + backward) / 2, 2)}


def _compute_percent(part: float, total: float) -> float:
    # a run's state cannot hold NumPy numbers
    return round(100 * float(part) / max(1.0, float(total)), 2)
