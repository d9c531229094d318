"""Compare document enrichments with unenriched documents under identical retrieval models, cross-validated over topics."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path

import msgspec
import pandas as pd

from submission.errors import UsageError
from submission.retrieval.term_index import IndexSettings
from submission.systems.enrichment import Enrichment
from submission.systems.execution import Execution
from training.evaluation.evaluate import BPREF, HEADLINE_MEASURES
from training.evaluation.significance import bootstrap_intervals, compare_with_baseline, holm_correction
from training.tuning.grid import (
    STORED_MEASURES,
    Grid,
    cross_validate,
    evaluate_grid,
    load_grid,
    load_judged_topics,
    selection_columns,
)

UNENRICHED = "none"
INDEX_SETTINGS = IndexSettings(stemmer="porter")  # shared, so that only the enrichment differs
MODEL_GRIDS = ("bm25_arguments", "bm25_rm3", "dirichlet", "dirichlet_rm3")  # names in training/configs/grids
MEASURES = (*HEADLINE_MEASURES, "nDCG@25 condensed", "nDCG@25 all", BPREF)


def compare_enrichments(
    enrichments: Sequence[str],
    models: Sequence[str],
    qrels_files: Mapping[str, Path],
    execution: Execution,
    selection_measure: str,
) -> pd.DataFrame:
    """Tune every retrieval model on every enrichment and on unenriched documents, using the same grid; results are cached.

    Args:
        enrichments: Checkpoint names.
        models: Grid names or files; their index settings are ignored.
        qrels_files: Qrels files by name. One file: five folds over its topics; several: one fold per file.
        execution: Execution on the judged input.
        selection_measure: Measure whose mean selects a grid point.

    Returns:
        One row per enrichment, model and measure: `mean ci_low ci_high` over topics, each topic scored at the grid point
        selected on the other folds; `difference` from unenriched documents with its interval; p values, Holm-corrected over all
        enrichments and models. An enricher that reads one field only also gets control rows: unenriched documents restricted to
        that field. Control rows are excluded from the correction.

    Raises:
        UsageError: If a grid is unknown or varies index settings.
        InputError: If the judgments are malformed.
        CheckpointError: If an enrichment cannot be loaded.
        OutputError: If a file cannot be written.
    """
    # Load all checkpoints first: fail before hours of tuning.
    loaded = {name: Enrichment(name).load_checkpoint(execution.checkpoints) for name in enrichments}
    judged = load_judged_topics(qrels_files, execution)
    values_by_cell: dict[tuple[str, str], pd.DataFrame] = {}
    fields = {name: enrichment.enricher.input_fields for name, enrichment in loaded.items()}
    field_controls = {f"{UNENRICHED} ({field})": field for field in fields.values() if field != INDEX_SETTINGS.fields}
    for enrichment, indexed in ({UNENRICHED: INDEX_SETTINGS.fields} | field_controls | fields).items():
        index = msgspec.structs.replace(INDEX_SETTINGS, fields=indexed)
        for model in models:
            cell, grid = (
                (enrichment, Path(model).stem),
                _grid_with_index(model, index, enrichment if enrichment in loaded else None),
            )
            values = evaluate_grid("-".join(cell), grid, judged, execution)
            _, held_out = cross_validate(values, judged.fold_of, selection_columns(selection_measure))
            values_by_cell[cell] = pd.DataFrame(held_out, index=judged.topics, columns=list(STORED_MEASURES))
    rows = [_result_row(name, model, column, values_by_cell) for name, model in values_by_cell for column in MEASURES]
    return add_holm_correction(pd.DataFrame(rows), enrichments)


def add_holm_correction(table: pd.DataFrame, enrichments: Sequence[str]) -> pd.DataFrame:
    """Add Holm-corrected p values per measure over the enrichment rows; leave the other rows empty."""
    tested = table[table["enrichment"].isin(enrichments)].groupby("measure")
    columns = {
        f"{test}_holm": tested[test].transform(lambda p: holm_correction(p.to_numpy())) for test in ("p_t", "p_randomisation")
    }
    return table.assign(**columns)


def _grid_with_index(model: str, index: IndexSettings, enrichment: str | None) -> Grid:
    grid = load_grid(model)
    if any(axis.startswith("index.") for axis in grid.axes):
        raise UsageError(
            f"{model}: the grid varies index settings, which must be identical for all enrichments; "
            "choose a grid without index axes"
        )
    return Grid(grid.axes, [msgspec.structs.replace(point, index=index, enrichment=enrichment) for point in grid.points])


def _result_row(
    name: str, model: str, selection_measure: str, values: dict[tuple[str, str], pd.DataFrame]
) -> dict[Hashable, object]:
    enriched, unenriched = values[name, model][[selection_measure]], values[UNENRICHED, model][[selection_measure]]
    mean = bootstrap_intervals(enriched).loc[selection_measure].to_dict()
    row: dict[Hashable, object] = {"enrichment": name, "retrieval_model": model, "measure": selection_measure} | mean
    if name == UNENRICHED:
        return row
    difference = bootstrap_intervals(enriched - unenriched).rename(
        columns={"mean": "difference", "ci_low": "difference_low", "ci_high": "difference_high"}
    )
    tests = compare_with_baseline({UNENRICHED: unenriched[selection_measure], name: enriched[selection_measure]}, UNENRICHED)[
        ["p_t", "p_randomisation"]
    ]
    return row | difference.loc[selection_measure].to_dict() | tests.loc[name].to_dict()
