"""Train Augmented SBERT students (Thakur et al. 2021) on gold, silver or both pairs of args.me.

Pairs are a conclusion and a premise each. As in the ranker's input, URLs are removed, and
conclusions are truncated to the query length in subwords.
"""

import logging
import time
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pandas as pd
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator
from sentence_transformers.util import cos_sim
from torch.nn import Module

from aragorn.cache import Parts
from aragorn.index.weighting import BM25
from aragorn.inference.pretrained import PretrainedEncoder
from aragorn.systems.lexical import IndexSettings
from aragorn.text.normalisation import remove_urls
from aragorn.text.tokenisers import WordPieceTokeniser
from aragorn.versions import describe_versions
from aragorn_training.data.distant_supervision import CandidateSettings, retrieve_for_conclusions
from aragorn_training.data.pair_tables import ValidationQueries, load_validation_queries
from aragorn_training.data.split import TRAIN, VALIDATION
from aragorn_training.data.work_directory import hash_json, iter_rows, read_prepared_manifest
from aragorn_training.fitting.initialisation import read_encoder_config
from aragorn_training.fitting.recipe import Recipe
from aragorn_training.fitting.validation import validate_candidates
from aragorn_training.sbert import networks
from aragorn_training.sbert.networks import (
    Loss,
    Network,
    TrainingConfig,
    TrainingSetup,
    predict_scores,
)

VERSION = 1  # of students trained with the same settings
COMPUTES_WITH = (
    "aragorn.index.weighting",
    "aragorn.systems.lexical",
    "aragorn.text.normalisation",
    "aragorn.text.tokenisers",
    "aragorn_training.data.distant_supervision",
    "aragorn_training.fitting.validation",
    "datasets",
    "sentence-transformers",
    "torch",
    "transformers",
)

log = logging.getLogger(__name__)

GOLD = "gold"
SILVER = "silver"
BOTH = "gold and silver"
STUDENT_STREAMS = (GOLD, SILVER)  # RNG stream index = position; append only
TEACHER_LEARNING_RATE = 1e-4


class TrainingVariant(NamedTuple):
    """Loss and pairs that a network is trained on; without a loss, the initial encoder."""

    loss: Loss | None = None
    pairs: str = ""  # GOLD, SILVER or BOTH


UNTRAINED = TrainingVariant()
TEACHER = TrainingVariant("cross_entropy", GOLD)


class StudentResult(msgspec.Struct):
    """Training size, validation metrics and time of a network."""

    n_pairs: int  # training pairs
    map_at_20: float  # MAP@20 (percent) over the candidates of each validation conclusion
    retrieval: dict[str, float]  # retrieval metrics over all premises; empty for a cross-encoder
    seconds: float  # time of training and evaluation


