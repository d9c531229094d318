"""Build gold and unlabelled conclusion-premise pairs from the tables of `prepare pairs`.

As in the ranker's input, URLs are removed, and conclusions are truncated to the query length in
subwords.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from aragorn.index.lexical import IndexSettings
from aragorn.index.weighting import BM25
from aragorn.text.normalisation import remove_urls
from aragorn.text.tokenisers import WordPieceTokeniser
from aragorn_training.data.distant_supervision import retrieve_for_conclusions
from aragorn_training.data.work_directory import iter_rows


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
    rows = [
        (train["conclusion"].iloc[group[0]], train["premise"].iloc[row])
        for group, hits in retrieve_for_conclusions(
            train, IndexSettings(fields="premise"), BM25(), k
        )
        for row in hits
    ]
    pairs = pd.DataFrame(rows, columns=["first", "second"]).drop_duplicates(ignore_index=True)
    labelled_index = pd.MultiIndex.from_frame(labelled_pairs[["first", "second"]])
    return pairs[~pd.MultiIndex.from_frame(pairs).isin(labelled_index)].reset_index(drop=True)


def subsample(items: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Sample at most `n` items uniformly without replacement, in their original order."""
    return items[np.sort(rng.permutation(len(items))[:n])]
