"""Lengths of documents before and after taggers reduce them, as in the thesis' table (Hollatz 2022, 4.1)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from submission.enrichment.enriched import TOGETHER
from submission.retrieval.terms import Fields, texts_of
from submission.systems.enrichment import Enrichment
from submission.systems.execution import Execution

PLAIN = "args.me"
COLUMNS = ["max", "min", "mean", "median", "deviation"]
THESIS = {  # by the tagger of ours that stands for it; all of args.me, premises alone, vectors of fastText and of dependencies
    PLAIN: (16_751, 1, 317, 140, 406),
    "targer_essays": (10_393, 0, 173, 71, 237),
    "targer_essays_fasttext": (15_154, 0, 219, 94, 294),
    "targer_webd": (15_252, 0, 30, 0, 77),
    "targer_webd_fasttext": (15_263, 0, 29, 2, 69),
    "targer_both_fasttext": (15_955, 0, 212, 92, 285),  # learned from a third data set too
}


def lengths(taggers: Sequence[str], execution: Execution) -> pd.DataFrame:
    """The table. What is finished is kept, for the taggers' indexes too.

    Args:
        taggers: checkpoints.
        execution: on the input whose collection is reduced.

    Returns:
        A row for the collection as it is, and one for each tagger: `corpus`; COLUMNS, in words between blanks; `empty`, the
        percentage of documents of which nothing is left; and the thesis' figures, COLUMNS with its name before them.

    Raises:
        CheckpointError: a tagger cannot be opened. InputError, OutputError: the collection cannot be read, or kept.
    """
    # Opened before anything else: minutes go by until the last one is needed.
    fields = {name: Enrichment(name).opened(execution.checkpoints).enricher.fields for name in taggers}
    texts = texts_of(execution.documents.texts(execution.documents.collection), "conclusion premise")
    rows = [_row(PLAIN, [len(text.split()) for text in texts])]
    rows += [_row(name, _reduced(name, its, execution)) for name, its in fields.items()]
    return pd.DataFrame(rows)


def _reduced(name: str, fields: Fields, execution: Execution) -> list[int]:
    """Count the words that are left of each document."""
    collection = execution.documents.collection
    found = Enrichment(name).collection(execution, fields, collection)
    parts = (found.between(start, start + TOGETHER) for start in range(0, len(collection), TOGETHER))
    return [sum(words.values()) for part in parts for words in part]


def _row(name: str, sizes: Sequence[int]) -> dict[str, object]:
    values = np.array(sizes)
    figures = [values.max(), values.min(), values.mean(), np.median(values), values.std()]
    thesis = dict(zip((f"thesis {column}" for column in COLUMNS), THESIS.get(name, ()), strict=False))
    return {"corpus": name, **dict(zip(COLUMNS, figures, strict=True)), "empty": 100 * (values == 0).mean(), **thesis}
