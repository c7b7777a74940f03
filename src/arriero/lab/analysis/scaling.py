"""Scaling: each phase over threads, prefill over prompt lengths, decode over answer lengths; all else equal.

speed-up(t) = mean(t) / mean(1 thread), efficiency = speed-up / t.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, TypeAlias

from arriero.metrics.spread import Spread
from arriero.record.cpu_lab.analysis import Group, LengthCurve, LengthPoint, Phase, ThreadCurve, ThreadPoint
from arriero.record.cpu_lab.run_key import THREAD_FIELDS, RunKey, without

_OWN: Final = MappingProxyType({Phase.PREFILL: "batch_threads", Phase.DECODE: "threads"})
"""Phase -> the number of threads that computes it."""

_LENGTH: Final = MappingProxyType({Phase.PREFILL: "prompt_tokens", Phase.DECODE: "generated_tokens"})
"""Phase -> the number of tokens that it is about."""

Holds: TypeAlias = Literal["context", "depth"]
"""What stays along a curve of lengths."""

_NO_ONE: Final = "no row with one thread at this setting, so there is no speed-up"


class _Measured(NamedTuple):
    """A group that has a rate in the phase that is looked at."""

    key: RunKey
    rate: Spread


def thread_curves(groups: Sequence[Group]) -> tuple[ThreadCurve, ...]:
    """Every curve with at least two numbers of threads, prefill first.

    Where both numbers of a setting are the same, they grow together; where they differ, the other one is held.
    """
    found: list[ThreadCurve] = []
    for phase in Phase:
        own = _OWN[phase]
        measured = _measured(groups, phase)
        coupled = [each for each in measured if each.key.threads == each.key.batch_threads]
        families = [
            *_families(coupled, _all_but(*THREAD_FIELDS)),
            *(
                members
                for members in _families(measured, _all_but(own))
                if any(each.key.threads != each.key.batch_threads for each in members)
            ),
        ]
        found.extend(_thread_curve(phase, own, members) for members in families)
    return tuple(found)


def length_curves(groups: Sequence[Group]) -> tuple[LengthCurve, ...]:
    """Every curve with at least two lengths: at a fixed context, where longer ones start less deep, or at one depth."""
    found: list[LengthCurve] = []
    for phase in Phase:
        length = _LENGTH[phase]
        measured = _measured(groups, phase)
        kinds: tuple[tuple[Holds, Callable[[RunKey], Hashable]], ...] = (
            ("context", _all_but(length)),
            ("depth", _all_but_and_depth(length, "context_size")),
        )
        for holds, rest in kinds:
            found.extend(_length_curve(phase, length, members, holds) for members in _families(measured, rest))
    return tuple(found)


def _measured(groups: Iterable[Group], phase: Phase) -> list[_Measured]:
    pairs = ((group.key, group.rate(phase)) for group in groups)
    return [_Measured(key, rate) for key, rate in pairs if rate is not None]


def _all_but(*fields: str) -> Callable[[RunKey], Hashable]:
    """What a key is without some fields."""
    return lambda key: without(key, fields)


def _all_but_and_depth(*fields: str) -> Callable[[RunKey], Hashable]:
    """The same, with the depth that follows from some of them."""
    return lambda key: (without(key, fields), key.depth)


def _families(measured: Iterable[_Measured], rest: Callable[[RunKey], Hashable]) -> Iterator[list[_Measured]]:
    """Those with equal rests together, if there are at least two."""
    found: dict[Hashable, list[_Measured]] = {}
    for each in measured:
        found.setdefault(rest(each.key), []).append(each)
    return (members for members in found.values() if len(members) > 1)


def _thread_curve(phase: Phase, own: str, members: Sequence[_Measured]) -> ThreadCurve:
    by_threads = sorted(members, key=lambda each: int(getattr(each.key, own)))
    first = by_threads[0]
    base = first.rate.mean if getattr(first.key, own) == 1 else None
    points: list[ThreadPoint] = []
    for each in by_threads:
        threads: int = getattr(each.key, own)
        speedup = None if base is None else each.rate.mean / base
        efficiency = None if speedup is None else speedup / threads
        points.append(ThreadPoint(threads=threads, rate=each.rate, speedup=speedup, efficiency=efficiency))
    return ThreadCurve(phase=phase, key=first.key, points=tuple(points), reason=_NO_ONE if base is None else None)


def _length_curve(phase: Phase, length: str, members: Sequence[_Measured], holds: Holds) -> LengthCurve:
    ordered = sorted(members, key=lambda each: int(getattr(each.key, length)))
    points = tuple(
        LengthPoint(tokens=getattr(each.key, length), depth=each.key.depth, rate=each.rate) for each in ordered
    )
    return LengthCurve(phase=phase, key=ordered[0].key, holds=holds, points=points)
