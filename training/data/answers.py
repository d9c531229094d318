"""Which arguments answer a conclusion that they do not belong to: what distant labels cannot tell from its own."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from submission.disk.kept import Kept
from submission.progress import progress
from submission.retrieval.lexical import Model, query_of, search
from submission.retrieval.terms import Settings, term_index


def answers(
    arguments: pd.DataFrame, settings: Settings, model: Model, number: int, kept: Kept
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """For each normalised conclusion its own arguments, and those of others that a search for it finds.

    Args:
        arguments: `docno conclusion normalised_conclusion premise`.
        settings: what of them is indexed.
        model: how a term counts.
        number: how many of others at most.
        kept: of these very arguments; the index is kept there.

    Yields:
        Row numbers of its own, and of the others, the best first.
    """
    places = np.argsort(arguments["docno"].to_numpy(), kind="stable")  # as the index numbers them
    ordered = arguments.iloc[places].set_index("docno", drop=False)
    index = term_index(ordered.index.tolist(), lambda docnos: ordered.loc[docnos], settings, kept)
    groups = ordered.groupby("normalised_conclusion", sort=True).indices
    for own in progress(list(groups.values()), type(model).__name__.lower(), "conclusions"):
        query = query_of(index.read(ordered["conclusion"].iloc[own[0]]))
        found = search(index, query, model, number + len(own)).documents
        yield places[own], places[found[~np.isin(found, own)][:number]]
