"""Loads: held-out workloads, each below, at and above what the server can take.

A calibration measures steps of chosen shapes, one after another on a quiet context. Nothing here is one of them:
lengths are drawn by chance, requests overlap as they come, and every step is what the scheduler made of that. The rates
follow from the simulated saturation rate, which is fixed before anything is measured.

    chat    short questions, answers of some dozen tokens
    long    prompts that fill much of a context, short answers
    mixed   both, three to one
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from arriero.bench.schedule import Schedule
from arriero.bench.schedule_arrivals import OpenLoop
from arriero.bench.schedule_making import AskOptions, ScheduleOptions, make_schedule
from arriero.bench.schedule_work import Work
from arriero.core.ids import RequestId
from arriero.core.request import BlankTokens, Request
from arriero.record.lab_config import config_sha256
from arriero.record.validation import LoadLevel
from arriero.sim.asked import Asked
from arriero.workload.amounts import Amount, LogNormal, Uniform
from arriero.workload.arrivals import Poisson
from arriero.workload.generators import generate
from arriero.workload.records import SCHEMA, WorkloadClass, WorkloadRecord, numbered
from arriero.workload.settings import GENERATOR, ComposedConfig, Vocabulary

LEVELS: Final[Mapping[LoadLevel, float]] = MappingProxyType({
    LoadLevel.BELOW: 0.6, LoadLevel.AT: 1.0, LoadLevel.ABOVE: 1.5,
})  # fmt: skip
"""Rates as parts of the saturation rate."""

FEWEST: Final = 40
"""Requests of a load, however short it is meant to be."""
MOST: Final = 2000
_ANSWER: Final = LogNormal(mu=3.6, sigma=0.5, low=4, high=128)
_NS_PER_US: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """A workload.

    Attributes:
        name: as in tables.
        parts: lengths of prompts and answers, with how many requests of so many have them; requests take turns.
    """

    name: str
    parts: tuple[tuple[int, Amount, Amount], ...]


def held_out(tokens_a_sequence: int) -> tuple[HeldOut, ...]:
    """The workloads for a context in which one sequence holds so many tokens, at least 64."""
    most = max(16, tokens_a_sequence // 2)
    short = LogNormal(mu=4.2, sigma=0.8, low=4, high=most)
    answer = LogNormal(mu=_ANSWER.mu, sigma=_ANSWER.sigma, low=4, high=min(128, max(8, tokens_a_sequence // 4)))
    long, brief = Uniform(low=most // 2, high=most), Uniform(low=4, high=min(32, max(4, tokens_a_sequence // 8)))
    return (
        HeldOut(name="chat", parts=((1, short, answer),)),
        HeldOut(name="long", parts=((1, long, brief),)),
        HeldOut(name="mixed", parts=((3, short, answer), (1, long, brief))),
    )


def records_of(workload: HeldOut, count: int, seed: int) -> tuple[WorkloadRecord, ...]:
    """So many of its requests, one a second on average; more of them leave the first ones as they are."""
    turns = [number for number, (weight, _, _) in enumerate(workload.parts) for _ in range(weight)]
    parts = [
        generate(_settings(prompt, output, count, seed + 7919 * number))
        for number, (_, prompt, output) in enumerate(workload.parts)
    ]
    clock = generate(_settings(Uniform(low=1, high=1), Uniform(low=1, high=1), count, seed))
    found: list[WorkloadRecord] = []
    for index, beat in enumerate(clock):
        drawn = next(parts[turns[index % len(turns)]])
        found.append(
            WorkloadRecord(
                request_id=f"{workload.name}-{index:05d}",
                arrival_time_us=beat.arrival_time_us,
                prompt_token_count=max(1, drawn.prompt_token_count),
                max_new_tokens=max(1, drawn.max_new_tokens),
                workload_class=WorkloadClass.MIXED,
            )
        )
    return tuple(numbered(found))


def sample_of(workload: HeldOut, count: int, seed: int) -> tuple[WorkloadRecord, ...]:
    """The requests that a saturation rate is found with: none of those that are measured."""
    return records_of(workload, count, seed + 1_000_003)


def count_in(rate_per_s: float, seconds: float) -> int:
    """Requests of a load that takes so long, about; neither too few for a percentile nor more than is bearable."""
    return min(MOST, max(FEWEST, round(rate_per_s * seconds)))


def schedule_of(workload: HeldOut, rate_per_s: float, count: int, seed: int, vocabulary: Vocabulary | None) -> Schedule:
    """A schedule in an open loop with gaps by chance, prompts of token ids, and answers of their full length.

    Args:
        workload: whose lengths they have.
        rate_per_s: of arrivals.
        count: requests.
        seed: of everything.
        vocabulary: which tokens prompts are made of; None for the usual ones.
    """
    records = records_of(workload, count, seed)
    settings = {"name": workload.name, "count": count, "seed": seed}
    work = Work(name=workload.name, records=records, sha256=config_sha256(settings), settings=settings)
    asks = AskOptions(ignore_eos=True) if vocabulary is None else AskOptions(ignore_eos=True, vocabulary=vocabulary)
    return make_schedule(work, ScheduleOptions(loop=OpenLoop(rate_per_s=rate_per_s), asks=asks, seed=seed))


def asked_in(schedule: Schedule) -> tuple[Asked, ...]:
    """The requests of a schedule as the simulator takes them: when they are due, and how long they are."""
    return tuple(
        Asked(
            name=item.ask.request_id,
            request=Request(
                request_id=RequestId(number),
                prompt=BlankTokens(len(item.ask.prompt)),
                max_tokens=item.ask.max_tokens,
                arrival_at=(item.at_ns or 0) // _NS_PER_US,
            ),
        )
        for number, item in enumerate(schedule.planned, start=1)
    )


def tokens_in(asked: Sequence[Asked]) -> tuple[int, int]:
    """Prompt and output tokens of all of them."""
    prompts = sum(len(each.request.prompt) for each in asked)
    return prompts, sum(each.request.max_tokens for each in asked)


def _settings(prompt: Amount, output: Amount, count: int, seed: int) -> ComposedConfig:
    return ComposedConfig(
        schema_version=SCHEMA,
        generator=GENERATOR,
        workload_class=WorkloadClass.MIXED,
        request_count=count,
        seed=seed,
        arrival=Poisson(rate_per_s=1.0),
        prompt_length=prompt,
        output_length=output,
    )
