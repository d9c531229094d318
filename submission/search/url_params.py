"""Parsing and building of the search page's URL parameters."""

from __future__ import annotations

from dataclasses import dataclass, replace
from urllib.parse import parse_qs, urlencode

from submission.errors import UsageError, abbreviate
from submission.systems.catalogue import get_system

DEPTHS = (5, 10, 20)
MAX_SYSTEMS = 4
MAX_FIELDS = 100


@dataclass(frozen=True)
class PageParams:
    """Parameters of a page: the query, its systems, and the hits whose scores are explained."""

    query: str = ""
    systems: tuple[str, ...] = ()
    depth: int = DEPTHS[0]
    explained: tuple[str, ...] = ()  # "system docno" pairs

    def is_explained(self, system: str, docno: str) -> bool:
        return f"{system} {docno}" in self.explained

    def toggle_explanation(self, system: str, docno: str) -> PageParams:
        """Return the parameters with a hit's explanation switched on or off."""
        hit = f"{system} {docno}"
        remaining = tuple(pair for pair in self.explained if pair != hit)
        return replace(self, explained=remaining if hit in self.explained else (*remaining, hit))

    def to_url(self) -> str:
        fields = [("q", self.query), *(("system", name) for name in self.systems), ("depth", str(self.depth))]
        return "/?" + urlencode([*fields, *(("explain", pair) for pair in self.explained)])


def parse(query: str, default: PageParams) -> PageParams:
    """Parse a query string. Raises UsageError for an unknown system or depth, or too many systems or parameters."""
    fields = _parse_fields(query)
    systems = tuple(get_system(name).name for name in dict.fromkeys(fields.get("system", default.systems)))
    if len(systems) > MAX_SYSTEMS:
        raise UsageError(f"{len(systems)} systems selected; select at most {MAX_SYSTEMS}")
    depth = fields.get("depth", [str(default.depth)])[-1]
    if depth not in map(str, (*DEPTHS, default.depth)):
        raise UsageError(f"invalid depth '{abbreviate(depth)}'; expected one of {', '.join(map(str, DEPTHS))}")
    return PageParams(parse_query_text(query), systems, int(depth), tuple(fields.get("explain", ())))


def parse_query_text(query: str) -> str:
    """Parse the query text only."""
    return _parse_fields(query).get("q", [""])[-1]


def _parse_fields(query: str) -> dict[str, list[str]]:
    try:
        return parse_qs(query, keep_blank_values=True, errors="replace", max_num_fields=MAX_FIELDS)
    except ValueError:
        raise UsageError(f"URL with more than {MAX_FIELDS} parameters; start again from the home page") from None
