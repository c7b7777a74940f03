"""The saturated chat workload: arrivals every millisecond, four system prompts, private continuations.

A published load for comparing simulators' speed; one generator draws everything in a fixed order, and its seed
depends on the number of requests, so that a longer workload is another one and no continuation.
"""

import math
import random
from collections.abc import Iterator
from typing import Final, Literal

import msgspec

from arriero.workload.published import Count
from arriero.workload.records import WorkloadClass, WorkloadRecord
from arriero.workload.tokens import PackedTokens

GENERATOR: Final = "arriero-saturated-chat-v1"
SEED_BASE: Final = 20_260_719
"""Plus the number of requests, this is the published seed."""

_MEAN_GAP_US: Final = 1000
_NUM_PREFIXES: Final = 4
_PREFIX_TOKENS: Final = 96


class SaturatedConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings; the published workload has the seed `SEED_BASE + request_count`."""

    schema_version: Literal["serving-workload-v1"]
    generator: Literal["arriero-saturated-chat-v1"]
    workload_class: Literal["chat"]
    request_count: Count
    seed: Count


def generate(config: SaturatedConfig) -> Iterator[WorkloadRecord]:
    """The records in their order."""
    rng = random.Random(config.seed)
    prefixes = [range(1000 * each, 1000 * each + _PREFIX_TOKENS) for each in range(_NUM_PREFIXES)]
    now = 0
    for index in range(config.request_count):
        if index:
            now += math.floor(-_MEAN_GAP_US * math.log1p(-rng.random()))
        prefix = rng.randrange(_NUM_PREFIXES)
        num_private = rng.randint(12, 80)
        private = _drawn(rng, num_private, 10_000, 2_000_000_000)
        yield WorkloadRecord(
            request_id=f"chatsat-{index:06d}",
            arrival_time_us=now,
            prompt_token_count=_PREFIX_TOKENS + num_private,
            max_new_tokens=rng.randint(16, 64),
            workload_class=WorkloadClass.CHAT,
            prompt_tokens=PackedTokens([*prefixes[prefix], *private]),
            prefix_group=f"sys-{prefix}",
        )


def _drawn(rng: random.Random, count: int, low: int, high: int) -> list[int]:
    """What `rng.randrange(low, high)` gives, so often; it spends most of its time on looking at its arguments."""
    draw, width = rng.getrandbits, high - low
    num_bits = width.bit_length()
    found: list[int] = []
    while len(found) < count:
        value = draw(num_bits)
        if value < width:
            found.append(low + value)
    return found
