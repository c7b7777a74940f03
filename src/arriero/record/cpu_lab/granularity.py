"""GranularityResult: the file of `arriero lab granularity`, schema `arriero-granularity-v1`.

    every    1    2    4 ... whole
    cuts     n-1  ...        0        places at which the graph is interrupted
    ns       of each call; the n-th of every size computed the same rows in the same repetition

A call in packets minus the call in one piece is the price of its cuts. Both calls of a difference belong to one
repetition, a few seconds apart at most, so that a slow drift of the machine is in both.
"""

from statistics import median, quantiles
from typing import Annotated, Final, Literal, NamedTuple

from msgspec import Meta

from arriero.core.errors import DataError
from arriero.metrics.paired_figures import order_interval
from arriero.record.bench_parts import BenchPart, Evidence, RunFacts
from arriero.record.cpu_lab.conditions import ConditionSample
from arriero.record.cpu_lab.environment import LabEnvironment
from arriero.record.cpu_lab.model_facts import ModelFacts
from arriero.record.cpu_lab.operators import PhaseWord, ProfileSettings
from arriero.record.cpu_lab.result_file import ResultFile
from arriero.record.strict import Count, Name, Positive

SCHEMA: Final = "arriero-granularity-v1"
CONFIDENCE: Final = 0.95


class PacketTimes(BenchPart, frozen=True, kw_only=True):
    """Times of the packets of one size: median over the calls for each, then over the packets."""

    least_ns: Annotated[float, Meta(ge=0)]
    median_ns: Annotated[float, Meta(ge=0)]
    greatest_ns: Annotated[float, Meta(ge=0)]


class PacketArm(BenchPart, frozen=True, kw_only=True):
    """Calls whose graph was computed in packets of one size.

    Attributes:
        every: nodes in a packet; null: the whole graph, with callbacks that only answer.
        num_packets: of a call.
        ns: of each call, in the order of running.
        packets: times of single packets; null for the whole graph.
        equal_bits: whether all logits have the bits of the context without callbacks.
    """

    every: Positive | None
    num_packets: Positive
    ns: Annotated[tuple[Positive, ...], Meta(min_length=1)]
    packets: PacketTimes | None
    equal_bits: bool


class PhaseGranularity(BenchPart, frozen=True, kw_only=True):
    """Prefill or decode.

    Attributes:
        phase: which.
        rows: of one call.
        context: positions in KV before the first call of a repetition.
        num_nodes: of the graph.
        bare_ns: calls of a context without callbacks, in the order of running.
        arms: the whole graph first, then from large packets to small ones.
    """

    phase: PhaseWord
    rows: Positive
    context: Count
    num_nodes: Positive
    bare_ns: Annotated[tuple[Positive, ...], Meta(min_length=1)]
    arms: Annotated[tuple[PacketArm, ...], Meta(min_length=1)]


class Price(NamedTuple):
    """What cutting a graph costs.

    Attributes:
        step_ns: median call.
        low_ns, high_ns: its quartiles.
        extra_ns: median over the calls of (in packets - in one piece).
        slowdown: median over the calls of (in packets / in one piece) - 1.
        cut_ns: extra / cuts; None without a cut.
        cut_low_ns, cut_high_ns: quartiles of the differences, for each cut; None without a cut.
        is_resolved: whether the 95 % interval of the extra leaves 0 out, with one value a repetition: calls that follow
            one another are no independent samples. Six repetitions are the fewest that can resolve anything.
    """

    step_ns: float
    low_ns: float
    high_ns: float
    extra_ns: float
    slowdown: float
    cut_ns: float | None
    cut_low_ns: float | None
    cut_high_ns: float | None
    is_resolved: bool


class GranularityResult(BenchPart, frozen=True, kw_only=True):
    """The whole file.

    Attributes:
        schema_version: of the file.
        evidence: always PROFILED.
        is_quick: few repetitions, to see that it works.
        run: how it came about.
        environment: where.
        model: the file.
        settings: as of a profile.
        callbacks: what they are made of.
        before: the machine before the run.
        after: the machine after it.
        busy: what kept the machine busy at the start; null if it was quiet.
        phases: prefill, then decode.
        reasons: name of what was done in a second-best way -> why.
    """

    schema_version: Literal["arriero-granularity-v1"] = SCHEMA
    evidence: Evidence = Evidence.PROFILED
    is_quick: bool
    run: RunFacts
    environment: LabEnvironment
    model: ModelFacts
    settings: ProfileSettings
    callbacks: Name
    before: ConditionSample
    after: ConditionSample
    busy: str | None
    phases: tuple[PhaseGranularity, ...]
    reasons: dict[str, str]


def price_of(arm: PacketArm, whole: PacketArm, repetitions: int) -> Price:
    """The price of one size, from calls in pairs.

    Args:
        arm: the calls in packets.
        whole: the calls in one piece, equally many.
        repetitions: in which they were made, each with equally many calls.
    """
    cuts = arm.num_packets - 1
    extra = [one - other for one, other in zip(arm.ns, whole.ns, strict=True)]
    low, high = quartiles(arm.ns)
    extra_low, extra_high = quartiles(extra)
    return Price(
        step_ns=median(arm.ns),
        low_ns=low,
        high_ns=high,
        extra_ns=median(extra),
        slowdown=median(one / other for one, other in zip(arm.ns, whole.ns, strict=True)) - 1,
        cut_ns=median(extra) / cuts if cuts else None,
        cut_low_ns=extra_low / cuts if cuts else None,
        cut_high_ns=extra_high / cuts if cuts else None,
        is_resolved=_is_resolved(extra, repetitions),
    )


def _is_resolved(extra: list[int], repetitions: int) -> bool:
    """See `Price`."""
    size = max(1, len(extra) // repetitions)
    medians = [median(extra[first : first + size]) for first in range(0, len(extra), size)]
    interval = order_interval(medians, CONFIDENCE)
    return interval is not None and not interval.low <= 0 <= interval.high


def quartiles(values: tuple[int, ...] | list[int]) -> tuple[float, float]:
    """The first and the third, interpolated; a single value is both."""
    if len(values) == 1:
        return float(values[0]), float(values[0])
    first, _, third = quantiles(values, n=4, method="inclusive")
    return first, third


def _check(result: GranularityResult, file: str) -> None:
    """See that sizes, packets and numbers of calls fit together.

    Raises:
        DataError: names the field.
    """
    if result.evidence is not Evidence.PROFILED:
        what = f"evidence: {result.evidence} is not what packets give; it is {Evidence.PROFILED}"
        raise DataError(what, file=file, field="evidence")
    for index, phase in enumerate(result.phases):
        place = f"phases[{index}].arms"
        if phase.arms[0].every is not None:
            raise DataError(f"{place}: the whole graph comes first; run again", file=file, field=place)
        for number, arm in enumerate(phase.arms):
            packets = 1 if arm.every is None else -(-phase.num_nodes // arm.every)
            if arm.num_packets != packets or len(arm.ns) != len(phase.arms[0].ns):
                what = f"{place}[{number}]: its packets or calls do not fit the graph; run again"
                raise DataError(what, file=file, field=f"{place}[{number}]")


_FILE: Final = ResultFile(kind=GranularityResult, schema=SCHEMA, check=_check)
write_granularity: Final = _FILE.write
read_granularity: Final = _FILE.read
