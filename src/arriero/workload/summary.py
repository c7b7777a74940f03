"""What a workload is like: counts, lengths, gaps, and how much its prompts share."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from arriero.workload.notes import notes_of
from arriero.workload.records import WorkloadRecord, numbered

ENOUGH_FOR_P99: Final = 100
_TOKEN_BYTES: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Whole numbers and their distribution; percentiles are nearest-rank.

    Attributes:
        p99: None below a hundred values, which cannot tell it from the greatest.
    """

    num: int
    total: int
    mean: float
    least: int
    p50: int
    p90: int
    p99: int | None
    greatest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """How much of the exact prompts an earlier prompt begins with, too.

    Attributes:
        num_prompts: requests whose prompts are known.
        prompt_tokens: their tokens.
        shared_tokens: of these, how many stand in a beginning that an earlier one (by arrival, then id) has as well;
            a cache without limit that matches single tokens would compute only the others.
    """

    num_prompts: int
    prompt_tokens: int
    shared_tokens: int

    @property
    def ratio(self) -> float | None:
        """Shared among all; None without tokens."""
        return self.shared_tokens / self.prompt_tokens if self.prompt_tokens else None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSummary:
    """The figures; times in microseconds, lengths in tokens.

    Attributes:
        classes: requests of each class.
        span_us: from the first arrival to the last; None without requests.
        rate_per_s: gaps over the span; None if there is no span.
        burstiness: standard deviation of the gaps over their mean, by n; None if there is no span.
        prompts, outputs, gaps: None where there are none.
        num_groups, num_sessions: distinct labels of shared prefixes; conversations.
        num_following: requests that wait for the end of another one (closed loop).
    """

    num_requests: int
    classes: dict[str, int]
    span_us: int | None
    rate_per_s: float | None
    burstiness: float | None
    prompts: Spread | None
    outputs: Spread | None
    gaps: Spread | None
    sharing: Sharing
    num_groups: int
    num_sessions: int
    num_following: int


class Bar(NamedTuple):
    """One bar of a histogram."""

    low: int  # included
    high: int  # included
    num: int


def summarise(records: Iterable[WorkloadRecord]) -> WorkloadSummary:
    """The figures of a workload.

    Raises:
        BadWorkload: arriero's notes on a request are malformed.

    Cost: O(n log n) comparisons of prompts.
    """
    ordered = numbered(records)
    times = [record.arrival_time_us for record in ordered]
    gaps = spread_of([later - earlier for earlier, later in pairwise(times)])
    span_us = times[-1] - times[0] if times else None
    notes = [notes_of(record) for record in ordered]
    return WorkloadSummary(
        num_requests=len(ordered),
        classes=dict(sorted(Counter(str(record.workload_class) for record in ordered).items())),
        span_us=span_us,
        rate_per_s=gaps.num * 1e6 / span_us if gaps and span_us else None,
        burstiness=_variation(times, gaps) if gaps and span_us else None,
        prompts=spread_of([record.prompt_token_count for record in ordered]),
        outputs=spread_of([record.max_new_tokens for record in ordered]),
        gaps=gaps,
        sharing=sharing_of(ordered),
        num_groups=len({record.prefix_group for record in ordered if record.prefix_group is not None}),
        num_sessions=len({each.session_id for each in notes if each.session_id is not None}),
        num_following=sum(each.follows is not None for each in notes),
    )


def spread_of(values: Sequence[int]) -> Spread | None:
    """The distribution of whole numbers; None without any."""
    if not values:
        return None
    ranked = sorted(values)
    return Spread(
        num=len(ranked),
        total=sum(ranked),
        mean=sum(ranked) / len(ranked),
        least=ranked[0],
        p50=_nearest(ranked, 50),
        p90=_nearest(ranked, 90),
        p99=_nearest(ranked, 99) if len(ranked) >= ENOUGH_FOR_P99 else None,
        greatest=ranked[-1],
    )


def sharing_of(ordered: Sequence[WorkloadRecord]) -> Sharing:
    """How much prompts share; the records in the order of `numbered`.

    Among sorted prompts, the longest common beginning of one is with a neighbour. Taking the prompts out of the sorted
    list from the last arrival to the first leaves each, when its turn comes, among those that came before it.
    """
    prompts = [record.prompt_tokens.to_bytes() for record in ordered if record.prompt_tokens is not None]
    by_content = sorted(range(len(prompts)), key=prompts.__getitem__)
    above = dict(pairwise(by_content))
    below = {later: earlier for earlier, later in above.items()}
    num_shared_bytes = 0
    for index in reversed(range(len(prompts))):
        left, right = below.get(index), above.get(index)
        num_shared_bytes += max(
            (_common(prompts[index], prompts[each]) for each in (left, right) if each is not None), default=0
        )
        _link(below, above, left, right)
    total = sum(map(len, prompts)) // _TOKEN_BYTES
    return Sharing(num_prompts=len(prompts), prompt_tokens=total, shared_tokens=num_shared_bytes // _TOKEN_BYTES)


def histogram(values: Sequence[int]) -> list[Bar]:
    """Bars whose width doubles: 0, 1, 2-3, 4-7 and so on, from the first that holds something to the last."""
    counts = Counter(value.bit_length() for value in values)
    if not counts:
        return []
    bits = range(min(counts), max(counts) + 1)
    return [Bar(1 << each - 1 if each else 0, (1 << each) - 1, counts[each]) for each in bits]


def _nearest(ranked: Sequence[int], percent: int) -> int:
    return ranked[max(1, -(-len(ranked) * percent // 100)) - 1]


def _variation(times: Sequence[int], gaps: Spread) -> float:
    squares = ((later - earlier - gaps.mean) ** 2 for earlier, later in pairwise(times))
    return math.sqrt(math.fsum(squares) / gaps.num) / gaps.mean


def _link(below: dict[int, int], above: dict[int, int], left: int | None, right: int | None) -> None:
    """Make neighbours of the two around one that is taken out."""
    if left is not None:
        if right is None:
            del above[left]
        else:
            above[left] = right
    if right is not None:
        if left is None:
            del below[right]
        else:
            below[right] = left


def _common(one: bytes, other: bytes) -> int:
    """How many bytes both begin with, in whole tokens."""
    known, limit = 0, min(len(one), len(other))
    while known < limit:
        middle = (known + limit + 1) // 2
        if one[known:middle] == other[known:middle]:
            known = middle
        else:
            limit = middle - 1
    return known - known % _TOKEN_BYTES
