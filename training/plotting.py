"""Create matplotlib figures and render them as reproducible PNGs."""

import io

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure


def create_figure(width: float, height: float) -> Figure:
    """Create an empty figure, `width` by `height` inches, that needs no display."""
    fig = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(fig)
    return fig


def render_png(fig: Figure) -> bytes:
    """Render a figure as a PNG file at 110 dpi, without the metadata that name the version of matplotlib."""
    buffer = io.BytesIO()
    fig.savefig(buffer, format="png", dpi=110, metadata={"Software": None})
    return buffer.getvalue()
