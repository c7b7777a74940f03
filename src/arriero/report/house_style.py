"""The house style of figures: colours that people with any colour vision tell apart, and matplotlib's settings.

The palette is that of Okabe and Ito. A figure that stands in a page swaps each colour for a variable of the page's
style sheet, so that it follows a dark screen; one that stands alone keeps the light colours.
"""

from types import MappingProxyType
from typing import Any, Final

INK: Final = "#1f2328"
MUTED: Final = "#656d76"
GRID: Final = "#d8dee4"
PAPER: Final = "#ffffff"
BLUE: Final = "#0072b2"
VERMILION: Final = "#d55e00"
GREEN: Final = "#009e73"
PURPLE: Final = "#cc79a7"
ORANGE: Final = "#e69f00"
SKY: Final = "#56b4e9"

PREFILL: Final = VERMILION
DECODE: Final = BLUE
WAITING: Final = PURPLE
RUNNING: Final = BLUE
KV: Final = GREEN

SERIES: Final = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY)
DASHES: Final = ("-", "--", "-.", (0, (1, 1)), (0, (5, 1)), (0, (3, 1, 1, 1)))
"""One for each colour of `SERIES`, so that curves differ without colour too."""

ON_DARK: Final = MappingProxyType({
    INK: "#e6edf3",
    MUTED: "#9198a1",
    GRID: "#30363d",
    PAPER: "#0d1117",
    BLUE: "#4ea8de",
    VERMILION: "#ff8a3d",
    GREEN: "#2fc49a",
    PURPLE: "#e39ac6",
    ORANGE: "#f2b632",
    SKY: "#8fd0f5",
})
"""Colour on light paper → the same on dark."""

WIDTH: Final = 8.4
"""Inches; a figure is as wide as the page's text, so that its letters are as large."""

PNG_DPI: Final = 200

RC: Final = MappingProxyType[str, Any]({
    "axes.axisbelow": True,
    "axes.edgecolor": MUTED,
    "axes.facecolor": "none",
    "axes.formatter.useoffset": False,
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.labelsize": 8.5,
    "axes.linewidth": 0.7,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 9,
    "axes.titleweight": "bold",
    "figure.dpi": 100,
    "figure.facecolor": PAPER,
    "font.family": ["DejaVu Sans"],
    "font.size": 8.5,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "legend.borderaxespad": 0.2,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "legend.handlelength": 1.8,
    "legend.labelcolor": INK,
    "lines.linewidth": 1.4,
    "patch.linewidth": 0.0,
    "svg.fonttype": "none",
    "text.color": INK,
    "xtick.color": MUTED,
    "xtick.labelcolor": INK,
    "xtick.labelsize": 8,
    "ytick.color": MUTED,
    "ytick.labelcolor": INK,
    "ytick.labelsize": 8,
})


def variable(colour: str) -> str:
    """The name of the page's variable that stands for a colour."""
    return f"--c{colour.removeprefix('#')}"
