"""A flame graph as SVG that needs nothing but itself: no script, no font, no address; hover for the whole name.

Width is the share of all samples, depth the call stack with the outermost function at the bottom; the order from left
to right is that of the alphabet and means nothing. The same stacks give the same bytes. Frames narrower than half a
point are left out, and what they hold together is told. Frames of the interpreter in a row are drawn as one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from types import MappingProxyType
from typing import Final, NamedTuple

from arriero.metrics.symbol_families import Family, family_of
from arriero.record.cpu_lab.folded_stacks import FoldedStacks

WIDTH: Final = 1200.0
_ROW: Final = 16
_EDGE: Final = 8
_HEAD: Final = 40
_FONT: Final = "DejaVu Sans Mono, Menlo, Consolas, monospace"
_LETTER: Final = 6.3  # points that a letter of the font takes
_NARROWEST: Final = 0.5
_LEGEND_ROW: Final = 18
_LEGEND_COLUMN: Final = 296
_PER_ROW: Final = 4
_NAMELESS: Final = ("function at 0x", "unresolved")
_INTERPRETER: Final = "Python [interpreter]"

COLOURS: Final[Mapping[Family, str]] = MappingProxyType({
    Family.QUANTISED_DOT: "#e8843c",
    Family.UNPACKING: "#f2b632",
    Family.MATRIX: "#f0a07a",
    Family.ATTENTION: "#5fb0e5",
    Family.ROPE: "#a6d4f2",
    Family.SOFTMAX: "#8fb8ff",
    Family.KV_COPY: "#5cc7a7",
    Family.ELEMENTWISE: "#b5dda0",
    Family.SYNCHRONISATION: "#d79bbf",
    Family.GRAPH: "#cfc5e8",
    Family.MEMORY_COPY: "#8fd6cf",
    Family.LOADER: "#dccbaa",
    Family.INTERPRETER: "#d5d9de",
    Family.UNKNOWN: "#eceef0",
})
"""Light enough for dark letters; neighbours differ in lightness too."""


class Box(NamedTuple):
    """One drawn frame."""

    word: str  # `symbol [object]`
    depth: int  # 0 at the bottom
    start: int  # weight to its left
    weight: int
    family: Family  # by its name; of a frame without one, by its caller's


@dataclass(slots=True)
class _Node:
    """A frame with its callees; made anew for each graph.

    Attributes:
        weight: of its stacks.
        callees: by word.
    """

    weight: int = 0
    callees: dict[str, "_Node"] = field(default_factory=dict[str, "_Node"])


def flame_graph(stacks: FoldedStacks, title: str) -> str:
    """The whole file.

    Args:
        stacks: at least one.
        title: what was profiled, and the evidence label.
    """
    boxes = boxes_of(stacks)
    total = stacks.weight
    drawn = [box for box in boxes if box.weight * _inner() / total >= _NARROWEST]
    families = [family for family in COLOURS if any(each.family is family for each in drawn if each.depth)]
    depth = max(box.depth for box in drawn) + 1
    base = _HEAD + depth * _ROW
    height = base + 14 + _LEGEND_ROW * (-(-len(families) // _PER_ROW)) + 24
    box = f'viewBox="0 0 {WIDTH:g} {height}" role="img" aria-label="{escape(title)}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {box} font-family="{_FONT}" font-size="10.5">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH:g}" height="{height}" fill="#ffffff"/>',
        f'<text x="{_EDGE}" y="18" font-size="13" font-weight="bold" fill="#1f2328">{escape(title)}</text>',
        *(_frame(each, total, base) for each in drawn),
        *_legend(families, base + 14),
        f'<text x="{_EDGE}" y="{height - 8}" fill="#656d76">{escape(_left_out(boxes, drawn, total))}</text>',
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def boxes_of(stacks: FoldedStacks) -> tuple[Box, ...]:
    """Every frame, from the bottom up in each column; callees in the order of the alphabet."""
    root = _Node()
    for frames, weight in stacks.stacks:
        node = root
        node.weight += weight
        for word in _joined(frames):
            node = node.callees.setdefault(word, _Node())
            node.weight += weight
    return tuple(_boxes(root))


def _boxes(root: _Node) -> Iterator[Box]:
    """Without recursion: stacks may be deeper than Python's own."""
    open_nodes = [(Box("all", 0, 0, root.weight, Family.UNKNOWN), root)]
    while open_nodes:
        box, node = open_nodes.pop()
        yield box
        start = box.start
        callees: list[tuple[Box, _Node]] = []
        for name in sorted(node.callees):
            callee = node.callees[name]
            family = _family(name)
            inherits = family is Family.UNKNOWN and name.startswith(_NAMELESS)
            callees.append((Box(name, box.depth + 1, start, callee.weight, box.family if inherits else family), callee))
            start += callee.weight
        open_nodes.extend(reversed(callees))


def _joined(frames: Sequence[str]) -> Iterator[str]:
    """Frames with those of the interpreter in a row as one."""
    inside = False
    for frame in frames:
        is_interpreter = _family(frame) is Family.INTERPRETER
        if not is_interpreter:
            yield frame
        elif not inside:
            yield _INTERPRETER
        inside = is_interpreter


def _family(word: str) -> Family:
    if word == _INTERPRETER:
        return Family.INTERPRETER
    symbol, _, shared_object = word.rpartition(" [")
    named = "" if symbol.startswith(_NAMELESS) else symbol
    return family_of(named, shared_object.removesuffix("]"))


def _frame(box: Box, total: int, base: int) -> str:
    left, width = _EDGE + box.start * _inner() / total, box.weight * _inner() / total
    top = base - (box.depth + 1) * _ROW
    colour = "#f6f8fa" if box.depth == 0 else COLOURS[box.family]
    kind = "" if box.depth == 0 else f", {box.family}"
    says = f"{box.word}: {100 * box.weight / total:.2f} % ({box.weight:,}){kind}"
    shown = _fitted(box.word, width)
    text = f'<text x="{left + 3:.2f}" y="{top + 12}" fill="#1f2328">{escape(shown)}</text>' if shown else ""
    return (
        f"<g><title>{escape(says)}</title>"
        f'<rect x="{left:.2f}" y="{top}" width="{width:.2f}" height="{_ROW - 1}" rx="1" fill="{colour}"/>{text}</g>'
    )


def _fitted(word: str, width: float) -> str:
    """As much of a name as there is room for; the object is dropped first."""
    room = int((width - 6) / _LETTER)
    symbol = word.rpartition(" [")[0] or word
    if room < 3:
        return ""
    if len(word) <= room:
        return word
    return symbol if len(symbol) <= room else f"{symbol[: room - 2]}.."


def _legend(families: Sequence[Family], top: int) -> Iterator[str]:
    for place, family in enumerate(families):
        left = _EDGE + place % _PER_ROW * _LEGEND_COLUMN
        y = top + place // _PER_ROW * _LEGEND_ROW
        yield f'<rect x="{left}" y="{y}" width="12" height="12" rx="2" fill="{COLOURS[family]}"/>'
        yield f'<text x="{left + 18}" y="{y + 10}" fill="#1f2328">{escape(family)}</text>'


def _left_out(boxes: Sequence[Box], drawn: Sequence[Box], total: int) -> str:
    hidden = len(boxes) - len(drawn)
    words = f"{len(drawn):,} frames are drawn, {hidden:,} that are narrower than {_NARROWEST:g} points are not"
    return f"{words}; all samples together weigh {total:,}."


def _inner() -> float:
    return WIDTH - 2 * _EDGE
