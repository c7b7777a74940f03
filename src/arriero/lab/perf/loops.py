"""Loops of one function: a jump back to an earlier instruction of it ends one.

That is simple and finds what compilers make of `for` and `while`. A loop that is entered in its middle, or that goes on
by a jump through a table, is not found; loops that share their first instruction are one.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from arriero.lab.perf.disassembly import Instruction
from arriero.lab.perf.instruction_mix import mix_of
from arriero.record.cpu_lab.assembly import Loop

_LEAVES: Final = frozenset({"jmp", "ret", "retq", "ud2"})
"""The next instruction is not reached from these."""


def loops_of(instructions: Sequence[Instruction]) -> tuple[Loop, ...]:
    """All loops, in the order of their first instruction. Cost: O(instructions x loops)."""
    places = {each.address: place for place, each in enumerate(instructions)}
    ends: dict[int, int] = {}  # place of the first instruction -> place of the last jump to it
    for place, each in enumerate(instructions):
        start = None if each.target is None or not each.mnemonic.startswith(("j", "loop")) else places.get(each.target)
        if start is not None and start <= place and _is_reached(instructions, places, start, place):
            ends[start] = max(place, ends.get(start, place))
    spans = sorted(ends.items())
    return tuple(
        Loop(
            start=instructions[start].address,
            end=instructions[end].address,
            is_innermost=not any(_lies_within(other, (start, end)) for other in spans),
            mix=mix_of(instructions[start : end + 1]),
        )
        for start, end in spans
    )


def _is_reached(instructions: Sequence[Instruction], places: Mapping[int, int], start: int, end: int) -> bool:
    """Whether the jump at the end can be reached from the beginning without leaving the stretch.

    Compilers put rare pieces behind a function's end and let them jump back: that is no loop.
    """
    seen, open_places = set[int](), [start]
    while open_places:
        place = open_places.pop()
        if place == end:
            return True
        if place in seen:
            continue
        seen.add(place)
        each = instructions[place]
        nexts = [] if each.mnemonic in _LEAVES else [place + 1]
        target = None if each.target is None else places.get(each.target)
        if target is not None and each.mnemonic.startswith("j"):
            nexts.append(target)
        open_places.extend(found for found in nexts if start <= found <= end)
    return False


def _lies_within(inner: tuple[int, int], outer: tuple[int, int]) -> bool:
    return inner != outer and outer[0] <= inner[0] and inner[1] <= outer[1]
