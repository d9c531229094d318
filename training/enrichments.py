"""Enrichments against the texts as they are, in one table: the same models and grids for all, cross-validated over topics."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path

import msgspec
import pandas as pd

from submission.errors import UsageError
from submission.retrieval.terms import Settings
from submission.systems.enrichment import Enrichment
from submission.systems.execution import Execution
from training.measuring.evaluate import BPREF, HEADLINES
from training.measuring.significance import against_baseline, holm, intervals
from training.tune import COLUMNS, Grid, cross_validated, deciding, judgments, read_grid, values_of

PLAIN = "plain"  # the texts as they are
INDEX = Settings(stemmer="porter")  # of all, so that the words alone differ
MODELS = ("bm25_arguments", "bm25_rm3", "dirichlet", "dirichlet_rm3")  # grids
MEASURES = (*HEADLINES, "nDCG@25 condensed", "nDCG@25 all", BPREF)


def compare(
    enrichments: Sequence[str], models: Sequence[str], qrels_files: Mapping[str, Path], execution: Execution, measure: str
) -> pd.DataFrame:
    """Tune each model for each enrichment and for the texts as they are, on the same grid; what is finished is kept.

    Args:
        enrichments: checkpoints.
        models: grids, as `tune` reads them; what they say of the index is not looked at.
        qrels_files: by their names; of one, the topics are five folds; of several, those of each are one.
        execution: on the input that they judge.
        measure: by whose mean points are compared.

    Returns:
        A row for each enrichment, model and measure: `mean low high` over topics, each at the point that is best on the other
        folds; `difference` to the texts as they are, with its interval, and the p values of its tests, corrected by Holm for
        all enrichments and models. Where enrichers read a part of the texts alone, that part as it is has rows, too: they tell
        what is lost or gained by its words' weights from what is lost by the rest. Holm's correction leaves them out.

    Raises:
        UsageError: an unknown grid, or one with an axis of the index. InputError: malformed judgments.
        CheckpointError: an enrichment cannot be opened. OutputError: something cannot be written.
    """
    # Opened before anything else: hours go by until the last one is needed.
    opened = {one: Enrichment(one).opened(execution.checkpoints) for one in enrichments}
    judged = judgments(qrels_files, execution)
    found: dict[tuple[str, str], pd.DataFrame] = {}
    fields = {one: opened[one].enricher.fields for one in opened}
    parts = {f"{PLAIN} {part}": part for part in fields.values() if part != INDEX.fields}
    for enrichment, read in ({PLAIN: INDEX.fields} | parts | fields).items():
        index = msgspec.structs.replace(INDEX, fields=read)
        for model in models:
            name, grid = (enrichment, Path(model).stem), _grid(model, index, enrichment if enrichment in opened else None)
            values = values_of("-".join(name), grid, judged, execution)
            _, on_others = cross_validated(values, judged.fold_of, deciding(measure))
            found[name] = pd.DataFrame(on_others, index=judged.topics, columns=list(COLUMNS))
    rows = [_row(name, model, one, found) for name, model in found for one in MEASURES]
    return corrected(pd.DataFrame(rows), enrichments)


def corrected(table: pd.DataFrame, enrichments: Sequence[str]) -> pd.DataFrame:
    """Add the p values of each measure's tests corrected by Holm for all rows of enrichments; others have none."""
    tested = table[table["enrichment"].isin(enrichments)].groupby("measure")
    columns = {f"{test} (Holm)": tested[test].transform(lambda p: holm(p.to_numpy())) for test in ("t", "randomisation")}
    return table.assign(**columns)


def _grid(model: str, index: Settings, enrichment: str | None) -> Grid:
    grid = read_grid(model)
    if any(axis.startswith("index.") for axis in grid.axes):
        raise UsageError(f"{model}: has an axis of the index, which is the same for all here; take another grid")
    return Grid(grid.axes, [msgspec.structs.replace(point, index=index, enrichment=enrichment) for point in grid.points])


def _row(name: str, model: str, measure: str, found: dict[tuple[str, str], pd.DataFrame]) -> dict[Hashable, object]:
    own, plain = found[name, model][[measure]], found[PLAIN, model][[measure]]
    mean = intervals(own).loc[measure].to_dict()
    row: dict[Hashable, object] = {"enrichment": name, "model": model, "measure": measure} | mean
    if name == PLAIN:
        return row
    difference = intervals(own - plain).rename(columns={"mean": "difference", "low": "least", "high": "most"})
    tested = against_baseline({PLAIN: plain[measure], name: own[measure]}, PLAIN)[["t", "randomisation"]]
    return row | difference.loc[measure].to_dict() | tested.loc[name].to_dict()
