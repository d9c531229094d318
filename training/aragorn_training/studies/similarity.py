"""Compare similarities by which negatives are sampled (Entezari 2020, section 3.2.5)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rapidfuzz import fuzz, process
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import normalize

from aragorn.errors import InputError
from aragorn.io.collection import select_collection
from aragorn.io.touche import find_corpus_files, read_documents
from aragorn.options import option
from aragorn.text.normalisation import normalise
from aragorn.text.tokenisers import FIRST_TERM_ID
from aragorn_training.data.word_vectors import get_default_folder_name, load_vectors
from aragorn_training.options import InputOptions, SeedOptions, StudyOptions

FILE = "conclusion_similarity.csv"
FIRST_COLUMNS = ("term", "similarity", "conclusions")
DIGITS = 4
MIN_CONCLUSIONS = 2  # with the term, to form a pair


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions, SeedOptions, InputOptions):
    """Options of the study; the seed is that of the sample of conclusions without the term."""

    terms: tuple[str, ...] = option(
        ("abortion",),
        "--term",
        metavar="TERM",
        help="term whose conclusions are related, as in Entezari 2020; repeatable",
    )


def run(options: Options) -> pd.DataFrame:
    """Measure how well similarities separate pairs of conclusions with a common term from pairs of
    which one lacks the term.

    Returns:
        One row per term and similarity: `term similarity conclusions`; the mean similarities of
        pairs with the term (`related`) and of pairs of which one has it (`unrelated`); and `auc`,
        the probability that the former is the more similar one.

    Raises:
        InputError: If fewer than two conclusions, or all, contain a term, or if word vectors are
            missing.
    """
    vectors_dir = options.work_dir / get_default_folder_name(None)
    documents = read_documents(find_corpus_files(*options.inputs))
    conclusions = sorted(
        {normalise(text) for text in select_collection(documents)["conclusion"].unique()}
    )
    features = {
        "TF-IDF": TfidfVectorizer(token_pattern=r"\S+").fit_transform(conclusions),
        "averaged word vectors": normalize(_average_vectors(conclusions, vectors_dir)),
    }
    rows = []
    for term in options.terms:
        has_term = np.array([term in text.split() for text in conclusions])
        related = np.flatnonzero(has_term)
        without_term = np.flatnonzero(~has_term)
        if not MIN_CONCLUSIONS <= len(related) <= len(without_term):
            raise InputError(
                f"{term!r}: in {len(related)} of {len(conclusions)} conclusions; choose another "
                "term"
            )
        unrelated = np.random.default_rng(options.seed).choice(
            without_term, size=len(related), replace=False
        )
        similarities = _compute_similarities(conclusions, features, related, unrelated)
        upper = np.triu_indices(len(related), 1)
        for name, matrix in similarities.items():
            same = matrix[:, : len(related)][upper]
            different = matrix[:, len(related) :].ravel()
            labels = np.repeat([1, 0], [len(same), len(different)])
            auc = roc_auc_score(labels, np.r_[same, different])
            rows.append((term, name, len(related), same.mean(), different.mean(), auc))
    columns = ["term", "similarity", "conclusions", "related", "unrelated", "auc"]
    return pd.DataFrame(rows, columns=columns)


def _compute_similarities(
    conclusions: Sequence[str],
    features: Mapping[str, Any],
    related: np.ndarray,
    unrelated: np.ndarray,
) -> dict[str, np.ndarray]:
    """Return matrices (related, related and unrelated) of similarities of conclusions by name;
    `features` are unit vectors (conclusions, dimensions), dense or sparse."""
    compared = np.r_[related, unrelated]
    texts = [conclusions[index] for index in compared]
    similarities = {
        "Levenshtein": process.cdist(texts[: len(related)], texts, scorer=fuzz.ratio) / 100
    }
    for name, matrix in features.items():
        product = matrix[related] @ matrix[compared].T
        similarities[name] = product if isinstance(product, np.ndarray) else product.toarray()
    return similarities


def _average_vectors(texts: Sequence[str], vectors_dir: Path) -> np.ndarray:
    """Average the vectors (texts, dimensions) of each text's known words; 0 without any."""
    vocabulary, vectors = load_vectors(vectors_dir)
    averages = np.zeros((len(texts), vectors.shape[1]))
    for row, text in enumerate(texts):
        rows = np.array(vocabulary.get_ids(text.split()), dtype=np.int64) - FIRST_TERM_ID
        if (rows >= 0).any():
            averages[row] = vectors[rows[rows >= 0]].mean(axis=0)
    return averages
