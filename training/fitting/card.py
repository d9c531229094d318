"""A checkpoint's README: what it is, what it was trained on, what validation said. Written from the facts, never by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ARGS_ME = "args.me arguments (Webis, CC BY 4.0), labelled by distant supervision"


def card(provenance: Mapping[str, Any], metrics: Mapping[str, Any], data: str, measured: str) -> str:
    """The card as Markdown, from the facts and words on the data and on what was measured."""
    recipe = provenance["recipe"]
    if recipe["training"]["epochs"]:
        way, what = "trained", "Trained"
    else:
        way, what = "its encoder as it comes, not trained further; made", "Validated"
    kind = "ranker" if "ranker" in recipe else "enricher"
    network = f"{kind} `{recipe[kind]}`" + (" before it has seen a tag" if "language" in recipe else "")
    lines = [
        f"# {recipe['name']}",
        "",
        f"The {network}, {way} by `python -m training fit {recipe['name']}`.",
        "",
        *trained_on(what, provenance, data),
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
        measured,
        "",
        *(f"- {key}: {value}" for key, value in _flat(metrics) if key != "log"),
    ]
    return "\n".join(lines) + "\n"


def trained_on(what: str, provenance: Mapping[str, Any], data: str = ARGS_ME) -> list[str]:
    """The lines on the data: "Trained on …" or "Fitted on …"."""
    files = provenance["trained on"]["input"]
    return [
        f"{what} on {data}; these files (SHA-256):",
        "",
        *(f"- `{name}` {digest}" for name, digest in files.items()),
    ]


def _flat(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Nested tables as dotted keys."""
    rows: list[tuple[str, Any]] = []
    for key, value in values.items():
        rows += _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else [(prefix + key, value)]
    return rows
