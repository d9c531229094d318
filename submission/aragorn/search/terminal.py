"""Render results for a terminal, side by side if it is wide enough."""

import re
import sys
from collections.abc import Iterator
from itertools import zip_longest

from rich import box
from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from aragorn.search.results import Hit, SearchResults, SystemResults, select_largest_contributions
from aragorn.text.normalisation import sanitise

PIPE_WIDTH = 100  # width if stdout is not a terminal
MIN_WIDTH = 20  # rich drops wide characters in narrower consoles
MIN_COLUMN_WIDTH = 44  # minimum width of a system's column
MAX_TEXT_WIDTH = 110  # per system; longer lines are hard to read
INDENT = 5
MAX_CONTRIBUTIONS = 5  # contributions shown per score
STANCE_STYLES = {"PRO": "bold green", "CON": "bold red"}
MATCH = "bold underline yellow"


def open_console() -> Console:
    """Open a console on stdout that does not interpret markup in texts."""
    width = None if sys.stdout.isatty() else PIPE_WIDTH
    console = Console(file=sys.stdout, width=width, markup=False, highlight=False, emoji=False)
    console.width = max(MIN_WIDTH, console.width)
    return console


def print_results(results: SearchResults, n_documents: int, console: Console) -> None:
    """Print the results of a query; without colours, matches are enclosed in asterisks."""
    n_systems = len(results.system_results)
    column_width = (console.width - 3 * (n_systems - 1)) // n_systems
    summary = f"   {n_documents} arguments, {results.seconds:.2f} s"
    console.print(Text.assemble((_clean(results.query), "bold"), (summary, "dim")), end="\n\n")
    blocks = [
        list(_render_system(system_results, console)) for system_results in results.system_results
    ]
    if n_systems > 1 and column_width >= MIN_COLUMN_WIDTH:
        table = Table(
            box=box.MINIMAL, show_header=False, show_edge=False, pad_edge=False, expand=True
        )
        for _ in blocks:
            table.add_column(ratio=1, overflow="fold")
        for cells in zip_longest(*blocks, fillvalue=Group()):
            table.add_row(*cells)
        console.print(
            table, width=min(console.width, MAX_TEXT_WIDTH * n_systems + 3 * (n_systems - 1))
        )
    else:
        for block in blocks:
            console.print(Group(*block), width=min(console.width, MAX_TEXT_WIDTH))


def _render_system(results: SystemResults, console: Console) -> Iterator[Group]:
    total = "" if results.error else f"  {results.n_ranked} results"
    heading = [Text.assemble((results.system, "bold blue"), (total, "dim")), Text()]
    if results.error:
        heading += [_style(f"failed: {results.error}"), Text()]
    elif not results.hits:
        heading += [
            _style("no results: no argument matches the query; use other words, or another system"),
            Text(),
        ]
    yield Group(*heading)
    for hit in results.hits:
        yield _render_hit(hit, console)


def _render_hit(hit: Hit, console: Console) -> Group:
    stance = hit.metadata.stance
    rank = f"{hit.rank:>3}  "
    score = f"  {hit.score:.4f}"
    head = Text.assemble(
        (rank, "bold"), (stance or " - ", STANCE_STYLES.get(stance, "dim")), (score, "dim")
    )
    contributions = ""
    if hit.explanation is not None:
        rows = select_largest_contributions(hit.explanation, MAX_CONTRIBUTIONS)
        values = ", ".join(f"{row.label} {row.value:+.3f}" for row in rows)
        contributions = f"contributions: {values}"
    source = _style("  ".join(text for text in (hit.metadata.portal, hit.docno) if text), "dim")
    texts = [
        _style(hit.conclusion, "bold"),
        _render_snippet(hit, console),
        _style(contributions, "cyan"),
        source,
    ]
    return Group(head, *(Padding(text, (0, 0, 0, INDENT)) for text in texts if text), Text())


def _render_snippet(hit: Hit, console: Console) -> Text:
    premise = hit.premise
    start, end = hit.snippet.span
    text = Text("… " if premise[:start].strip() else "")
    for match in hit.snippet.visible_matches:
        text.append(_clean(premise[start : match.start]))
        term = sanitise(premise[match.start : match.end])
        text.append(term, MATCH) if console.color_system else text.append(f"*{term}*")
        start = match.end
    return text.append(_clean(premise[start:end])).append(" …" if premise[end:].strip() else "")


def _style(text: str, style: str = "") -> Text:
    return Text(_clean(text), style)


def _clean(text: str) -> str:
    return re.sub(" +", " ", sanitise(text))
