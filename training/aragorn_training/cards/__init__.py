"""Render the READMEs (cards) of checkpoints from templates."""

from pathlib import Path
from typing import Any

import jinja2

from aragorn_training.formatting import format_value

ARGS_ME_CREDIT = "args.me arguments (Webis, CC BY 4.0), labelled by distant supervision"
JUDGED_CREDIT = "args.me arguments (Webis, CC BY 4.0) and Touché's judgments"


def render_card(template: str, **variables: Any) -> str:
    """Render `<template>.md.jinja`; raise jinja2.UndefinedError if a variable is missing."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=False, trim_blocks=True, lstrip_blocks=True,
        keep_trailing_newline=True, undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    environment.filters["format_value"] = format_value
    return environment.get_template(f"{template}.md.jinja").render(variables)
