"""The parameters of the page's address, read and written."""

from __future__ import annotations

from dataclasses import dataclass, replace
from urllib.parse import parse_qs, urlencode

from submission.errors import UsageError, short
from submission.systems.catalogue import find

DEPTHS = (5, 10, 20)
MOST_SYSTEMS = 4  # side by side
MOST_FIELDS = 100  # of an address


@dataclass(frozen=True)
class Asked:
    """A question, whom it is put to, and of which arguments it is to be said why they have their scores."""

    question: str = ""
    systems: tuple[str, ...] = ()
    depth: int = DEPTHS[0]
    why: tuple[str, ...] = ()  # a system's name and a document's, with a blank between

    def explains(self, system: str, docno: str) -> bool:
        """Tell whether an argument is to be explained."""
        return f"{system} {docno}" in self.why

    def toggled(self, system: str, docno: str) -> Asked:
        """Return the parameters with one explanation more, or without it."""
        one = f"{system} {docno}"
        others = tuple(pair for pair in self.why if pair != one)
        return replace(self, why=others if one in self.why else (*others, one))

    def address(self) -> str:
        """Return the address of the page that answers this."""
        fields = [("q", self.question), *(("system", name) for name in self.systems), ("depth", str(self.depth))]
        return "/?" + urlencode([*fields, *(("why", pair) for pair in self.why)])


def read(query: str, default: Asked) -> Asked:
    """Parse the query string of an address.

    Raises:
        UsageError: an unknown system, too many, a depth that is not offered, too many fields.
    """
    fields = _fields(query)
    systems = tuple(find(name).name for name in dict.fromkeys(fields.get("system", default.systems)))
    if len(systems) > MOST_SYSTEMS:
        raise UsageError(f"{len(systems)} systems; expected at most {MOST_SYSTEMS}: they stand side by side")
    depth = fields.get("depth", [str(default.depth)])[-1]
    if depth not in {str(number) for number in (*DEPTHS, default.depth)}:
        raise UsageError(f"depth '{short(depth)}'; expected {', '.join(map(str, DEPTHS))}")
    return Asked(read_question(query), systems, int(depth), tuple(fields.get("why", ())))


def read_question(query: str) -> str:
    """The question alone. Raises UsageError: too many fields."""
    return _fields(query).get("q", [""])[-1]


def _fields(query: str) -> dict[str, list[str]]:
    try:
        return parse_qs(query, keep_blank_values=True, errors="replace", max_num_fields=MOST_FIELDS)
    except ValueError:
        raise UsageError(f"an address of more than {MOST_FIELDS} fields; ask again from the first page") from None
