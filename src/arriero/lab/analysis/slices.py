"""Slices: which of the measured (context, prompt, answer) shapes may be connected by a line.

    A  prompt and context grow together, the answer is fixed
    B  the context grows, prompt and answer are fixed
    C  the answer grows, context and prompt are fixed

A shape may fit several of them. The longest chain takes its shapes first, so that each one stands in one slice and a
line never turns from one question to another half-way.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final, NamedTuple

from arriero.record.cpu_lab.analysis import SliceKind


class Shape(NamedTuple):
    """Tokens of a run."""

    context: int
    prompt: int
    answer: int


class Chain(NamedTuple):
    """Shapes in the order of a slice."""

    kind: SliceKind
    shapes: tuple[Shape, ...]


class Cut(NamedTuple):
    """Disjoint chains, and what belongs to none."""

    chains: tuple[Chain, ...]  # by kind, then by shape
    alone: tuple[Shape, ...]


_FIRST: Final = (SliceKind.CONTEXT, SliceKind.ANSWER, SliceKind.JOINT)
"""Of equally long chains: those that vary one thing go before the one that varies two."""


def cut(shapes: Collection[Shape]) -> Cut:
    """Cut into chains of at least two; the same shapes give the same chains, in whatever order they come."""
    left = set(shapes)
    found: list[Chain] = []
    while chains := [chain for chain in _candidates(sorted(left)) if len(chain.shapes) > 1]:
        longest = min(chains, key=lambda chain: (-len(chain.shapes), _FIRST.index(chain.kind), chain.shapes))
        found.append(longest)
        left -= set(longest.shapes)
    return Cut(tuple(sorted(found, key=lambda chain: (chain.kind.value, chain.shapes))), tuple(sorted(left)))


def _candidates(ordered: list[Shape]) -> Iterator[Chain]:
    """The longest chain of each kind for each value of what it holds; `ordered` is ascending."""
    for same_answer in _alike(ordered, lambda shape: (shape.answer,)):
        yield Chain(SliceKind.JOINT, _rising(same_answer))
    for same_prompt in _alike(ordered, lambda shape: (shape.prompt, shape.answer)):
        yield Chain(SliceKind.CONTEXT, tuple(same_prompt))
    for same_context in _alike(ordered, lambda shape: (shape.context, shape.prompt)):
        yield Chain(SliceKind.ANSWER, tuple(same_context))


def _alike(ordered: Iterable[Shape], held: Callable[[Shape], tuple[int, ...]]) -> Iterable[list[Shape]]:
    found: dict[tuple[int, ...], list[Shape]] = {}
    for shape in ordered:
        found.setdefault(held(shape), []).append(shape)
    return found.values()


def _rising(ordered: list[Shape]) -> tuple[Shape, ...]:
    """The longest run of shapes whose context and prompt both rise; O(shapes^2)."""
    best: list[tuple[Shape, ...]] = []
    for shape in ordered:
        before = [run for run in best if run[-1].context < shape.context and run[-1].prompt < shape.prompt]
        best.append((*max(before, key=len, default=()), shape))
    return max(best, key=len)
