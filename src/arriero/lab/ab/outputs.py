"""Outputs: whether both sides gave the same greedy answer to the fixed prompt, and where they part if not."""

from collections.abc import Sequence
from typing import Final

from arriero.lab.ab.series import Pair
from arriero.record.cpu_lab.ab import OutputFacts
from arriero.record.cpu_lab.ab_run import AbRecord

_SHOWN: Final = 8


def compare_outputs(pairs: Sequence[Pair]) -> OutputFacts | None:
    """The answers of all pairs; None if no run answered."""
    a = [pair.a for pair in pairs if pair.a.text_sha256 is not None]
    b = [pair.b for pair in pairs if pair.b.text_sha256 is not None]
    if not a or not b:
        return None
    hashes = [_different(side) for side in (a, b)]
    first, second = a[0].text_tokens, b[0].text_tokens
    at = parting(first, second)
    return OutputFacts(
        num_runs=len(a) + len(b),
        a_sha256=hashes[0],
        b_sha256=hashes[1],
        equal=len({*hashes[0], *hashes[1]}) == 1 and at is None,
        differs_at=at,
        a_tokens=() if at is None else first[at : at + _SHOWN],
        b_tokens=() if at is None else second[at : at + _SHOWN],
        num_tokens=min(len(first), len(second)),
    )


def parting(one: Sequence[int], other: Sequence[int]) -> int | None:
    """The first place where two sequences differ, also where one of them ends; None if they are equal."""
    for place, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return place
    return None if len(one) == len(other) else min(len(one), len(other))


def _different(records: Sequence[AbRecord]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(record.text_sha256 for record in records if record.text_sha256 is not None))
