"""Compare the figures of the rebuilt publications with those of this project's result files.

`training/results/published/NAME.csv` holds the figures of a publication as printed, as `item row
measure theirs`; `item` is a table or figure. `NAME.toml` says where the corresponding figures of
this project are:

title = "Entezari 2020"                  # citation of the publication
[[item]]
name = "Table 4.2"                       # as in the CSV
title = "Validation of the networks"     # what the table or figure shows
data = "110 conclusions of the excerpt"  # n and data of our figures
command = "aragorn-training fit NAME"  # writes our figures
file = "trials_gru.csv"                  # below training/results, or a path from the project's
folder; or per row where = { row = "selected" }             # filter of all rows of a CSV file
value = "value"                          # column of a CSV file; dotted path in a JSON or TOML file
spread = "value_sd"                      # optional column with the standard deviation over seeds
low = "ci_low"                           # optional columns with an interval
high = "ci_high"
scale = 100                              # factor of our figures; default: 1
tolerance = 0.5                          # largest difference of a reproduced figure without spread
or interval; default: 0 lower_is_better = true                   # default: false
rows = { GRU = { trial = "gru" } }       # filter of each row; `file`, `value`, `spread` and `scale`
may be overridden measures = { MAP = { measure = "MAP" } } # the same for each measure; default: no
filter cause = "…"                              # why our figures differ
not_comparable = "…"                     # the verdict of all rows, with its cause; our figures are
shown if they are selected not_run = "…"                            # the verdict of all rows, with
its reason [item.exceptions]                        # verdicts and settings of single rows or
measures "Spanish-STS" = { not_run = "…" }
"BWS" = { cause = "…" }                  # any key of an item
"""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import hypot, isfinite
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
from aragorn.errors import InputError
from aragorn.paths import PROJECT_DIR
from aragorn.storage.atomic_files import write_atomic

from aragorn_training.paths import PUBLISHED, RESULTS
from aragorn_training.published import SPREAD, read_figures

PAGE = RESULTS / "published.md"
REPRODUCED, BETTER, WORSE, NOT_COMPARABLE, NOT_RUN = (
    "reproduced",
    "better",
    "worse",
    "not comparable",
    "not run",
)
VERDICTS = (REPRODUCED, BETTER, WORSE, NOT_COMPARABLE, NOT_RUN)
N_LARGEST = 5  # number of differences listed at the top of the page
SPREADS = 2.0  # standard deviations within which a figure is reproduced
# keys of rows and measures that are no filters
OPTIONS = {"file", "value", "spread", "low", "high", "scale", "ours"}


@dataclass(frozen=True)
class Figure:
    """A published figure and the corresponding one of this project.

    `ours` is None if there is none; `reason` is that of the verdict or of a difference.
    """

    row: str
    measure: str
    theirs: str
    ours: float | str | None
    verdict: str
    reason: str

    @property
    def difference(self) -> float | None:
        """Return ours - theirs; None unless both are numbers."""
        theirs, ours = _to_number(self.theirs), _to_number(self.ours)
        return None if theirs is None or ours is None else ours - theirs

    @property
    def relative_difference(self) -> float:
        """Return the absolute difference as a share of the published figure; 0 if it is
        undefined."""
        theirs = _to_number(self.theirs)
        return abs(self.difference / theirs) if self.difference is not None and theirs else 0.0


@dataclass(frozen=True)
class Item:
    """A published table or figure."""

    name: str
    title: str
    data: str
    command: str
    cause: str
    figures: list[Figure]


@dataclass(frozen=True)
class Publication:
    """A publication with its tables and figures."""

    name: str
    title: str
    items: list[Item]

    def count_verdicts(self) -> dict[str, int]:
        """Count the figures per verdict."""
        verdicts = [figure.verdict for item in self.items for figure in item.figures]
        return {verdict: verdicts.count(verdict) for verdict in VERDICTS}


