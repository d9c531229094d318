"""Create matplotlib figures in one style and render them as reproducible PNGs."""

import io
from collections.abc import Iterable
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

NEUTRAL = "#30638e"
COLOURS = ("#0b4f8a", "#d1702b", "#2f8f5b", "#8b4fa3", "#b3261e", "#6b7280")
MARKERS = "osD^vP"  # like the dashes, for readers in grey
PNG_SIGNATURE = rb"\x89PNG\r\n"
DASHES = ("-", "--", ":", "-.")


def get_style(name: str, names: Iterable[str]) -> dict[str, Any]:
    """Return colour, marker and dashes of a curve by its position in names, e.g. of all systems."""
    turn, column = divmod(list(names).index(name), len(COLOURS))
    marker = MARKERS[(column + turn) % len(MARKERS)]
    return {"color": COLOURS[column], "marker": marker, "linestyle": DASHES[turn % len(DASHES)]}


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
