"""Compare document enrichments under identical retrieval models, cross-validated over topics."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd

from aragorn.errors import UsageError
from aragorn.options import argument, option
from aragorn.systems.lexical import IndexSettings
from aragorn_training.data.retrieval import load_input_fields, open_retrieval
from aragorn_training.evaluation.evaluate import BPREF, HEADLINE_MEASURES
from aragorn_training.evaluation.significance import (
    apply_holm_correction,
    bootstrap_means,
    compare_with_baseline,
)
from aragorn_training.evaluation.tables import ALL_TOPICS
from aragorn_training.options import (
    CheckpointOptions,
    InputOptions,
    PrecisionOptions,
    StudyOptions,
    TuningOptions,
    index_files_by_name,
)
from aragorn_training.tuning import grid as tuning
from aragorn_training.tuning.grid import Grid

FILE = "enrichment.csv"
FIRST_COLUMNS = ("topics", "enrichment", "retrieval_model")
DIGITS = 6
UNENRICHED = "none"
# the same for all enrichments, to compare nothing else
INDEX_SETTINGS = IndexSettings(stemmer="porter")
# names in training/aragorn_training/configs/grids
MODEL_GRIDS = ("bm25_arguments", "bm25_rm3", "dirichlet", "dirichlet_rm3")
TESTS = ["p_t", "p_randomisation"]
MEASURES = (*HEADLINE_MEASURES, "nDCG(judged_only=True)@25", "nDCG@25", BPREF)


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions, PrecisionOptions, CheckpointOptions, TuningOptions, InputOptions):
    """Options of the study."""

    enrichments: tuple[str, ...] = argument(help="name of a tagger's checkpoint")
    grids: tuple[str, ...] = option(
        MODEL_GRIDS,
        "--grid",
        metavar="GRID",
        help="grid of a retrieval model to tune, whose index settings are ignored; repeatable",
    )


def run(options: Options) -> pd.DataFrame:
    """Tune every retrieval model on every enrichment and on unenriched documents, using the same
    grid; results are cached.

    Returns:
        One row per topic set, enrichment, model and measure: `n`, the number of topics that have a
        value; `mean ci_low ci_high` over these, each topic scored at the grid point selected on the
        other folds; `difference` from unenriched documents with its interval; p values,
        Holm-corrected over all enrichments and models. Topic sets are ALL_TOPICS and, if there are
        several qrels files, the topics of each file, by its name. Control rows, excluded from the
        correction: unenriched documents restricted to the field of a tagger that reads one field
        only.
    """
    qrels_files = index_files_by_name(options.qrels, "qrels")
    with open_retrieval(options, options.work_dir) as retrieval:
        fields = load_input_fields(options.enrichments, retrieval)
        judged = tuning.load_judged_topics(qrels_files, retrieval)
        values_by_cell: dict[tuple[str, str], pd.DataFrame] = {}
        all_fields = {UNENRICHED: INDEX_SETTINGS.fields}
        for field in fields.values():
            if field != INDEX_SETTINGS.fields:
                all_fields[f"{UNENRICHED} ({field})"] = field
        for enrichment, indexed_fields in (all_fields | fields).items():
            index = msgspec.structs.replace(INDEX_SETTINGS, fields=indexed_fields)
            for model in options.grids:
                cell = (enrichment, Path(model).stem)
                grid = _replace_index(model, index, enrichment if enrichment in fields else None)
                values = tuning.evaluate_grid("-".join(cell), grid, judged, retrieval)
                _, held_out_values = tuning.cross_validate(
                    values, judged.folds, tuning.get_selection_columns(options.measure)
                )
                columns = list(tuning.STORED_MEASURES)
                values_by_cell[cell] = pd.DataFrame(held_out_values, judged.topics, columns)
    topic_sets = {ALL_TOPICS: np.ones(len(judged.topics), dtype=bool)}
    if len(qrels_files) > 1:
        topic_sets |= {name: judged.folds == fold for fold, name in enumerate(qrels_files)}
    return _tabulate_cells(values_by_cell, topic_sets, options.enrichments)


def _tabulate_cells(
    values_by_cell: Mapping[tuple[str, str], pd.DataFrame],
    topic_sets: Mapping[str, np.ndarray],
    enrichments: Sequence[str],
) -> pd.DataFrame:
    """Tabulate means, differences and tests of all cells (enrichment, model) by topic set."""
    rows = []
    for label, mask in topic_sets.items():
        values = {cell: table[mask] for cell, table in values_by_cell.items()}
        rows += [
            {"topics": label} | _build_row(*cell, measure, values)
            for cell in values
            for measure in MEASURES
        ]
    return add_holm_correction(pd.DataFrame(rows), enrichments)


def add_holm_correction(table: pd.DataFrame, enrichments: Sequence[str]) -> pd.DataFrame:
    """Add Holm-corrected p per topic set and measure over `enrichments`; others have NaN."""
    by_measure = table[table["enrichment"].isin(enrichments)].groupby(["topics", "measure"])
    corrected_p = {
        f"{test}_holm": by_measure[test].transform(lambda p: apply_holm_correction(p.to_numpy()))
        for test in TESTS
    }
    return table.assign(**corrected_p)


def _replace_index(model: str, index: IndexSettings, enrichment: str | None) -> Grid:
    grid = tuning.load_grid(model)
    if any(axis.startswith("index.") for axis in grid.axes):
        cause = "the grid varies index settings, which must be identical for all enrichments"
        raise UsageError(f"{model}: {cause}; choose a grid without index axes")
    changes = {"index": index, "enrichment": enrichment}
    return Grid(grid.axes, [msgspec.structs.replace(point, **changes) for point in grid.points])


def _build_row(
    name: str, model: str, measure: str, values: dict[tuple[str, str], pd.DataFrame]
) -> dict[Hashable, object]:
    enriched = values[name, model][[measure]]
    unenriched = values[UNENRICHED, model][[measure]]
    row: dict[Hashable, object] = {"enrichment": name, "retrieval_model": model}
    row |= {"measure": measure, "n": int(enriched[measure].count())}
    row |= bootstrap_means(enriched).loc[measure].to_dict()
    if name == UNENRICHED:
        return row
    columns = {"mean": "difference", "ci_low": "difference_low", "ci_high": "difference_high"}
    difference = bootstrap_means(enriched - unenriched).rename(columns=columns)
    compared = {UNENRICHED: unenriched[measure], name: enriched[measure]}
    tests = compare_with_baseline(compared, UNENRICHED)[TESTS]
    return row | difference.loc[measure].to_dict() | tests.loc[name].to_dict()
