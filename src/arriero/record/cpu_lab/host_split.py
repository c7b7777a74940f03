"""HostSplit: the parts of an engine's step, on the host and inside the decode call."""

from enum import StrEnum
from statistics import median
from typing import Annotated

from msgspec import Meta

from arriero.record.bench_parts import BenchPart, Evidence
from arriero.record.strict import Count, Positive


class HostPart(StrEnum):
    """Where a step's time goes, in the order of a step."""

    PLAN = "plan"  # the scheduler composes the batch
    FILL = "batch filling"  # rows -> llama_batch
    CALL = "decode call"  # llama_decode
    FETCH = "logits fetch"  # a view over the logits
    SAMPLE = "sampling"  # a token for each row that wants one
    COMMIT = "commit"  # the scheduler takes the tokens over
    DELIVER = "delivery"  # events -> streams and results
    REST = "rest"  # messages, memory operations, totals, the watching itself


class PartTimes(BenchPart, frozen=True, kw_only=True):
    """One part of every step that counts, in the order of running, in nanoseconds."""

    part: HostPart
    ns: Annotated[tuple[Count, ...], Meta(min_length=1)]

    @property
    def median_us(self) -> float:
        """Of the steps."""
        return median(self.ns) / 1e3


class HostPoint(BenchPart, frozen=True, kw_only=True):
    """Steps with one number of sequences, all of them decoding.

    Attributes:
        sequences: rows of each step.
        step_ns: of each whole pass of the engine's loop, from the end of the one before.
        parts: every part once, in their order; the parts of a step sum up to the step.
        iter_wall_us: of the same steps, as the engine's own diagnostics have them: without waking consumers and
            without what lies between two passes.
        llama_decode_wall_us: likewise; filling, calling and fetching together.
    """

    sequences: Positive
    step_ns: Annotated[tuple[Positive, ...], Meta(min_length=1)]
    parts: tuple[PartTimes, ...]
    iter_wall_us: tuple[Count, ...]
    llama_decode_wall_us: tuple[Count, ...]

    @property
    def step_us(self) -> float:
        """Median of the steps."""
        return median(self.step_ns) / 1e3

    @property
    def host_us(self) -> float:
        """Median over the steps of what is not inside the decode call."""
        calls = next((each.ns for each in self.parts if each.part is HostPart.CALL), (0,) * len(self.step_ns))
        return median(step - call for step, call in zip(self.step_ns, calls, strict=True)) / 1e3


class HostSplit(BenchPart, frozen=True, kw_only=True):
    """The host's part of a step by number of sequences.

    Attributes:
        evidence: of these times: whole steps with stamps around their parts.
        prompt: tokens of each request's prompt.
        points: by number of sequences, ascending.
    """

    evidence: Evidence = Evidence.PROFILED
    prompt: Positive
    points: tuple[HostPoint, ...]
