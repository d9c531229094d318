"""Validate networks and untrained scorers with every pool and rule of negatives.

Entezari 2020 (sections 3.2.3, 3.3, 4.2) does not say from which arguments the 100 negatives of a
validation query are drawn.
"""

import logging
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from aragorn.engine import choose_device, choose_precision
from aragorn.errors import UsageError, suggest
from aragorn.inference.checkpoint import load_checkpoint
from aragorn.inference.device import move_to_device
from aragorn.inference.pretrained import PretrainedEncoder
from aragorn.options import option
from aragorn.systems.catalogue import ENSEMBLE_MEMBERS
from aragorn.text.tokenisers import (
    InputUnit,
    MaxLengths,
    Tokeniser,
    Vocabulary,
    WordPieceTokeniser,
    WordTokeniser,
)
from aragorn_training.data.distant_supervision import ALL_SETTINGS
from aragorn_training.data.pair_tables import ValidationQueries, load_validation_queries
from aragorn_training.data.work_directory import iter_rows
from aragorn_training.fitting.recipe import EncoderSettings
from aragorn_training.fitting.validation import (
    CandidateScorer,
    build_encoder_scorer,
    build_ranker_scorer,
    score_bm25,
    validate_candidates,
)
from aragorn_training.options import CheckpointOptions, PrecisionOptions, StudyOptions

log = logging.getLogger(__name__)

ENCODER = "encoder, untrained"
BM25 = "BM25, untrained"
NEGATIVE_COUNT = "-times used as a training negative"
LENGTH = "text length"
SCORERS = (*ENSEMBLE_MEMBERS, ENCODER, BM25, NEGATIVE_COUNT, LENGTH)
ENCODER_LENGTHS = MaxLengths(20, 180)  # subwords; those of the BERT networks
# of the result file
FILE = "candidates.csv"
FIRST_COLUMNS = ("scorer", "pool", "rule")
DIGITS = 2
KEY = "scorer"
ORDER = SCORERS


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions, PrecisionOptions, CheckpointOptions):
    """Options of the study."""

    scorers: tuple[str, ...] = option(
        SCORERS,
        "--scorer",
        metavar="NAME",
        help="network, or other scorer of the table; repeatable (default: all)",
    )


def run(options: Options) -> pd.DataFrame:
    """Measure scorers on the validation queries with every pool and rule of negatives.

    Returns rows `scorer pool rule MRR@20 MAP@20 nDCG@20` in percent. Raises UsageError if a scorer
    is unknown.
    """
    for name in options.scorers:
        if name not in SCORERS:
            raise UsageError(f"unknown scorer {name!r}; {suggest(name, SCORERS)}")
    rows = []
    for name in options.scorers:
        score, unit, tokeniser = _build_scorer(name, options)
        for settings in ALL_SETTINGS:
            queries = load_validation_queries(options.work_dir, unit, tokeniser, settings)
            metrics = validate_candidates(queries, np.arange(len(queries.candidates)), score)
            kind = " ".join(settings.names.values())
            log.info("%s, %s: MAP@20 %.2f", name, kind, metrics["MAP@20"])
            rows.append({"scorer": name, **settings.names, **metrics})
    return pd.DataFrame(rows)


def _build_scorer(name: str, options: Options) -> tuple[CandidateScorer, InputUnit, Tokeniser]:
    """Build a scorer; return it with the unit and the tokeniser of the texts that it reads."""
    device = choose_device(options.device)
    if name in ENSEMBLE_MEMBERS:
        checkpoint = load_checkpoint(options.checkpoint_dir / name)
        precision = choose_precision(options.precision, device)
        ranker = move_to_device(checkpoint.network, device, precision)
        return build_ranker_scorer(ranker, device), ranker.token_unit, checkpoint.tokeniser
    if name == ENCODER:
        pretrained = PretrainedEncoder(EncoderSettings().name)
        tokeniser = WordPieceTokeniser.load(pretrained.folder, ENCODER_LENGTHS)
        return build_encoder_scorer(pretrained, device), "pieces", tokeniser
    scorers = {BM25: score_bm25, LENGTH: _score_length}
    score = scorers.get(name) or _build_negative_count_scorer(options.work_dir)
    return score, "words", WordTokeniser(Vocabulary(()), MaxLengths())


def _score_length(queries: ValidationQueries, query_rows: np.ndarray) -> np.ndarray:
    """Score candidates by their number of words."""
    lengths = np.array([len(words) for words in queries.premise_words], dtype=float)
    return np.asarray(lengths[queries.candidates[query_rows]])


def _build_negative_count_scorer(work_dir: Path) -> CandidateScorer:
    """Return a scorer that ranks premises by how rarely they are negatives in training."""
    rows = iter_rows(work_dir / "train.words.parquet", ["negatives"], work_dir)
    counts = Counter(row["negatives"][0] for row in rows)

    def score(queries: ValidationQueries, query_rows: np.ndarray) -> np.ndarray:
        scores = -np.array([counts[docno] for docno in queries.docnos], dtype=float)
        return np.asarray(scores[queries.candidates[query_rows]])

    return score
