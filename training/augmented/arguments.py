"""args.me as pairs of conclusion and premise: gold by distant supervision, and what the teacher is asked to label.

Texts are those that the ranker reads: conclusions cut to its query's pieces, premises without addresses.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from submission.disk.kept import Kept
from submission.retrieval.lexical import BM25
from submission.retrieval.terms import Settings
from submission.text.normalise import drop_urls
from submission.text.tokenisers import PieceTokeniser
from training.data.distant import answers
from training.data.work import table_rows


def arguments(work: Path, split: str, tokeniser: PieceTokeniser) -> pd.DataFrame:
    """The arguments of a split: `docno conclusion normalised_conclusion premise unrelated_docnos`.

    Raises:
        InputError: `prepare pairs` has not been run.
    """
    found = pd.DataFrame(table_rows(work / f"{split}.pieces.parquet", None))
    cut = {text: tokeniser.cut(drop_urls(text), tokeniser.lengths.query) for text in found["conclusion"].unique()}
    return found.assign(conclusion=found["conclusion"].map(cut))


def gold(train: pd.DataFrame, number: int, rng: np.random.Generator) -> pd.DataFrame:
    """Pairs `first second label`: so many random conclusions with their own premise, 1, and with an unrelated one, 0."""
    chosen = train.iloc[np.sort(rng.permutation(len(train))[:number])]
    others = train.set_index("docno")["premise"].loc[[docnos[0] for docnos in chosen["unrelated_docnos"]]]
    own = pd.DataFrame({"first": chosen["conclusion"], "second": chosen["premise"], "label": 1.0})
    return pd.concat([own, own.assign(second=others.to_numpy(), label=0.0)], ignore_index=True)


def sampled(train: pd.DataFrame, labelled: pd.DataFrame, k: int, kept: Kept) -> pd.DataFrame:
    """Pairs `first second` that distant labels cannot label: each conclusion with the k premises that answer it best by BM25
    of all those of other conclusions, less what is labelled already.

    Args:
        train: as `arguments` gives it.
        labelled: pairs `first second`.
        k: how many at most.
        kept: of these very arguments; the index of the premises is kept there.
    """
    pairs = [
        (train["conclusion"].iloc[own[0]], train["premise"].iloc[row])
        for own, others in answers(train, Settings(fields="premise"), BM25(), k, kept)
        for row in others
    ]
    found = pd.DataFrame(pairs, columns=["first", "second"]).drop_duplicates(ignore_index=True)
    known = pd.MultiIndex.from_frame(labelled[["first", "second"]])
    return found[~pd.MultiIndex.from_frame(found).isin(known)].reset_index(drop=True)
