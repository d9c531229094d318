"""Figures → PNG, the same bytes each time."""

from __future__ import annotations

import io

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure


def figure(width: float, height: float) -> Figure:
    """An empty figure of a size in inches, 110 pixels each, that needs no display."""
    made = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(made)
    return made


def png(drawn: Figure) -> bytes:
    """Render a figure as PNG."""
    content = io.BytesIO()
    drawn.savefig(content, format="png", dpi=110, metadata={"Software": None})
    return content.getvalue()
