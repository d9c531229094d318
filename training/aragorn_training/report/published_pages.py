"""Write the pages of published figures: an overview and a page per publication as Markdown, or all
as one HTML page."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from aragorn.storage.atomic_files import create_directory, write_atomic
from aragorn_training.formatting import create_environment
from aragorn_training.report.published import (
    PUBLISHED,
    RESULTS,
    SETTING,
    SIZE,
    SPREAD,
    VERDICTS,
    compare_figures,
    count_items_not_run,
    count_verdicts,
    format_figure,
    read_differences,
    read_highlights,
    read_texts,
)

PAGE = RESULTS / "published.md"


def write_published(page: Path = PAGE) -> None:
    """Write the overview, and a page per publication into the directory of its name, as Markdown;
    or one page of all as HTML.

    Raises InputError if a figure has no counterpart and no reason, or a query does not match one
    row.
    """
    is_html = page.suffix == ".html"
    environment = create_environment(__file__, autoescape=is_html, keep_trailing_newline=True)
    formats = {"format": format_figure, "format_ours": format_ours}
    environment.globals |= {**formats, "verdicts": VERDICTS}
    figures = compare_figures()
    sources = read_texts(PUBLISHED / "sources.csv")
    publications = [
        _build_publication(name, title, figures)
        for name, title in read_texts(PUBLISHED / "publications.csv").to_numpy()
    ]
    template = environment.get_template(f"published.{'html' if is_html else 'md'}.jinja")
    content = template.render(
        publications=publications,
        highlights=read_highlights(figures),
        n_not_run=count_items_not_run(figures),
        differences=read_differences().to_numpy().tolist(),
        columns=list(sources),
        sources=sources.to_numpy().tolist(),
    )
    write_atomic(page, content, rb"(?s).*Published figures and ours")
    if not is_html:
        template = environment.get_template("publication.md.jinja")
        create_directory(page.with_suffix(""))
        for publication in publications:
            file = page.with_suffix("") / f"{publication['name']}.md"
            content = template.render(publication=publication)
            write_atomic(file, content, rb"# .*: published figures and ours")


def format_ours(figure: Mapping[Any, Any]) -> str:
    """Format our figure with its interval or standard deviation."""
    ours, low, high, spread = (
        format_figure(figure[name]) for name in ("ours", "low", "high", "spread")
    )
    if low:
        return f"{ours} [{low}, {high}]"
    return f"{ours}{SPREAD}{spread}" if spread else ours


def _build_publication(name: str, title: str, figures: pd.DataFrame) -> dict[str, Any]:
    """Build what the templates show of a publication: its items and counts of verdicts."""
    ours = figures[figures["publication"] == name]
    items = [_build_item(rows) for _, rows in ours.groupby("item", sort=False)]
    is_setting = ours["kind"].isin([SETTING, SIZE])
    counts = {
        "results": count_verdicts(ours[~is_setting]),
        "settings and sizes": count_verdicts(ours[is_setting]),
    }
    return {"name": name, "title": title, "items": items, "counts": counts}


def _build_item(rows: pd.DataFrame) -> dict[str, Any]:
    """Build what the templates show of an item; reasons but the item's are numbered `notes`."""
    reasons = rows["reason"].where(rows["reason"] != rows["reason_item"], "")
    notes = {text: mark for mark, text in enumerate(reasons[reasons != ""].unique(), 1)}
    verdicts = [
        f"{verdict} ({notes[reason]})" if reason else verdict
        for verdict, reason in zip(rows["verdict"], reasons, strict=True)
    ]
    figures = rows.assign(verdict_cell=verdicts).to_dict("records")
    return {**rows.iloc[0], "figures": figures, "notes": notes}
