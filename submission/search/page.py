"""Rendering of the web page: query form, system selection and results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from submission.search.highlights import WEIGHT_LEVELS, Highlight
from submission.search.results import Hit, SearchResults, largest_contributions
from submission.search.sanitise import sanitise
from submission.search.snippets import Span
from submission.search.url_params import DEPTHS, PageParams
from submission.systems.catalogue import SYSTEMS

STANCES = {"PRO": "supports", "CON": "attacks"}  # stance towards the argument's conclusion, not the query
MAX_CONTRIBUTIONS = 12  # shown per score; the remaining ones are summed


@dataclass(frozen=True)
class SiteSettings:
    """Settings shared by all pages."""

    corpus_name: str  # display name of the corpus
    available_systems: Sequence[str]  # systems whose checkpoints are available
    examples: Sequence[str]  # example queries


def render_home(site: SiteSettings, params: PageParams) -> str:
    """Render the home page, with links to example queries."""
    links = [(query, PageParams(query, params.systems, params.depth).to_url()) for query in site.examples]
    return _render(site, params, title="Aragorn: argument search", example_links=links)


def render_results(site: SiteSettings, params: PageParams, results: SearchResults, document_count: int) -> str:
    summary = f"{document_count:,} arguments ({site.corpus_name}), {results.seconds:.2f} s"
    return _render(site, params, title=f"{results.query} · Aragorn", summary=summary, results=results.systems)


def render_error(site: SiteSettings, params: PageParams, message: str) -> str:
    return _render(site, params, title="Error · Aragorn", error=message)


def split_segments(hit: Hit, span: Span) -> Iterator[tuple[str, bool, str]]:
    """Split a span of a premise into segments; yield each text, whether it is a match, and its highlight label ("": none)."""
    matches = {index for match in hit.snippet.matches if _is_inside(match, span) for index in range(*match)}
    highlights = [highlight for highlight in hit.highlights if _is_inside(highlight, span)]
    labels = {index: highlight.label for highlight in highlights for index in range(highlight.start, highlight.end)}
    states = [(index in matches, labels.get(index, "")) for index in range(*span)]
    boundaries = [span.start + index for index, (previous, current) in enumerate(pairwise(states), 1) if previous != current]
    for start, end in pairwise([span.start, *boundaries, span.end]):
        yield hit.premise[start:end], start in matches, labels.get(start, "")


def _is_inside(inner: Span | Highlight, outer: Span) -> bool:
    return outer.start <= inner.start and inner.end <= outer.end


def _render(site: SiteSettings, params: PageParams, title: str, **blocks: Any) -> str:
    depths = sorted({*DEPTHS, params.depth})
    return _environment().get_template("page.html.jinja").render(site=site, params=params, title=title, depths=depths, **blocks)


@cache
def _environment() -> Environment:
    environment = Environment(
        autoescape=True,
        finalize=_sanitise,
        loader=FileSystemLoader(Path(__file__).parent),
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    environment.globals |= {
        "descriptions": {name: system.description for name, system in SYSTEMS.items()},
        "largest_contributions": largest_contributions,
        "max_contributions": MAX_CONTRIBUTIONS,
        "span": Span,
        "split_segments": split_segments,
        "stances": STANCES,
        "weights": [f"weight-{level}" for level in range(1, WEIGHT_LEVELS + 1)],
    }
    return environment


def _sanitise(value: object) -> str:
    """Sanitise each line of a value that a template inserts; jinja2 escapes the value afterwards."""
    return value if isinstance(value, Markup) else "\n".join(map(sanitise, str(value).split("\n")))
