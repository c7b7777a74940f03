"""Folded stacks: `outermost;...;innermost weight`, one line for each different stack, in the order of the alphabet.

A frame is `symbol [object]`, so that two functions of one name in two files stay apart. The same samples give the same
bytes.
"""

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Final

from arriero.lab.perf.functions import NAMELESS, UNRESOLVED, Tables, nameless
from arriero.lab.perf.script_text import Frame, Stack
from arriero.record.cpu_lab.folded_stacks import FoldedStacks, stack_word

_KERNEL: Final = "[kernel"


def fold(stacks: Iterable[Stack], tables: Tables) -> FoldedStacks:
    """Samples become stacks with weights: the period, how many of the event a sample stands for."""
    weights = Counter[tuple[str, ...]]()
    for stack in stacks:
        weights[tuple(frame_word(frame, tables) for frame in reversed(stack.frames))] += max(1, stack.period)
    return folded(weights)


def folded(weights: Mapping[tuple[str, ...], int]) -> FoldedStacks:
    """In the order of the alphabet."""
    return FoldedStacks(tuple(sorted((frames, weight) for frames, weight in weights.items() if weight > 0)))


def frame_word(frame: Frame, tables: Tables) -> str:
    """`symbol [object]`."""
    shared_object = os.path.basename(frame.file.removesuffix(" (deleted)")) or frame.file  # noqa: PTH119 - a tool's word
    shared_object = "kernel" if frame.file.startswith(_KERNEL) else shared_object.strip("[]")
    symbol = frame.symbol or nameless(frame.address, shared_object, tables)
    return stack_word(symbol, shared_object)


def nameless_callers(stacks: FoldedStacks) -> dict[str, str]:
    """Word of a function without a name -> symbol of whoever called it in most of its samples, the first of equals."""
    weights: dict[str, Counter[str]] = {}
    for frames, weight in stacks.stacks:
        for caller, frame in pairwise(frames):
            if frame.startswith(NAMELESS) and not caller.startswith((NAMELESS, UNRESOLVED)):
                weights.setdefault(frame, Counter())[caller.rpartition(" [")[0]] += weight
    return {frame: min(found, key=lambda name: (-found[name], name)) for frame, found in weights.items()}
