"""Compare document lengths, before and after reduction by taggers, with those of Hollatz 2022 (section 4.1)."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from submission.inference.enrichment import SHARD_SIZE
from submission.retrieval.fields import Fields, select_texts
from submission.systems.enrichment import Enrichment
from submission.systems.execution import Execution

ORIGINAL = "args.me"
COLUMNS = ["max", "min", "mean", "median", "sd"]
PUBLISHED_LENGTHS = {  # COLUMNS by corresponding tagger (fastText or dependency vectors); premises of all of args.me
    ORIGINAL: (16_751, 1, 317, 140, 406),
    "targer_essays": (10_393, 0, 173, 71, 237),
    "targer_essays_fasttext": (15_154, 0, 219, 94, 294),
    "targer_webd": (15_252, 0, 30, 0, 77),
    "targer_webd_fasttext": (15_263, 0, 29, 2, 69),
    "targer_both_fasttext": (15_955, 0, 212, 92, 285),  # trained on a third data set as well
}


def tabulate_lengths(taggers: Sequence[str], execution: Execution) -> pd.DataFrame:
    """Tabulate the document lengths of the collection and of its reductions by taggers (checkpoint names).

    Returns:
        One row for the original collection and one per tagger: `corpus`; COLUMNS in whitespace words;
        `empty_percent`, the percentage of empty documents; and the figures of Hollatz 2022 (prefix `published_`).
    """
    # first, to fail early if a checkpoint is damaged
    tagger_fields = {name: Enrichment(name).load_checkpoint(execution.checkpoints).network.input_fields for name in taggers}
    texts = select_texts(execution.documents.read_texts(execution.documents.searchable_docnos), "conclusion premise")
    rows = [_build_row(ORIGINAL, [len(text.split()) for text in texts])]
    rows += [_build_row(name, _count_kept_words(name, fields, execution)) for name, fields in tagger_fields.items()]
    return pd.DataFrame(rows)


def _count_kept_words(name: str, fields: Fields, execution: Execution) -> list[int]:
    """Count the words that a tagger keeps of each document."""
    collection = execution.documents.searchable_docnos
    load_frequencies = Enrichment(name).enrich_collection(execution, fields, collection)
    batches = (load_frequencies(start, start + SHARD_SIZE) for start in range(0, len(collection), SHARD_SIZE))
    return [sum(frequencies.values()) for batch in batches for frequencies in batch]


def _build_row(name: str, lengths: Sequence[int]) -> dict[str, object]:
    values = np.array(lengths)
    figures = [values.max(), values.min(), values.mean(), np.median(values), values.std()]
    published_lengths = dict(zip((f"published_{column}" for column in COLUMNS), PUBLISHED_LENGTHS.get(name, ()), strict=False))
    empty_percent = 100 * (values == 0).mean()
    return {"corpus": name, **dict(zip(COLUMNS, figures, strict=True)), "empty_percent": empty_percent, **published_lengths}
