"""Train on pairs of positive and negative premises (hinge loss); MAP@20 selects the checkpoint."""

from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from aragorn.errors import InputError, UsageError
from aragorn.inference.pretrained import PretrainedEncoder
from aragorn.models.network import LatentRanker, Ranker, SiameseRanker
from aragorn.storage.recorded_files import MANIFEST, read_record
from aragorn_training.data.corpora import format_credit
from aragorn_training.data.distant_supervision import ALL_SETTINGS
from aragorn_training.data.pair_tables import (
    TrainingPairs,
    ValidationQueries,
    load_training_pairs,
    load_validation_queries,
)
from aragorn_training.data.split import RandomStream, create_generator
from aragorn_training.data.work_directory import get_hard_negatives_file, read_prepared_manifest
from aragorn_training.fitting.initialisation import TextNetworkSpec
from aragorn_training.fitting.recipe import BaseRecipe, Recipe
from aragorn_training.fitting.task import (
    CurveSpec,
    Task,
    TrainableNetwork,
    check_scores,
)
from aragorn_training.fitting.validation import (
    CandidateScorer,
    build_encoder_scorer,
    build_ranker_scorer,
    measure_latent_sparsity,
    score_bm25,
    validate_candidates,
)
from aragorn_training.tasks import find_task_tables

MaskedIds = tuple[Tensor, Tensor]  # ids (B, L) and mask (B, L)
HardNegatives = Literal["dirichlet"]

LISTWISE_ONLY = ("tfr_bert",)  # rankers that cannot be trained on pairs
# baselines
BM25 = "BM25 over premises"
COSINE = "encoder cosine"


class PairwiseSpec(TextNetworkSpec, frozen=True):
    """Settings of training with a pairwise hinge loss."""

    version: ClassVar[int] = 1

    curve: ClassVar = CurveSpec(
        "pairwise hinge loss",
        ("MRR@20", "MAP@20", "nDCG@20"),
        "MAP@20",
        "%, 105 candidates per query",
        "queries",
    )
    validates_on_candidates: ClassVar = True
    # model that retrieves the negatives; None: premises of dissimilar conclusions
    hard_negatives: HardNegatives | None = None

    def to_provenance(self) -> dict[str, Any]:
        """Return the task's part of the provenance; {} by default, which needs no table."""
        return {} if self.hard_negatives is None else super().to_provenance()

    def validate_recipe(self, recipe: BaseRecipe) -> None:
        """Raise ValueError if the network is not a pairwise ranker."""
        network = self.resolve_network_class(recipe).get_name()
        if recipe.ranker is None or network in LISTWISE_ONLY:
            tables = "] or [".join(find_task_tables(network))
            raise ValueError(f"{network} cannot be trained on pairs; use [{tables}]")

    def build_task(
        self, recipe: Recipe, trainee: TrainableNetwork, work_dir: Path, device: str
    ) -> Task[Any]:
        """Load training pairs and validation queries."""
        return PairwiseTask.load(recipe, trainee, work_dir, device, self.hard_negatives)

    def check_prepared(self, work_dir: Path) -> None:
        """Raise InputError if the tables or hard negatives are missing."""
        _read_table_records(work_dir, self.hard_negatives)


