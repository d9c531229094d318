"""Compare published with replicated numbers.

`training/results/published/` has one row per published figure (figures.csv), per table or figure
(items.csv), per explanation (reasons.csv) and per publication (publications.csv). figures.csv:
`publication item row measure theirs`, then

- ours_file: CSV file below training/results, or `settings`: all values of the checkpoints'
  metrics.json (kind `metrics`, with the number of `trained epochs`) and of the recipes (kind
  `recipe`), as `kind name key value`
- ours_query: pandas query that selects one row of the file; `= VALUE`: our figure itself
- ours_column: column of our figure, or an expression of columns
- spread: column of its standard deviation over seeds; low, high: of its interval
- n: column of the number of topics or repetitions that it is the mean of, or `seed`: the query
  selects a row per seed, and ours is their mean, with its standard deviation
- scale: factor of our figure; tolerance: largest difference of a reproduced figure without spread
  or interval
- lower_is_better: `yes`, or empty; kind: `setting`, `size`, `gain` (whose sign matters), or empty
  for other results
- status: `not run` or `not comparable`; reason: key in reasons.csv, for the status or for a
  difference

An empty cell has the value of the item in items.csv, `-` none; the item's query is joined to that
of the figure. highlights.csv names the figures of the first table, with the columns of our best
one; differences.csv settings that differ (see `read_differences`); sources.csv contradictions
between the publications.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from math import hypot, isfinite
from pathlib import Path
from typing import Any

import pandas as pd

from aragorn.errors import InputError
from aragorn.paths import CHECKPOINT_DIR
from aragorn_training.configs import list_names, read

PACKAGE_DIR = Path(__file__).resolve().parent.parent
RESULTS = (PACKAGE_DIR / "results").resolve()  # in a checkout, a symbolic link to training/results
PUBLISHED = RESULTS / "published"  # figures of the publications, and where ours are
STEP_SECONDS = RESULTS / "step_seconds.csv"  # of the steps of `all` on the excerpt
UNPUBLISHED = ("\N{EN DASH}", "-")  # theirs, where a table has no figure
SPREAD = " ± "  # separates a figure from its standard deviation
REPRODUCED = "reproduced"
BETTER = "better"
WORSE = "worse"
DIFFERENT = "different setting"
NOT_COMPARABLE = "not comparable"
NOT_RUN = "not run"
VERDICTS = (REPRODUCED, BETTER, WORSE, DIFFERENT, NOT_COMPARABLE, NOT_RUN)
# kinds of figures; all others are results
GAIN = "gain"
SETTING = "setting"
SIZE = "size"
SPREADS = 2.0  # standard deviations within which a figure is reproduced
SETTINGS = "settings"  # name of the table of checkpoints and recipes
SEED = "seed"  # column of result files with a row per seed
# columns with names of columns of numbers that belong to ours
NUMBERS = ["spread", "low", "high", "n"]
DEFAULTS = [
    "ours_file",
    "ours_column",
    "scale",
    *NUMBERS,
    "tolerance",
    "lower_is_better",
    "kind",
    "status",
    "reason",
]


@cache
def read_texts(file: Path) -> pd.DataFrame:
    """Read a CSV file without conversions; empty cells are empty strings."""
    return pd.read_csv(file, dtype=str, keep_default_na=False)


@cache
def load_published_numbers(publication: str, item: str) -> dict[tuple[str, str], str]:
    """Load the figures of a publication's table or figure by row and measure, if any."""
    figures = read_texts(PUBLISHED / "figures.csv")
    selected = figures[(figures["publication"] == publication) & (figures["item"] == item)]
    return {
        (row, measure): theirs
        for row, measure, theirs in selected[["row", "measure", "theirs"]].to_numpy()
    }


@cache
def compare_figures(directory: Path = PUBLISHED) -> pd.DataFrame:
    """Return the figures of a directory with ours, `difference` and `verdict`."""
    figures = find_ours(read_figures(directory), read_results)
    theirs = figures["theirs"].map(_to_number)
    ours = figures["ours"].map(_to_number)
    return figures.assign(difference=ours - theirs, verdict=figures.apply(judge, axis=1))


def read_figures(directory: Path) -> pd.DataFrame:
    """Read the figures with the defaults of their items, and `title data command cause reason_item`
    of these; raise InputError if a figure has no item, or an item no figures."""
    key = ["publication", "item"]
    items = read_texts(directory / "items.csv")
    figures = read_texts(directory / "figures.csv")
    named, described = ({*map(" ".join, table[key].to_numpy())} for table in (figures, items))
    if unmatched := ", ".join(sorted(named ^ described)):
        cause = f"in figures.csv or items.csv only: {unmatched}"
        raise InputError(f"{directory}: {cause}; add the missing rows")
    figures = figures.merge(items, on=key, how="left", suffixes=("", "_item"), validate="m:1")
    for column in DEFAULTS:
        defaults = figures[f"{column}_item"]
        figures[column] = figures[column].where(figures[column] != "", defaults).replace("-", "")
    reasons = read_texts(directory / "reasons.csv").set_index("key")["text"]
    if unknown := sorted({*figures["reason"]} - {*reasons.index, ""}):
        cause = f"no text for the reasons {', '.join(unknown)}"
        raise InputError(f"{directory}/figures.csv: {cause}; add them to reasons.csv")
    for column in ("reason", "reason_item"):
        figures[column] = figures[column].map(reasons).fillna("")
    return figures


