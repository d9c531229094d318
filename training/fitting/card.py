"""A checkpoint's README: what it is, what it was trained on, what validation said. Written from the facts, never by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def card(provenance: Mapping[str, Any], metrics: Mapping[str, Any]) -> str:
    """The card as Markdown."""
    recipe = provenance["recipe"]
    if recipe["training"]["epochs"]:
        way, what = "trained", "Trained"
    else:
        way, what = "its encoder as it comes, not trained further; made", "Validated"
    lines = [
        f"# {recipe['name']}",
        "",
        f"The ranker `{recipe['ranker']}`, {way} by `python -m training fit {recipe['name']}`.",
        "",
        *trained_on(what, provenance),
        "",
        "## Recipe",
        "",
        *(f"- {key}: {value}" for key, value in _flat(recipe)),
        *(f"- {source}.{k}: {v}" for source in ("vectors", "encoder") for k, v in _flat(provenance.get(source, {}))),
        f"- torch: {provenance['torch']}",
        f"- machine: {provenance['machine']}",
        "",
        "## Validation",
        "",
        "Percent, over queries with 5 related and 100 unrelated premises.",
        "",
        *(f"- {key}: {value}" for key, value in _flat(metrics) if key != "log"),
    ]
    return "\n".join(lines) + "\n"


def trained_on(what: str, provenance: Mapping[str, Any]) -> list[str]:
    """The lines on the data: "Trained on …" or "Fitted on …"."""
    files = provenance["trained on"]["input"]
    return [
        f"{what} on args.me arguments (Webis, CC BY 4.0), labelled by distant supervision; these files (SHA-256):",
        "",
        *(f"- `{name}` {digest}" for name, digest in files.items()),
    ]


def _flat(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Nested tables as dotted keys."""
    rows: list[tuple[str, Any]] = []
    for key, value in values.items():
        rows += _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else [(prefix + key, value)]
    return rows
