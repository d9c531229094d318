"""Render the READMEs of checkpoints from templates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2

from training.formatting import shown

ARGS_ME_CREDIT = "args.me arguments (Webis, CC BY 4.0), labelled by distant supervision"
JUDGED_CREDIT = "args.me arguments (Webis, CC BY 4.0) and Touché's judgments"


def render_card(kind: str, **facts: Any) -> str:
    """Render the template `<kind>.md.jinja`.

    Args:
        kind: `network`, `regression`, `fusion`, `grid` or `quality`.
        facts: template variables.

    Returns:
        The card as Markdown.

    Raises:
        jinja2.UndefinedError: a variable is missing.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["format_number"] = shown
    return environment.get_template(f"{kind}.md.jinja").render(facts)
