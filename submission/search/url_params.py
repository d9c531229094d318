"""Parse and build the page's URL parameters."""

from __future__ import annotations

from dataclasses import dataclass, replace
from urllib.parse import parse_qs, urlencode

from submission.errors import UsageError, short
from submission.systems.catalogue import find

DEPTHS = (5, 10, 20)
MOST_SYSTEMS = 4
MOST_FIELDS = 100


@dataclass(frozen=True)
class Asked:
    """The query, its systems, and the hits whose scores are explained."""

    question: str = ""
    systems: tuple[str, ...] = ()
    depth: int = DEPTHS[0]
    why: tuple[str, ...] = ()  # "system docno" pairs

    def explains(self, system: str, docno: str) -> bool:
        """Return whether a hit's score is explained."""
        return f"{system} {docno}" in self.why

    def toggled(self, system: str, docno: str) -> Asked:
        """Return the parameters with a hit's explanation switched on or off."""
        toggled = f"{system} {docno}"
        remaining = tuple(pair for pair in self.why if pair != toggled)
        return replace(self, why=remaining if toggled in self.why else (*remaining, toggled))

    def address(self) -> str:
        """Return the URL of this page."""
        fields = [("q", self.question), *(("system", name) for name in self.systems), ("depth", str(self.depth))]
        return "/?" + urlencode([*fields, *(("why", pair) for pair in self.why)])


def read(query: str, default: Asked) -> Asked:
    """Parse a query string.

    Raises:
        UsageError: unknown or too many systems, an unavailable depth, or too many parameters.
    """
    fields = _fields(query)
    systems = tuple(find(name).name for name in dict.fromkeys(fields.get("system", default.systems)))
    if len(systems) > MOST_SYSTEMS:
        raise UsageError(f"{len(systems)} systems; select at most {MOST_SYSTEMS}")
    depth = fields.get("depth", [str(default.depth)])[-1]
    if depth not in {str(available) for available in (*DEPTHS, default.depth)}:
        raise UsageError(f"depth '{short(depth)}'; expected {', '.join(map(str, DEPTHS))}")
    return Asked(read_question(query), systems, int(depth), tuple(fields.get("why", ())))


def read_question(query: str) -> str:
    """Parse the query text only.

    Raises:
        UsageError: too many parameters.
    """
    return _fields(query).get("q", [""])[-1]


def _fields(query: str) -> dict[str, list[str]]:
    try:
        return parse_qs(query, keep_blank_values=True, errors="replace", max_num_fields=MOST_FIELDS)
    except ValueError:
        raise UsageError(f"URL with more than {MOST_FIELDS} parameters; start again from the home page") from None
