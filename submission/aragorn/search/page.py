"""Render the web page and parse its URL parameters."""

import codecs
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from aragorn.errors import UsageError, abbreviate
from aragorn.explanation import Highlight
from aragorn.search.results import SearchResults, select_largest_contributions
from aragorn.search.snippets import Span
from aragorn.systems.catalogue import SYSTEMS, get_system
from aragorn.systems.enrichment import WEIGHT_LEVELS
from aragorn.text.normalisation import sanitise

DEPTHS = (5, 10, 20)
MAX_SYSTEMS = 4
MAX_FIELDS = 100  # URL parameters
MAX_CONTRIBUTIONS = 12  # contributions shown per score; the remaining ones are summed
# stance towards the argument's conclusion, not the query
STANCE_VERBS = {"PRO": "supports", "CON": "attacks"}
# error handler that decodes bytes which are not UTF-8 as Latin-1
LATIN_1_FALLBACK = "latin-1 fallback"
codecs.register_error(
    LATIN_1_FALLBACK,
    lambda error: (error.object[error.start : error.end].decode("latin-1"), error.end),  # type: ignore[attr-defined]
)


@dataclass(frozen=True)
class PageParams:
    """URL parameters of a page: the query, its systems, and the hits whose scores are explained."""

    query: str = ""
    systems: tuple[str, ...] = ()
    depth: int = DEPTHS[0]
    explained_hits: tuple[str, ...] = ()  # "system docno" pairs

    def is_explained(self, system: str, docno: str) -> bool:
        return f"{system} {docno}" in self.explained_hits

    def toggle_explanation(self, system: str, docno: str) -> Self:
        hit = f"{system} {docno}"
        remaining_pairs = tuple(pair for pair in self.explained_hits if pair != hit)
        return replace(
            self,
            explained_hits=remaining_pairs
            if hit in self.explained_hits
            else (*remaining_pairs, hit),
        )

    def show_more(self) -> Self | None:
        """Return the parameters with the next greater depth; None if there is none."""
        depths = [depth for depth in DEPTHS if depth > self.depth]
        return replace(self, depth=depths[0]) if depths else None

    def to_url(self) -> str:
        fields = [
            ("q", self.query),
            *(("system", name) for name in self.systems),
            ("depth", str(self.depth)),
        ]
        # relative, because a proxy may serve the page below another path
        return "?" + urlencode([*fields, *(("explain", pair) for pair in self.explained_hits)])


def parse_params(query_string: str, default: PageParams) -> PageParams:
    """Parse a URL's query string; take missing systems or a missing depth from `default`.

    Raises UsageError for an unknown system, another depth, or too many systems or parameters.
    """
    fields = _parse_fields(query_string)
    systems = tuple(
        get_system(name).name for name in dict.fromkeys(fields.get("system", default.systems))
    )
    if len(systems) > MAX_SYSTEMS:
        raise UsageError(f"{len(systems)} systems selected; select at most {MAX_SYSTEMS}")
    depth = fields.get("depth", [str(default.depth)])[-1]
    depths = [str(value) for value in sorted({*DEPTHS, default.depth})]
    if depth not in depths:
        raise UsageError(
            f"invalid depth '{abbreviate(depth)}'; expected one of {', '.join(depths)}"
        )
    return PageParams(
        parse_query_text(query_string), systems, int(depth), tuple(fields.get("explain", ()))
    )


def parse_query_text(query_string: str) -> str:
    """Return the text of the search query in a URL's query string; "" if there is none."""
    return _parse_fields(query_string).get("q", [""])[-1]


def _parse_fields(query_string: str) -> dict[str, list[str]]:
    try:
        return parse_qs(
            query_string, keep_blank_values=True, errors=LATIN_1_FALLBACK, max_num_fields=MAX_FIELDS
        )
    except ValueError:
        raise UsageError(
            f"URL has more than {MAX_FIELDS} parameters; start again from the home page"
        ) from None


@dataclass(frozen=True)
class SiteSettings:
    """Content that all pages of a server share."""

    corpus_name: str  # display name of the corpus
    available_systems: Sequence[str]  # systems whose checkpoints are available
    examples: Sequence[str]  # example queries


def render(site: SiteSettings, params: PageParams, title: str, **blocks: Any) -> str:
    """Render a page with a form of `params`; `blocks` are the variables of its main part."""
    template = _create_environment().get_template("page.html.jinja")
    return template.render(
        site=site, params=params, title=title, depths=sorted({*DEPTHS, params.depth}), **blocks
    )


def render_home(site: SiteSettings, params: PageParams) -> str:
    """Render the home page, with links to example queries."""
    links = [
        (query, PageParams(query, params.systems, params.depth).to_url()) for query in site.examples
    ]
    return render(site, params, "Aragorn: argument search", example_links=links)


def render_results(
    site: SiteSettings, params: PageParams, results: SearchResults, n_documents: int
) -> str:
    summary = f"{n_documents:,} arguments ({site.corpus_name}), {results.seconds:.2f} s"
    title = f"{results.query} · Aragorn"
    return render(site, params, title, summary=summary, results=results.system_results)


def split_text(
    text: str, matches: Sequence[Span], highlights: Sequence[Highlight], span: Span
) -> Iterator[tuple[str, bool, str]]:
    """Yield the segments of a span: text, whether it is a match, and label ("": none)."""
    matching_indices = {
        index for match in matches if _is_inside(match, span) for index in range(*match)
    }
    labels = {
        index: highlight.label
        for highlight in highlights
        if _is_inside(highlight, span)
        for index in range(highlight.start, highlight.end)
    }
    states = [(index in matching_indices, labels.get(index, "")) for index in range(*span)]
    boundaries = [
        span.start + index
        for index, (previous, current) in enumerate(pairwise(states), 1)
        if previous != current
    ]
    for start, end in pairwise([span.start, *boundaries, span.end]):
        yield text[start:end], start in matching_indices, labels.get(start, "")


def _is_inside(inner: Span | Highlight, outer: Span) -> bool:
    return outer.start <= inner.start and inner.end <= outer.end


@cache
def _create_environment() -> Environment:
    environment = Environment(
        autoescape=True,
        finalize=sanitise_value,
        loader=FileSystemLoader(Path(__file__).parent),
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    environment.globals |= {
        "descriptions": {name: system.description for name, system in SYSTEMS.items()},
        "select_largest_contributions": select_largest_contributions,
        "max_contributions": MAX_CONTRIBUTIONS,
        "span": Span,
        "split_text": split_text,
        "stances": STANCE_VERBS,
        "weights": [f"weight-{level}" for level in range(1, WEIGHT_LEVELS + 1)],
    }
    return environment


def sanitise_value(value: object) -> str:
    """Convert a value in a template to text without invisible characters, unless it is markup."""
    return value if isinstance(value, Markup) else "\n".join(map(sanitise, str(value).split("\n")))
