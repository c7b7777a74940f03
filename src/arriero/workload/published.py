"""The generators of the published serving lab, reproduced to the byte.

Chance is Python's Mersenne Twister, whose sequence is part of the language. Lengths of every class but chat are
arithmetic in the index of the request.
"""

import math
import random
from collections.abc import Iterator
from itertools import pairwise
from typing import Annotated, Final, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta

from arriero.core.errors import BadWorkload
from arriero.workload.records import COUNT_MAX, WorkloadClass, WorkloadRecord
from arriero.workload.tokens import PackedTokens

GENERATOR: Final = "benchmarks/generate_serving_workload.py"
"""How the published manifests name their generator."""

LENGTH_SEED: Final = 0x5EED_C0DE

Count = Annotated[int, Meta(ge=0, le=COUNT_MAX)]
Positive = Annotated[int, Meta(ge=1, le=COUNT_MAX)]


class Burst(msgspec.Struct, frozen=True, kw_only=True, tag_field="mode", tag="burst", forbid_unknown_fields=True):
    """All at once."""

    start_time_us: Count = 0


class FixedInterval(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="mode", tag="fixed_interval", forbid_unknown_fields=True
):
    """One every so often."""

    interval_us: Positive
    start_time_us: Count = 0


class Manual(msgspec.Struct, frozen=True, kw_only=True, tag_field="mode", tag="manual", forbid_unknown_fields=True):
    """As listed; never going back, and as many as there are requests."""

    timestamps_us: list[Count]


class Exponential(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="mode", tag="exponential", forbid_unknown_fields=True
):
    """Exponential gaps, each rounded down; the first request comes at the start."""

    mean_interval_us: Positive
    start_time_us: Count = 0


PublishedArrival: TypeAlias = Burst | FixedInterval | Manual | Exponential


class PublishedConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of a published workload."""

    schema_version: Literal["serving-workload-v1"]
    workload_class: WorkloadClass
    request_count: Count
    seed: Count
    arrival: PublishedArrival


def arrivals(arrival: PublishedArrival, count: int, seed: int) -> Iterator[int]:
    """When the requests arrive, in their order.

    Raises:
        BadWorkload: a manual list goes back or has another length.
    """
    match arrival:
        case Burst(start_time_us=start):
            yield from (start for _ in range(count))
        case FixedInterval(interval_us=interval, start_time_us=start):
            yield from (start + index * interval for index in range(count))
        case Manual(timestamps_us=times):
            _check_manual(times, count)
            yield from times
        case Exponential(mean_interval_us=mean, start_time_us=start):
            yield from _exponential(mean, start, count, random.Random(seed))


def generate(config: PublishedConfig) -> Iterator[WorkloadRecord]:
    """The requests in their order.

    Raises:
        BadWorkload: see `arrivals`; or so many requests that their token ids leave int32.
    """
    lengths = random.Random(config.seed ^ LENGTH_SEED)
    kind = config.workload_class
    for index, arrival_time_us in enumerate(arrivals(config.arrival, config.request_count, config.seed)):
        ask = _ask(kind, index, lengths)
        tokens = ask.prompt if isinstance(ask.prompt, PackedTokens) else None
        yield WorkloadRecord(
            request_id=f"{kind}-{index:04d}",
            arrival_time_us=arrival_time_us,
            prompt_token_count=ask.prompt if isinstance(ask.prompt, int) else len(ask.prompt),
            max_new_tokens=ask.output,
            workload_class=kind,
            prompt_tokens=tokens,
            prefix_group=ask.group,
        )


class _Ask(NamedTuple):
    prompt: int | PackedTokens
    output: int
    group: str | None = None


def _ask(kind: WorkloadClass, i: int, lengths: random.Random) -> _Ask:
    match kind:
        case WorkloadClass.CHAT:
            prompt = lengths.randint(12, 80)
            return _Ask(prompt, lengths.randint(16, 64))
        case WorkloadClass.SHARED_SYSTEM_PROMPT:
            tokens = [*_tok(0, 64, 10_000), *_tok(i, 8 + i % 5, 20_000)]
            return _Ask(PackedTokens(tokens), 16 + i % 17, "shared-system-v1")
        case WorkloadClass.CODING_AGENT:
            tokens = [*_tok(i % 2, 128, 30_000), *_tok(i, 24 + i % 17, 50_000)]
            return _Ask(PackedTokens(tokens), 64 + i % 65, f"coding-tools-{i % 2}")
        case WorkloadClass.BURST:
            return _Ask(16 + 8 * (i % 4), 8 + i % 8)
        case WorkloadClass.OVERLOAD:
            return _Ask(48 + i % 33, 48 + i % 49)
        case WorkloadClass.MIXED:
            return _mixed(i)


def _mixed(i: int) -> _Ask:
    match i % 4:
        case 0:
            return _Ask(16 + i % 48, 16 + i % 24)
        case 1:
            return _Ask(192 + i % 65, 12 + i % 12)
        case 2:
            tokens = [*_tok(0, 96, 70_000), *_tok(i, 16 + i % 9, 80_000)]
            return _Ask(PackedTokens(tokens), 48 + i % 49, "mixed-coding")
        case _:
            return _Ask(24 + i % 40, 80 + i % 49)


def _tok(group: int, length: int, base: int) -> range:
    first = base + 10_000 * group
    return range(first, first + length)


def _exponential(mean: int, start: int, count: int, rng: random.Random) -> Iterator[int]:
    now = start
    for index in range(count):
        if index:
            now += math.floor(-mean * math.log1p(-rng.random()))
        yield now


def _check_manual(times: list[int], count: int) -> None:
    if len(times) != count:
        raise BadWorkload(
            f"arrival.timestamps_us: has {len(times)} entries for {count} requests; give one for each",
            field="arrival.timestamps_us",
        )
    for index, (earlier, later) in enumerate(pairwise(times), start=1):
        if later < earlier:
            raise BadWorkload(
                f"arrival.timestamps_us[{index}]: {later} comes after {earlier}; sort them",
                field="arrival.timestamps_us",
            )
