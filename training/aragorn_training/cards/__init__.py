"""Render the READMEs (cards) of checkpoints, and write checkpoints of fitted parameters."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from aragorn.storage.checkpoint_directory import (
    CARD,
    CONFIG,
    METRICS,
    encode_json,
    write_with_provenance,
)
from aragorn_training.formatting import create_environment, format_value


def render_card(template: str, **variables: Any) -> str:
    """Render `<template>.md.jinja`; raise jinja2.UndefinedError if a variable is missing."""
    environment = create_environment(__file__, autoescape=False, keep_trailing_newline=True)
    environment.filters["format_value"] = format_value
    return environment.get_template(f"{template}.md.jinja").render(variables)


def write_fitted(
    directory: Path,
    parameters: msgspec.Struct,
    metrics: Mapping[str, Any],
    provenance: Mapping[str, Any],
    template: str,
    files: Mapping[str, bytes] = {},
    **variables: Any,
) -> None:
    """Write the checkpoint of fitted parameters atomically, with its card and other `files`."""
    card = render_card(template, metrics=metrics, provenance=provenance, **variables)
    contents = {
        CONFIG: encode_json(msgspec.to_builtins(parameters)),
        METRICS: encode_json(metrics),
        CARD: card.encode(),
    }
    write_with_provenance(directory, contents | dict(files), provenance)
