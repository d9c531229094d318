"""The READMEs of checkpoints, written from facts, never by hand: a template for each kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2

from training.figures import shown

ARGS_ME = "args.me arguments (Webis, CC BY 4.0), labelled by distant supervision"
JUDGED = "args.me arguments (Webis, CC BY 4.0) and Touché's judgments"


def card(kind: str, **facts: Any) -> str:
    """Fill the template `<kind>.md.jinja` with facts.

    Args:
        kind: `network`, `regression`, `fusion`, `grid` or `quality`.
        facts: the variables of the template.

    Returns:
        the card as Markdown.

    Raises:
        jinja2.UndefinedError: a fact that the template needs is missing.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["shown"] = shown
    return environment.get_template(f"{kind}.md.jinja").render(facts)
