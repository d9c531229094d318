"""Create matplotlib figures and render them as reproducible PNGs."""

import io

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image


def create_figure(width: float, height: float) -> Figure:
    """Create an empty figure, `width` by `height` inches, that needs no display."""
    fig = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(fig)
    return fig


def render_png(fig: Figure) -> bytes:
    """Render a figure as PNG at 110 dpi, without metadata that name matplotlib's version."""
    buffer = io.BytesIO()
    fig.savefig(buffer, format="png", dpi=110, metadata={"Software": None})
    return buffer.getvalue()


def reduce_colours(png: bytes) -> bytes:
    """Reduce a PNG file to 32 colours, which makes scatter plots several times smaller."""
    image = Image.open(io.BytesIO(png)).convert("RGB").quantize(32, dither=Image.Dither.NONE)
    buffer = io.BytesIO()
    image.save(buffer, format="png", optimize=True)
    return buffer.getvalue()