class StudentTraining:
    """Training of a network per TrainingVariant, on demand and cached in the work directory."""

    def __init__(self, work_dir: Path, recipe: Recipe, device: str) -> None:
        """Load the arguments of `prepare pairs`; networks and silver pairs come on demand. The task
        of the recipe is an AugmentedSBERTSpec."""
        pretrained = PretrainedEncoder(recipe.encoder.name)
        tokeniser = WordPieceTokeniser.load(pretrained.folder, recipe.lengths)
        self._train_arguments, validation = (
            load_arguments(work_dir, split, tokeniser) for split in (TRAIN, VALIDATION)
        )
        self._validator = ConclusionValidator(
            self._train_arguments, validation, work_dir, tokeniser, recipe.validation
        )
        self._recipe = recipe
        pairs: Any = recipe.task
        self._settings = pairs
        self._encoder = pretrained.folder
        self._device = device
        self._teacher = (
            PretrainedEncoder(pairs.teacher_encoder) if pairs.teacher_encoder else pretrained
        )
        sizes = [pairs.gold_arguments, pairs.bm25_depth, pairs.max_silver_pairs]
        pair_settings = [*sizes, self._teacher.sha256, pairs.train_teacher]
        network_settings = [recipe.seed, recipe.encoder, recipe.lengths, recipe.training]
        settings = msgspec.to_builtins([*network_settings, recipe.validation, pair_settings])
        table_hashes = {
            name: file.xxh3 for name, file in read_prepared_manifest(work_dir).files.items()
        }
        versions = describe_versions(__name__, type(recipe.task))
        # hash of settings, data, encoders and versions
        self.cache_key = hash_json([settings, pretrained.sha256, versions, device, table_hashes])
        self._cache = Parts(work_dir / "students" / self.cache_key)

    def measure(self, variant: TrainingVariant) -> StudentResult:
        """Load or train the network of a variant and measure it on the validation conclusions."""
        start = time.monotonic()
        training = self._build_training_config(variant)
        model = self.load_or_train(variant)
        n_pairs = len(self._build_setup(variant).pairs) if variant.loss else 0
        retrieval = {}
        if isinstance(model, SentenceTransformer):
            retrieval = self._validator.measure_retrieval(model, training.bfloat16)
        map_at_20 = self._validator.measure_map_at_20(model, training.bfloat16)
        measures = {"MAP@20": map_at_20, **retrieval}
        values = ", ".join(f"{name} {value:.2f}" for name, value in measures.items())
        log.info("%s: %s", _format_file_stem(variant), values)
        return StudentResult(n_pairs, map_at_20, retrieval, round(time.monotonic() - start, 1))

    def load_or_train(self, variant: TrainingVariant) -> Network:
        """Load the network of a variant, or train it if its weights are not cached."""
        encoder = self._get_initial_encoder(variant)
        training = self._build_training_config(variant)
        model = networks.build_network(encoder, training, self._recipe.seed, self._device)

        def train() -> bytes:
            setup = self._build_setup(variant)
            return networks.serialise_trainable_state(
                setup.train(self._recipe.seed, self._cache.path / "scratch")
            )

        if variant.loss and (variant != TEACHER or self._settings.train_teacher):
            networks.load_trainable_state(
                model, self._cache.get_or_build(f"{_format_file_stem(variant)}.safetensors", train)
            )
        return model

    def _build_setup(self, variant: TrainingVariant) -> TrainingSetup:
        pairs = [self.gold] if variant.pairs in (GOLD, BOTH) else []
        pairs += [self.silver] if variant.pairs in (SILVER, BOTH) else []
        encoder = self._get_initial_encoder(variant)
        training = self._build_training_config(variant)
        return TrainingSetup(encoder, training, pd.concat(pairs, ignore_index=True), self._device)

    def _get_initial_encoder(self, variant: TrainingVariant) -> Path:
        return self._teacher.folder if variant == TEACHER else self._encoder

    def _build_training_config(self, variant: TrainingVariant) -> TrainingConfig:
        """Return a variant's settings, without attention dropout, which is slow on long texts."""
        lengths = self._recipe.lengths
        encoder = self._recipe.encoder
        training = self._recipe.training
        is_teacher = variant == TEACHER
        return TrainingConfig(
            variant.loss or "cosine",
            TEACHER_LEARNING_RATE if is_teacher else encoder.learning_rate,
            # with [CLS] and [SEP]
            max_length=lengths.premise + (lengths.query + 3 if is_teacher else 2),
            batch_size=training.batch_size,
            epochs=training.epochs,
            frozen_blocks=read_encoder_config(self._teacher)["bert"]["num_hidden_layers"] // 2
            if is_teacher
            else encoder.frozen_layers,
            attention_dropout=False,
            bfloat16=encoder.bfloat16,
        )

    @cached_property
    def gold(self) -> pd.DataFrame:
        """Gold pairs `first second label`, labelled by distant supervision."""
        return sample_gold_pairs(
            self._train_arguments, self._settings.gold_arguments, self._create_rng(GOLD)
        )

    @cached_property
    def silver(self) -> pd.DataFrame:
        """Silver pairs `first second label`, labelled by the teacher, trained if not cached."""
        pairs = retrieve_unlabelled_pairs(
            self._train_arguments, self.gold, self._settings.bm25_depth
        )
        selected_rows = subsample(
            np.arange(len(pairs)), self._settings.max_silver_pairs, self._create_rng(SILVER)
        )
        pairs = pairs.iloc[selected_rows].reset_index(drop=True)

        def label_pairs() -> np.ndarray:
            teacher = self.load_or_train(TEACHER)
            log.info("teacher: labelling %d silver pairs", len(pairs))
            return networks.predict_labels(teacher, pairs, self._build_training_config(TEACHER))

        return pairs.assign(label=self._cache.get_or_build_array("silver", label_pairs))

    def _create_rng(self, stream: str) -> np.random.Generator:
        return np.random.default_rng([self._recipe.seed, STUDENT_STREAMS.index(stream)])


def load_or_train_student(ranker: Module, recipe: Recipe, work_dir: Path, device: str) -> None:
    """Load the weights of a recipe's student into `ranker`; train it if they are not cached."""
    settings: Any = recipe.task
    variant = TrainingVariant(settings.loss, settings.pairs)
    student = StudentTraining(work_dir, recipe, device).load_or_train(variant)
    encoder = networks.get_encoder(student)
    weights = {f"encoder.bert.{name}": value for name, value in encoder.state_dict().items()}
    state = ranker.state_dict()  # it has no pooler
    ranker.load_state_dict({name: weights.get(name, value) for name, value in state.items()})


def _format_file_stem(variant: TrainingVariant) -> str:
    return f"{variant.loss}-{variant.pairs.replace(' ', '-')}" if variant.loss else "untrained"


def load_arguments(work_dir: Path, split: str, tokeniser: WordPieceTokeniser) -> pd.DataFrame:
    """Load a split as `docno conclusion normalised_conclusion premise negatives`."""
    table = pd.DataFrame(iter_rows(work_dir / f"{split}.pieces.parquet", None, work_dir))
    truncated_conclusions = {
        text: tokeniser.truncate(remove_urls(text), tokeniser.lengths.query)
        for text in table["conclusion"].unique()
    }
    return table.assign(conclusion=table["conclusion"].map(truncated_conclusions))