def find_ours(figures: pd.DataFrame, read: Callable[[str], pd.DataFrame]) -> pd.DataFrame:
    """Add `ours` and replace the names in NUMBERS by the values of these columns, or None; raise
    InputError if a query does not match one row, or a figure has neither a query nor a status."""
    select = cache(lambda file, query: read(file).query(query) if query else read(file))
    rows = [_find(figure, select) for figure in figures.to_dict("records")]
    return figures.drop(columns=NUMBERS).join(pd.DataFrame(rows, index=figures.index, dtype=object))


def read_highlights(figures: pd.DataFrame) -> list[dict[Any, Any]]:
    """Read the comparisons of highlights.csv: a figure as published, or none, and our `best` one,
    described by `best_is`."""
    highlights = read_texts(PUBLISHED / "highlights.csv").rename(columns={"best": "best_is"})
    missing = [name for name in (*DEFAULTS, "ours_query_item") if name not in highlights]
    empty = dict.fromkeys(missing, "") | {"status": NOT_RUN}  # there may be no figure
    best = find_ours(highlights.assign(**empty), read_results)["ours"]
    key = ["publication", "item", "row", "measure"]
    columns = [*key, "theirs", "ours", "low", "high", "spread", "verdict"]
    compared = highlights[[*key, "system", "best_is"]]
    compared = compared.merge(figures[columns], on=key, how="left", validate="m:1")
    unknown = compared[compared["verdict"].isna() & (compared["item"] != "")]
    if len(unknown):
        name = _describe(unknown.iloc[0].to_dict())
        raise InputError(f"highlights.csv: {name}: not in figures.csv; correct the cells")
    return compared.fillna({"theirs": "", "verdict": ""}).assign(best=best).to_dict("records")


def read_differences() -> pd.DataFrame:
    """Read the settings in which recipes differ from the publications, as `recipes setting
    published source ours why`.

    A row with a `key` has the values of this key in its recipes, or in the metrics of their
    checkpoints. Raises InputError if a recipe has no such key.
    """
    values = read_results(SETTINGS).set_index(["name", "key"])["value"].to_dict()
    table = read_texts(PUBLISHED / "differences.csv")
    ours = [
        _format_settings(recipes.split(", "), key, values) if key else text
        for recipes, key, text in table[["recipes", "key", "ours"]].to_numpy()
    ]
    return table.assign(ours=ours).drop(columns="key")


def judge(figure: Mapping[Any, Any]) -> str:
    """Return the status, else REPRODUCED if theirs is ours within interval, spread or tolerance,
    else how ours differs.

    A gain of the other sign is not reproduced, whatever its interval. Settings and sizes are not
    better or worse but DIFFERENT.
    """
    if figure["status"]:
        return str(figure["status"])
    is_setting = figure["kind"] in (SETTING, SIZE)
    theirs = _to_number(figure["theirs"])
    ours = _to_number(figure["ours"])
    if theirs is None or ours is None:
        verdict = DIFFERENT if is_setting else NOT_COMPARABLE
        return REPRODUCED if figure["theirs"] == figure["ours"] else verdict
    spreads = (figure["spread"] or 0.0, _to_number(figure["theirs"].partition(SPREAD)[2]) or 0.0)
    spread = SPREADS * hypot(*(value for value in spreads if isfinite(value)))
    tolerance = max(float(figure["tolerance"] or 0), spread)
    low, high = (ours if figure[name] is None else figure[name] for name in ("low", "high"))
    has_other_sign = figure["kind"] == GAIN and theirs * ours < 0
    if low - tolerance <= theirs <= high + tolerance and not has_other_sign:
        return REPRODUCED
    if is_setting:
        return DIFFERENT
    return BETTER if (ours > theirs) != (figure["lower_is_better"] == "yes") else WORSE


@cache
def read_results(file: str) -> pd.DataFrame:
    """Read a result file, or the table of all checkpoints and recipes."""
    if file != SETTINGS:
        return pd.read_csv(RESULTS / file)
    rows: list[tuple[Any, ...]] = []
    for name in list_names("recipe"):
        rows += [("recipe", name, *entry) for entry in _flatten(read("recipe", name)[1])]
    for path in CHECKPOINT_DIR.glob("*/metrics.json"):
        metrics = json.loads(path.read_bytes())
        if metrics.get("log"):
            metrics["trained epochs"] = metrics["log"][-1]["epoch"]
        rows += [("metrics", path.parent.name, *entry) for entry in _flatten(metrics)]
    return pd.DataFrame(rows, columns=["kind", "name", "key", "value"])


