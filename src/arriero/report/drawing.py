"""Drawing: a figure on its way to bytes, the same bytes each time, and to a fragment that stands inside a page."""

# matplotlib's stubs leave the types of keyword arguments open.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import io
import re
from collections.abc import Generator
from contextlib import contextmanager
from html import escape
from types import MappingProxyType
from typing import Any, Final, NamedTuple, cast

from matplotlib import rc_context, rcdefaults, rcParams
from matplotlib.figure import Figure

from arriero.report.document import Picture
from arriero.report.house_style import ON_DARK, PNG_DPI, RC, WIDTH, variable

_METADATA: Final = re.compile(r"\s*<metadata>.*?</metadata>", re.DOTALL)
_UNSAID: Final = ("Date", "Creator", "Format", "Type")  # of the metadata that matplotlib would write
_PROLOGUE: Final = re.compile(r"\A.*?(?=<svg)", re.DOTALL)
_OPENING: Final = re.compile(r"<svg[^>]*?viewBox=\"([^\"]*)\"[^>]*>")
_LONG_NUMBER: Final = re.compile(r"\d+\.\d{3,}")
_TAG: Final = re.compile(r"<[^>]*>")
_PATH: Final = re.compile(r' d="([^"]*)"')
_ID: Final = re.compile(r' id="([^"]*)"')
_REFERENCE: Final = re.compile(r"#([A-Za-z_][\w.-]*)")
_FONT: Final = re.compile(r"font: (?:[a-z]+ |\d{3} )*([\d.]+px)[^;\"]*")
_COLOUR: Final = re.compile("|".join(ON_DARK))


class Drawn(NamedTuple):
    """A figure and its words."""

    key: str  # unique in its report
    title: str
    caption: str
    figure: Figure


def new_figure(height: float) -> Figure:
    """An empty figure of the page's width; `height` in inches. Draw on it inside `styled`."""
    return Figure(figsize=(WIDTH, height), layout="constrained")


@contextmanager
def styled(salt: str = "arriero") -> Generator[None]:
    """A context in which figures are made and drawn in the house style, whatever settings a user has.

    Ids inside an SVG follow from the salt.
    """
    with rc_context():
        rcdefaults()
        rcParams.update(cast("Any", {**RC, "svg.hashsalt": salt}))
        yield


def as_png(figure: Figure) -> bytes:
    """The figure alone."""
    data = io.BytesIO()
    with styled():
        figure.savefig(data, format="png", dpi=PNG_DPI, metadata={"Software": None})
    return data.getvalue()


def as_svg(figure: Figure, salt: str = "arriero") -> str:
    """The figure alone, a whole file."""
    data = io.BytesIO()
    with styled(salt):
        figure.savefig(data, format="svg", metadata=dict.fromkeys(_UNSAID))
    return data.getvalue().decode()


def as_picture(drawn: Drawn) -> Picture:
    """The figure as a part of a document."""
    return Picture(drawn.key, drawn.title, drawn.caption, as_fragment(drawn.figure, drawn.key, drawn.title))


def as_fragment(figure: Figure, key: str, says: str) -> str:
    """The figure inside a page: no names of its own, colours from the page, short numbers.

    Args:
        figure: the figure.
        key: unique on the page.
        says: what it shows, for those who cannot see it.
    """
    text = _PROLOGUE.sub("", as_svg(figure, key))
    text = _METADATA.sub("", text)
    text = _PATH.sub(lambda match: f' d="{_short_path(match[1])}"', text)
    text = _TAG.sub(lambda match: _LONG_NUMBER.sub(_short_number, match[0]), text)  # what is read keeps its digits
    text = text.replace("xlink:href", "href").replace("\n", " ")
    used = set(_REFERENCE.findall(text))
    text = _ID.sub(lambda match: match[0] if match[1] in used else "", text)
    text = _FONT.sub(r"font-size: \1", text)
    text = _COLOUR.sub(lambda match: f"var({variable(match[0])})", text)
    return _OPENING.sub(rf'<svg viewBox="\1" role="img" aria-label="{escape(says)}">', text, count=1)


def _short_number(match: re.Match[str]) -> str:
    return f"{float(match[0]):.2f}"


def _short_path(path: str) -> str:
    """The same path to a tenth of a point; level and upright lines, of which stairs are made, say one number."""
    words: list[str] = []
    last = ("", "")
    tokens = iter(path.split())
    for letter in tokens:
        count = _NUMBERS[letter]
        numbers = [f"{float(next(tokens)):.1f}".removesuffix(".0") for _ in range(count)]
        here = (numbers[-2], numbers[-1]) if numbers else last
        if letter == "L" and here == last:
            continue
        if letter == "L" and here[1] == last[1]:
            words.append(f"H{here[0]}")
        elif letter == "L" and here[0] == last[0]:
            words.append(f"V{here[1]}")
        else:
            words.append(letter + " ".join(numbers))
        last = here
    return "".join(words)


_NUMBERS: Final = MappingProxyType({"M": 2, "L": 2, "Q": 4, "C": 6, "z": 0, "Z": 0})
"""Letter of a path → numbers that follow it, as matplotlib writes them."""
