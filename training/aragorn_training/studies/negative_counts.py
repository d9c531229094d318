"""Rank premises by how seldom they are negatives in training, by the size of the sample of the
least similar negatives.

A score without topic or text: what a network can reach that learns which premises are negatives
(Entezari 2020, sections 3.2.3, 4.2).
"""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from aragorn.options import option
from aragorn_training.data.distant_supervision import SAMPLE_FACTOR, draw_negatives
from aragorn_training.data.split import CANDIDATES_PER_QUERY, POSITIVES, TRAIN, VALIDATION
from aragorn_training.data.work_directory import iter_rows, read_prepared_manifest
from aragorn_training.fitting.validation import measure_candidates
from aragorn_training.options import StudyOptions, parse_positive_int

FILE = "negative_counts.csv"
FIRST_COLUMNS = ("sample_factor", "ties", "seed")
DIGITS = 2
SAMPLE_FACTORS = (SAMPLE_FACTOR // 4, SAMPLE_FACTOR // 2, SAMPLE_FACTOR)
BY_DOCNO = "docno"
AT_RANDOM = "random"


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions):
    """Options of the study."""

    repetitions: int = option(5, parse=parse_positive_int, help="number of draws per sample size")


def run(options: Options) -> pd.DataFrame:
    """Measure the score on the validation queries with the least similar premises of the
    collection.

    All positives have the score 0, as in the validation split; so has each premise that is no
    negative in training. Equal scores are sorted by docno, as in validation, or at random.

    Returns:
        One row per number of arguments sampled per negative, `sample_factor`, order of `ties`
        (BY_DOCNO, AT_RANDOM) and `seed` of the draw: `unused`, the mean number of candidates per
        query that are no positives and no negatives in training; measures in percent.
    """
    first_seed = read_prepared_manifest(options.work_dir).inputs["seed"]
    validation, pool = _load_rows(options.work_dir)
    groups = validation.groupby("normalised_conclusion", sort=False).indices
    positives = np.stack([*groups.values()])
    queries = validation["normalised_conclusion"].unique()
    scores = pool["score"].to_numpy()
    docno_order = pool["docno"].rank().to_numpy()
    conclusions = pool["normalised_conclusion"].to_numpy()
    count = CANDIDATES_PER_QUERY - POSITIVES
    rows = []
    for factor in SAMPLE_FACTORS:
        for seed in range(first_seed, first_seed + options.repetitions):
            negatives = draw_negatives(conclusions, queries, count, "least_similar", seed, factor)
            candidates = np.hstack([positives, negatives])
            unused = float((scores[negatives] == 0).sum(axis=1).mean())
            random_order = np.random.default_rng(seed).permutation(len(pool))
            for ties, order in ((BY_DOCNO, docno_order), (AT_RANDOM, random_order)):
                row = {"sample_factor": factor, "ties": ties, "seed": seed, "unused": unused}
                rows.append(row | measure_candidates(scores[candidates], order[candidates]))
    return pd.DataFrame(rows)


def _load_rows(work_dir: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Load the premises of the validation split, and those of both splits with their `score`."""
    columns = ["docno", "normalised_conclusion", "negatives"]
    validation, train = (
        pd.DataFrame(iter_rows(work_dir / f"{split}.words.parquet", columns, work_dir))
        for split in (VALIDATION, TRAIN)
    )
    counts = Counter(negatives[0] for negatives in train["negatives"])
    pool = pd.concat([validation, train], ignore_index=True)
    return validation, pool.assign(score=-pool["docno"].map(counts).to_numpy(float))
