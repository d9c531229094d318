"""Compare document enrichments with unenriched documents under identical retrieval models, cross-validated over topics."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path

import msgspec
import pandas as pd

from submission.errors import UsageError
from submission.retrieval.term_index import Settings
from submission.systems.enrichment import Enrichment
from submission.systems.execution import Execution
from training.evaluation.evaluate import BPREF, HEADLINES
from training.evaluation.significance import against_baseline, holm, intervals
from training.tuning.grid import COLUMNS, Grid, cross_validated, deciding, judgments, read_grid, values_of

PLAIN = "plain"  # no enrichment
INDEX = Settings(stemmer="porter")  # shared, so that only the enrichment differs
MODELS = ("bm25_arguments", "bm25_rm3", "dirichlet", "dirichlet_rm3")  # names in training/configs/grids
MEASURES = (*HEADLINES, "nDCG@25 condensed", "nDCG@25 all", BPREF)


def compare(
    enrichments: Sequence[str], models: Sequence[str], qrels_files: Mapping[str, Path], execution: Execution, measure: str
) -> pd.DataFrame:
    """Tune every retrieval model on every enrichment and on unenriched documents, using the same grid; results are cached.

    Args:
        enrichments: Checkpoint names.
        models: Grid names or files; their index settings are ignored.
        qrels_files: Qrels files by name. One file: five folds over its topics; several: one fold per file.
        execution: Execution on the judged input.
        measure: Measure whose mean selects a grid point.

    Returns:
        One row per enrichment, model and measure: `mean low high` over topics, each topic scored at the grid point selected on
        the other folds; `difference` from unenriched documents with its interval; p values, Holm-corrected over all enrichments
        and models. An enricher that reads one field only also gets control rows: unenriched documents restricted to that field.
        Control rows are excluded from the correction.

    Raises:
        UsageError: If a grid is unknown or varies index settings.
        InputError: If the judgments are malformed.
        CheckpointError: If an enrichment cannot be loaded.
        OutputError: If a file cannot be written.
    """
    # Load all checkpoints first: fail before hours of tuning.
    loaded = {name: Enrichment(name).opened(execution.checkpoints) for name in enrichments}
    judged = judgments(qrels_files, execution)
    values_by_cell: dict[tuple[str, str], pd.DataFrame] = {}
    fields = {name: enrichment.enricher.fields for name, enrichment in loaded.items()}
    field_controls = {f"{PLAIN} {field}": field for field in fields.values() if field != INDEX.fields}
    for enrichment, indexed in ({PLAIN: INDEX.fields} | field_controls | fields).items():
        index = msgspec.structs.replace(INDEX, fields=indexed)
        for model in models:
            cell, grid = (enrichment, Path(model).stem), _grid(model, index, enrichment if enrichment in loaded else None)
            values = values_of("-".join(cell), grid, judged, execution)
            _, held_out = cross_validated(values, judged.fold_of, deciding(measure))
            values_by_cell[cell] = pd.DataFrame(held_out, index=judged.topics, columns=list(COLUMNS))
    rows = [_row(name, model, column, values_by_cell) for name, model in values_by_cell for column in MEASURES]
    return corrected(pd.DataFrame(rows), enrichments)


def corrected(table: pd.DataFrame, enrichments: Sequence[str]) -> pd.DataFrame:
    """Add Holm-corrected p values per measure over the enrichment rows; leave the other rows empty."""
    tested = table[table["enrichment"].isin(enrichments)].groupby("measure")
    columns = {f"{test} (Holm)": tested[test].transform(lambda p: holm(p.to_numpy())) for test in ("t", "randomisation")}
    return table.assign(**columns)


def _grid(model: str, index: Settings, enrichment: str | None) -> Grid:
    grid = read_grid(model)
    if any(axis.startswith("index.") for axis in grid.axes):
        raise UsageError(
            f"{model}: the grid varies index settings, which must be identical for all enrichments; "
            "choose a grid without index axes"
        )
    return Grid(grid.axes, [msgspec.structs.replace(point, index=index, enrichment=enrichment) for point in grid.points])


def _row(name: str, model: str, measure: str, found: dict[tuple[str, str], pd.DataFrame]) -> dict[Hashable, object]:
    enriched, unenriched = found[name, model][[measure]], found[PLAIN, model][[measure]]
    mean = intervals(enriched).loc[measure].to_dict()
    row: dict[Hashable, object] = {"enrichment": name, "model": model, "measure": measure} | mean
    if name == PLAIN:
        return row
    difference = intervals(enriched - unenriched).rename(columns={"mean": "difference", "low": "least", "high": "most"})
    tests = against_baseline({PLAIN: unenriched[measure], name: enriched[measure]}, PLAIN)[["t", "randomisation"]]
    return row | difference.loc[measure].to_dict() | tests.loc[name].to_dict()