class PairwiseTask(Task[Ranker]):
    """Training pairs and the validation queries of Entezari 2020."""

    def __init__(
        self,
        pairs: TrainingPairs,
        queries: ValidationQueries,
        recipe: Recipe,
        device: str,
        pretrained: PretrainedEncoder | None = None,
    ) -> None:
        self._pairs = pairs
        self._queries = queries
        self._recipe = recipe
        self._device = device
        self._baselines: dict[str, CandidateScorer] = {BM25: score_bm25}
        if pretrained:  # before the training: this draws random numbers, on which dropout depends
            self._baselines[COSINE] = build_encoder_scorer(pretrained, device)
        # by pool and rule, whose metrics are logged, too
        self.queries_to_log: dict[str, ValidationQueries] = {}
        self._training = recipe.training
        self.validation_settings = recipe.validation.names
        self.metrics_description = (
            f"Percent, on queries with 5 positives and 100 {recipe.validation.describe()}."
        )
        self._all_queries = self._selection_queries = np.arange(len(queries.candidates))
        if size := recipe.training.validation_queries:
            rng = create_generator(recipe.seed, RandomStream.VALIDATION_SAMPLE)
            self._selection_queries = np.sort(rng.permutation(self._all_queries)[:size])
        self.train_size = len(pairs.negatives)
        self.validation_size = len(self._all_queries)

    @classmethod
    def load(
        cls,
        recipe: Recipe,
        trainee: TrainableNetwork,
        work_dir: Path,
        device: str,
        hard_negatives: HardNegatives | None = None,
    ) -> Self:
        """Load the data of `prepare pairs`; raise InputError if a file is missing."""
        training_data, file_hashes = _read_table_records(work_dir, hard_negatives)
        source = (work_dir, trainee.network.token_unit, trainee.tokeniser)
        pairs = load_training_pairs(*source, hard_negatives)
        queries = load_validation_queries(*source, recipe.validation)
        task = cls(pairs, queries, recipe, device, trainee.pretrained)
        task.data_description = f"{format_credit(training_data)}, labelled by distant supervision"
        task.training_data = training_data
        task.file_hashes = file_hashes
        for settings in ALL_SETTINGS if recipe.validation.log_all else ():
            name = f"{settings.pool}, {settings.rule}"
            task.queries_to_log[name] = load_validation_queries(*source, settings)
        return task

    def compute_loss(self, ranker: Ranker, micro_batch: np.ndarray, batch: np.ndarray) -> Tensor:
        """Return the micro-batch's contribution to the batch loss."""
        queries = self._pairs.queries
        premises = self._pairs.premises
        query, positive = (texts.batch(micro_batch, self._device) for texts in (queries, premises))
        negative = premises.batch(self._pairs.negatives[micro_batch], self._device)
        weights = (self._training.margin, self._training.l1_weight)
        loss = pairwise_loss(ranker, query, positive, negative, *weights)
        return loss * (len(micro_batch) / len(batch))

    def measure_baselines(self) -> dict[str, dict[str, float]]:
        """Measure BM25 and, for BERT networks, the encoder's cosine before fine-tuning."""
        return {
            name: validate_candidates(self._queries, self._all_queries, scorer)
            for name, scorer in self._baselines.items()
        }

    def validate(self, ranker: Ranker, step: int) -> dict[str, float]:
        """Measure MRR, MAP and nDCG at 20 on the queries that select the checkpoint."""
        return self._validate(ranker, step, self._selection_queries)

    def validate_final(self, ranker: Ranker, step: int) -> dict[str, float]:
        """Measure the metrics of `validate` on all validation queries."""
        return self._validate(ranker, step, self._all_queries)

    def _validate(self, ranker: Ranker, step: int, query_rows: np.ndarray) -> dict[str, float]:
        scorer = build_ranker_scorer(ranker, self._device)

        def score(queries: ValidationQueries, query_rows: np.ndarray) -> np.ndarray:
            scores = scorer(queries, query_rows)
            check_scores(scores, step)
            return scores

        metrics = validate_candidates(self._queries, query_rows, score)
        for name, queries in self.queries_to_log.items():
            other_metrics = validate_candidates(queries, query_rows, score)
            metrics |= {f"{measure} ({name})": value for measure, value in other_metrics.items()}
        if isinstance(ranker, LatentRanker):
            metrics |= measure_latent_sparsity(ranker, self._queries, query_rows, self._device)
        return metrics


def pairwise_loss(
    ranker: Ranker,
    query: MaskedIds,
    positive: MaskedIds,
    negative: MaskedIds,
    margin: float,
    l1_weight: float,
) -> Tensor:
    """Return the mean hinge loss of a batch, plus `l1_weight` (0 without latent vectors) times the
    L1 norm of the latent vectors; siamese networks encode the query once."""
    if l1_weight and not isinstance(ranker, LatentRanker):
        raise UsageError(
            f"{ranker.get_name()} has no latent vectors; remove training.l1_weight from the recipe"
        )
    if not isinstance(ranker, SiameseRanker):
        return hinge_loss(ranker(*query, *positive), ranker(*query, *negative), margin)
    query_vectors = ranker.encode_batch(*query)
    # positives, negatives
    premise_vectors = ranker.encode_batch(*map(_concat_padded, positive, negative)).chunk(2)
    positive_scores, negative_scores = (
        ranker.score_vectors(query_vectors, vectors) for vectors in premise_vectors
    )
    loss = hinge_loss(positive_scores, negative_scores, margin)
    return loss + l1_weight * l1_norm(query_vectors, *premise_vectors) if l1_weight else loss


def hinge_loss(positive: Tensor, negative: Tensor, margin: float) -> Tensor:
    """Return the mean of max(0, margin - positive + negative) (Entezari 2020, eq. 3.5, 3.18)."""
    return functional.relu(margin - positive + negative).mean()


def l1_norm(*vectors: Tensor) -> Tensor:
    """Return the batch mean of the summed L1 norms of vectors (B, D) (Entezari 2020, eq. 3.20)."""
    return torch.cat(vectors, dim=1).abs().sum(1).mean()


def _concat_padded(*parts: Tensor) -> Tensor:
    """Concatenate batches (B, L) of different lengths, padded to the longest."""
    longest = max(part.shape[1] for part in parts)
    return torch.cat([functional.pad(part, (0, longest - part.shape[1])) for part in parts])


def _read_table_records(
    work_dir: Path, hard_negatives: str | None
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return inputs and hashes of tables and hard negatives; raise InputError if missing."""
    tables = read_prepared_manifest(work_dir)
    hashes = {name: file.xxh3 for name, file in tables.files.items()}
    if hard_negatives is None:
        return tables.inputs, hashes
    path = get_hard_negatives_file(work_dir, hard_negatives)
    manifest = read_record(path.parent / MANIFEST)
    if path.name not in manifest.files or not tables.inputs.items() <= manifest.inputs.items():
        cause = "built from other tables" if path.name in manifest.files else "missing"
        flags = f"--work-dir {work_dir} --hard-negatives {hard_negatives}"
        command = f"`aragorn-training prepare pairs -i INPUT {flags}`"
        raise InputError(f"{path}: {cause}; run {command}")
    return manifest.inputs, hashes | {path.name: manifest.files[path.name].xxh3}
