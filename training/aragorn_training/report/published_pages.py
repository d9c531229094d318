"""Write the pages of published figures: an overview and a page per publication as Markdown, or all
as one HTML page."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd

from aragorn.storage.atomic_files import create_directory, write_atomic
from aragorn_training.published import PUBLISHED, RESULTS, SPREAD, read_texts
from aragorn_training.report.published import (
    SETTING,
    SIZE,
    VERDICTS,
    compare_figures,
    count_items_not_run,
    count_verdicts,
    find_largest_differences,
    format_figure,
    read_differences,
    read_highlights,
)

PAGE = RESULTS / "published.md"


def write_published(page: Path = PAGE) -> None:
    """Write the overview, and a page per publication into the directory of its name, as Markdown;
    or one page of all as HTML.

    Raises:
        InputError: If a published figure has no counterpart and no reason, or a query does not
            match one row.
        OutputError: If a page cannot be written.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=page.suffix == ".html",
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.globals |= {
        "format": format_figure,
        "format_ours": format_ours,
        "verdicts": VERDICTS,
    }
    figures = compare_figures()
    sources = read_texts(PUBLISHED / "sources.csv")
    titles = dict(read_texts(PUBLISHED / "publications.csv").to_numpy())
    publications = [_build_publication(name, title, figures) for name, title in titles.items()]
    template = environment.get_template(
        "published.html.jinja" if page.suffix == ".html" else "published.md.jinja"
    )
    content = template.render(
        publications=publications,
        titles=titles,
        highlights=read_highlights(figures),
        n_not_run=count_items_not_run(figures),
        largest=find_largest_differences(figures).to_dict("records"),
        differences=read_differences().to_numpy().tolist(),
        columns=list(sources),
        sources=sources.to_numpy().tolist(),
    )
    write_atomic(page, content, rb"(?s).*Published figures and ours")
    if page.suffix != ".html":
        template = environment.get_template("publication.md.jinja")
        create_directory(page.with_suffix(""))
        for publication in publications:
            write_atomic(
                page.with_suffix("") / f"{publication['name']}.md",
                template.render(publication=publication),
                rb"# .*: published figures and ours",
            )


def format_ours(figure: Mapping[Any, Any]) -> str:
    """Format our figure with its interval or standard deviation."""
    ours, low, high, spread = (
        format_figure(figure[name]) for name in ("ours", "low", "high", "spread")
    )
    if low:
        return f"{ours} [{low}, {high}]"
    return f"{ours}{SPREAD}{spread}" if spread else ours


def _build_publication(name: str, title: str, figures: pd.DataFrame) -> dict[str, Any]:
    """Build what the templates show of a publication: its items with their figures, and the numbers
    per verdict."""
    ours = figures[figures["publication"] == name]
    items = [_build_item(rows) for _, rows in ours.groupby("item", sort=False)]
    is_setting = ours["kind"].isin([SETTING, SIZE])
    counts = {
        "results": count_verdicts(ours[~is_setting]),
        "settings and sizes": count_verdicts(ours[is_setting]),
    }
    return {"name": name, "title": title, "items": items, "counts": counts}


def _build_item(rows: pd.DataFrame) -> dict[str, Any]:
    """Build what the templates show of an item; reasons other than the item's are numbered `notes`,
    each printed once."""
    reasons = rows["reason"].where(rows["reason"] != rows["reason_item"], "")
    notes = {text: mark for mark, text in enumerate(reasons[reasons != ""].unique(), 1)}
    verdicts = [
        f"{verdict} ({notes[reason]})" if reason else verdict
        for verdict, reason in zip(rows["verdict"], reasons, strict=True)
    ]
    figures = rows.assign(verdict_cell=verdicts).to_dict("records")
    return {**rows.iloc[0], "figures": figures, "notes": notes}