def write_published(page: Path = PAGE) -> None:
    """Write the page of all publications as Markdown, or as HTML if its suffix is .html.

    Raises:
        InputError: If a published figure has no counterpart and no reason, or a selection does not
            match one figure.
        OutputError: If the page cannot be written.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=page.suffix == ".html", trim_blocks=True,
        lstrip_blocks=True, keep_trailing_newline=True, undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    template = environment.get_template(
        "published.html.jinja" if page.suffix == ".html" else "published.md.jinja"
    )
    publications = [load_publication(file) for file in sorted(PUBLISHED.glob("*.toml"))]
    sources = pd.read_csv(PUBLISHED / "sources.csv", keep_default_na=False)
    content = template.render(
        publications=publications, verdicts=VERDICTS, largest=find_largest_differences(publications),
        n_not_run=count_items_not_run(publications),
        columns=list(sources), sources=sources.to_numpy().tolist(), format=format_figure,
    )  # fmt: skip
    write_atomic(page, content)


def load_publication(file: Path) -> Publication:
    """Load a publication's figures and ours from its .toml file and the .csv file of the same
    name."""
    config = tomllib.loads(file.read_text(encoding="utf-8"))
    table = read_figures(file.with_suffix(".csv"))
    tables = {str(name): rows for name, rows in table.groupby("item", sort=False)}
    items = {str(item["name"]): item for item in config["item"]}
    if unmatched := sorted(tables.keys() ^ items.keys()):
        raise InputError(
            f"{file}: in the .csv or .toml file only: {', '.join(unmatched)}; add the missing items"
        )
    return Publication(
        file.stem, config["title"], [_load_item(items[name], tables[name], file) for name in items]
    )


def count_items_not_run(publications: list[Publication]) -> int:
    """Count the items with a figure that is not run."""
    items = [item for publication in publications for item in publication.items]
    return sum(any(figure.verdict == NOT_RUN for figure in item.figures) for item in items)


def find_largest_differences(
    publications: list[Publication],
) -> list[tuple[Publication, Item, Figure]]:
    """Return the figures with the N_LARGEST relative differences among those that are better or
    worse, one per item.

    A figure that several items or publications print is returned once.
    """
    largest = [
        (publication, item, max(comparable, key=lambda figure: figure.relative_difference))
        for publication in publications
        for item in publication.items
        if (comparable := [figure for figure in item.figures if figure.verdict in (BETTER, WORSE)])
    ]
    ordered = sorted(largest, key=lambda entry: -entry[2].relative_difference)
    unique: dict[tuple[str, str, str], tuple[Publication, Item, Figure]] = {}
    for publication, item, figure in ordered:
        unique.setdefault((figure.row, figure.measure, figure.theirs), (publication, item, figure))
    return list(unique.values())[:N_LARGEST]


def format_figure(value: float | str | None) -> str:
    """Format a figure with at most four significant digits; None as an empty string."""
    if value is None or isinstance(value, str):
        return value or ""
    return f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 1000 else f"{value:.4g}"


def _load_item(item: Mapping[str, Any], table: pd.DataFrame, file: Path) -> Item:
    columns = ["row", "measure", "theirs"]
    figures = [
        _load_figure(item, row, measure, theirs, file)
        for row, measure, theirs in table[columns].to_numpy()
    ]
    return Item(
        item["name"],
        item["title"],
        item.get("data", ""),
        item.get("command", ""),
        item.get("cause", ""),
        figures,
    )


def _load_figure(
    item: Mapping[str, Any], row: str, measure: str, theirs: str, file: Path
) -> Figure:
    exceptions = item.get("exceptions", {})
    settings = (
        item
        | exceptions.get(row, {})
        | exceptions.get(measure, {})
        | exceptions.get(f"{row}, {measure}", {})
    )
    if reason := settings.get("not_run"):
        return Figure(row, measure, theirs, None, NOT_RUN, reason)
    selection = _select(settings, row, measure, file)
    reason = settings.get("not_comparable", "")
    cause = settings["cause"] if settings.get("cause") != item.get("cause") else ""
    if selection is None and not reason:
        raise InputError(
            f"{file}: {item['name']}: no figure of ours for {row}, {measure}; add a selection, or a reason"
        )
    ours = None if selection is None else selection["ours"]
    verdict = NOT_COMPARABLE if selection is None or reason else _judge(theirs, selection, settings)
    return Figure(row, measure, theirs, ours, verdict, reason or cause)


def _select(
    settings: Mapping[str, Any], row: str, measure: str, file: Path
) -> dict[str, Any] | None:
    """Return our figure as `ours`, with `spread`, `low` and `high` if there are any; None if none
    is selected."""
    rows, measures = settings.get("rows"), settings.get("measures")
    if (rows is not None and row not in rows) or (measures is not None and measure not in measures):
        return None
    options = {
        "scale": 1.0,
        **settings,
        **(rows or {}).get(row, {}),
        **(measures or {}).get(measure, {}),
    }
    if "ours" in options:  # a setting without a file, such as "none"
        return {"ours": options["ours"]}
    if "file" not in options:
        return None
    path = PROJECT_DIR / options["file"] if "/" in options["file"] else RESULTS / options["file"]
    if path.suffix != ".csv":
        value = _read_tree(path)
        for key in options["value"].split("."):
            value = value[int(key) if isinstance(value, list) else key]
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return {"ours": options["scale"] * value if is_number else str(value)}
    filters = {**settings.get("where", {})}
    for part in ((rows or {}).get(row, {}), (measures or {}).get(measure, {})):
        filters |= {key: value for key, value in part.items() if key not in OPTIONS}
    table = _read_csv(path)
    for column, value in filters.items():
        table = table[table[column] == value]
    if len(table) != 1:
        raise InputError(
            f"{file}: {settings['name']}: {len(table)} rows of {path.name} match {row}, {measure} ({filters})"
        )
    columns = {
        "ours": options["value"],
        **{name: options[name] for name in ("spread", "low", "high") if name in options},
    }
    values = {name: table[column].iloc[0] for name, column in columns.items()}
    if _to_number(values["ours"]) is None:
        return {"ours": values["ours"]}
    return {name: options["scale"] * float(value) for name, value in values.items()}


def _judge(theirs: str, selection: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """Return REPRODUCED if our figure is the published one within its interval, spread or
    tolerance, else BETTER or WORSE."""
    published, ours = _to_number(theirs), _to_number(selection["ours"])
    if published is None or ours is None:
        return REPRODUCED if theirs == selection["ours"] else NOT_COMPARABLE
    tolerance = float(settings.get("tolerance", 0))
    spreads = (selection.get("spread", 0.0), _to_number(theirs.partition(SPREAD)[2]) or 0.0)
    tolerance = max(tolerance, SPREADS * hypot(*(spread for spread in spreads if isfinite(spread))))
    low, high = selection.get("low", ours), selection.get("high", ours)
    if low - tolerance <= published <= high + tolerance:
        return REPRODUCED
    return BETTER if (ours > published) != settings.get("lower_is_better", False) else WORSE


def _to_number(value: float | str | None) -> float | None:
    try:
        return (
            None
            if value is None
            else float(value.partition(SPREAD)[0] if isinstance(value, str) else value)
        )
    except ValueError:
        return None


@cache
def _read_csv(path: Path) -> pd.DataFrame:
    return pd.read_csv(path)


@cache
def _read_tree(path: Path) -> Any:
    text = path.read_text(encoding="utf-8")
    return tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