def sample_gold_pairs(train: pd.DataFrame, n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Sample at most `n` arguments; return pairs `first second label` of each conclusion with its
    premise (label 1), and then with its first negative (label 0)."""
    sample = train.iloc[subsample(np.arange(len(train)), n, rng)]
    negatives = sample["negatives"].str[0].map(train.set_index("docno")["premise"])
    columns = {"conclusion": "first", "premise": "second"}
    positives = sample[[*columns]].rename(columns=columns).assign(label=1.0)
    return pd.concat([positives, positives.assign(second=negatives, label=0.0)], ignore_index=True)


def retrieve_unlabelled_pairs(
    train: pd.DataFrame, labelled_pairs: pd.DataFrame, k: int
) -> pd.DataFrame:
    """Pair each conclusion with the top `k` premises of other conclusions by BM25, without
    `labelled_pairs`; return `first second`."""
    groups = retrieve_for_conclusions(train, IndexSettings(fields="premise"), BM25(), k)
    rows = [
        (train["conclusion"].iloc[group[0]], train["premise"].iloc[row])
        for group, hits in groups
        for row in hits
    ]
    pairs = pd.DataFrame(rows, columns=["first", "second"]).drop_duplicates(ignore_index=True)
    labelled_index = pd.MultiIndex.from_frame(labelled_pairs[["first", "second"]])
    return pairs[~pd.MultiIndex.from_frame(pairs).isin(labelled_index)].reset_index(drop=True)


def subsample(items: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Sample at most `n` items uniformly without replacement, in their original order."""
    return items[np.sort(rng.permutation(len(items))[:n])]


BATCH_SIZE = 8  # premises per batch; small batches fit the CPU cache
# sentence-transformers' metric and cut-off by result name
LIBRARY_METRICS = {
    "recall@100": ("recall@k", 100),
    "MRR@10": ("mrr@k", 10),
    "nDCG@10": ("ndcg@k", 10),
}


class ConclusionValidator:
    """Validator on the validation conclusions, which have five relevant premises each."""

    def __init__(
        self,
        train: pd.DataFrame,
        validation: pd.DataFrame,
        work_dir: Path,
        tokeniser: WordPieceTokeniser,
        settings: CandidateSettings,
    ) -> None:
        """Build the validator from arguments that `load_arguments` has loaded."""
        by_conclusion = validation.groupby("normalised_conclusion", sort=False)
        self._conclusions = by_conclusion["conclusion"].first().tolist()
        relevant_docnos = by_conclusion["docno"].agg(set).tolist()
        self._queries = load_validation_queries(work_dir, "pieces", tokeniser, settings)
        collection = pd.concat([train, validation])
        self._collection = dict(zip(collection["docno"], collection["premise"], strict=True))
        self._premises = np.array(
            [self._collection[docno] for docno in self._queries.docnos], dtype=object
        )
        qids = [str(index) for index in range(len(relevant_docnos))]
        self._evaluator = InformationRetrievalEvaluator(
            dict(zip(qids, self._conclusions, strict=True)),
            self._collection,
            dict(zip(qids, relevant_docnos, strict=True)),
            mrr_at_k=[10],
            ndcg_at_k=[10],
            accuracy_at_k=[1],
            precision_recall_at_k=[100],
            map_at_k=[100],
            batch_size=BATCH_SIZE,
            write_csv=False,
            score_functions={"cosine": cos_sim},
        )

    def measure_retrieval(self, model: SentenceTransformer, bfloat16: bool) -> dict[str, float]:
        """Return recall@100, MRR@10 and nDCG@10 (percent) over all premises."""
        with torch.autocast(model.device.type, torch.bfloat16, enabled=bfloat16):
            texts = list(self._collection.values())
            vectors = model.encode(
                texts, batch_size=BATCH_SIZE, convert_to_tensor=True, show_progress_bar=False
            )
        metrics: Any = self._evaluator.compute_all_metrics(model, corpus_embeddings=vectors.float())
        return {
            name: 100 * float(metrics["cosine"][measure][k])
            for name, (measure, k) in LIBRARY_METRICS.items()
        }

    def measure_map_at_20(self, model: Network, bfloat16: bool) -> float:
        """Return MAP@20 (percent) over each conclusion's candidates."""

        def score(queries: ValidationQueries, rows: np.ndarray) -> np.ndarray:
            candidates = queries.candidates[rows]
            first = np.repeat(np.array(self._conclusions, dtype=object)[rows], candidates.shape[1])
            pairs = pd.DataFrame({"first": first, "second": self._premises[candidates.ravel()]})
            with torch.autocast(model.device.type, torch.bfloat16, enabled=bfloat16):
                return predict_scores(model, pairs).reshape(candidates.shape)

        rows = np.arange(len(self._conclusions))
        return validate_candidates(self._queries, rows, score)["MAP@20"]