def count_verdicts(figures: pd.DataFrame) -> list[int]:
    """Count the published figures of each of VERDICTS."""
    verdicts = figures["verdict"][~figures["theirs"].isin(UNPUBLISHED)]
    return [int((verdicts == verdict).sum()) for verdict in VERDICTS]


def count_items_not_run(figures: pd.DataFrame) -> int:
    """Count the items with a figure that is not run."""
    not_run = figures[figures["verdict"] == NOT_RUN]
    return len(not_run[["publication", "item"]].drop_duplicates())


def format_figure(value: float | str | None) -> str:
    """Format a figure with at most four significant digits; None and NaN as an empty string."""
    if value is None or isinstance(value, str):
        return value or ""
    if not isfinite(value):
        return ""
    return f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 1000 else f"{value:.4g}"


def _format_settings(recipes: list[str], key: str, values: Mapping[Any, Any]) -> str:
    """Format the value of a key, or its values with the names of recipes if they differ."""
    if missing := [name for name in recipes if (name, key) not in values]:
        cause = f"no {key} in the recipe or metrics; correct recipes or key"
        raise InputError(f"differences.csv: {', '.join(missing)}: {cause}")
    texts = {}
    for name in recipes:
        value = values[name, key]
        flag = "yes" if value else "no"
        texts[name] = flag if isinstance(value, bool) else format_figure(value)
    if len({*texts.values()}) == 1:
        return texts[recipes[0]]
    return ", ".join(f"{text} ({name})" for name, text in texts.items())


def _find(figure: Mapping[Any, Any], select: Callable[[str, str], pd.DataFrame]) -> dict[str, Any]:
    """Return our figure as `ours`, with the values of NUMBERS."""
    query = figure["ours_query"]
    file = figure["ours_file"]
    nothing = dict.fromkeys(["ours", *NUMBERS])
    if query.startswith("= "):
        return nothing | {"ours": query[2:]}
    if not file:
        if not figure["status"]:
            fix = "add a query, or a status with a reason"
            raise InputError(f"figures.csv: {_describe(figure)}: no figure of ours; {fix}")
        return nothing
    query = " and ".join(part for part in (figure["ours_query_item"], query) if part)
    rows = select(file, query)
    if figure["n"] == SEED:
        return nothing | _average_seeds(figure, rows)
    if len(rows) != 1:
        cause = f"{len(rows)} rows of {file} match `{query}`; one must"
        raise InputError(f"figures.csv: {_describe(figure)}: {cause}")
    [row] = rows.to_dict("records")
    column = figure["ours_column"]
    values: Any = rows[column] if column in row else rows.eval(column)
    ours = values.item()
    if _to_number(ours) is None or isinstance(ours, bool):
        return nothing | {"ours": str(ours)}
    scale = float(figure["scale"] or 1)
    names = [name for name in ("spread", "low", "high") if figure[name]]
    numbers = {name: scale * row[figure[name]] for name in names}
    n = int(row[figure["n"]]) if figure["n"] else None
    return nothing | numbers | {"ours": scale * float(ours), "n": n}


def _average_seeds(figure: Mapping[Any, Any], rows: pd.DataFrame) -> dict[str, Any]:
    """Return mean (`ours`), standard deviation (None for one row) and number `n` of rows."""
    if rows.empty or rows[SEED].duplicated().any():
        counts = f"{len(rows)} rows and {rows[SEED].nunique()} seeds of {figure['ours_file']}"
        cause = f"{counts} match; a row per seed must"
        raise InputError(f"figures.csv: {_describe(figure)}: {cause}")
    values = rows[figure["ours_column"]].astype(float) * float(figure["scale"] or 1)
    spread = round(values.std(), 2) if len(values) > 1 else None
    return {"ours": round(values.mean(), 2), "spread": spread, "n": len(values)}


def _describe(figure: Mapping[Any, Any]) -> str:
    return ", ".join(figure[name] for name in ("publication", "item", "row", "measure"))


def _flatten(tree: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the leaves of nested mappings and lists with their dotted paths."""
    if not isinstance(tree, dict | list):
        yield prefix[:-1], tree
        return
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
        yield from _flatten(value, f"{prefix}{key}.")


def _to_number(value: float | str | None) -> float | None:
    """Return a figure without its spread as a number; None if it is none."""
    text = value.partition(SPREAD)[0] if isinstance(value, str) else value
    try:
        return None if text is None else float(text)
    except ValueError:
        return None
