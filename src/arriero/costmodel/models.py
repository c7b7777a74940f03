"""CostModel: the shape of a step → its duration, on the time line for which the model was built.

shared      base + prompt rows + decode rows + slots + emits                 one call for all sequences
per call    the same for each sequence by itself, summed in slot order       a pool of contexts
integer     whole microseconds of a simulator, nothing rounded
rounded     float microseconds, rounded once at the end
"""

from dataclasses import dataclass
from typing import Final, Protocol

from arriero.core.errors import DataError
from arriero.core.ids import Time
from arriero.core.plan import StepShape

TIME_MAX: Final = 2**63 - 1
"""The simulator's clock is a signed 64-bit number, and so is everything that is added to it."""


class TimeOverflow(DataError):
    """A time or a cost does not fit in 64 bits."""


def checked(time: Time) -> Time:
    """The time itself.

    Raises:
        TimeOverflow: it is above `TIME_MAX`. As no term is negative, a sum that fits has no term that does not.
    """
    if time > TIME_MAX:
        message = f"a time of {time} us exceeds a signed 64-bit number; lower the costs or the arrival times"
        raise TimeOverflow(message)
    return time


class CostModel(Protocol):
    """How long a step of a shape takes; never negative."""

    def step_time(self, shape: StepShape) -> Time:
        """The duration."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedMilliseconds:
    """Float milliseconds of one call for all sequences; the order of the terms is part of the result."""

    base: float
    prompt_row: float
    decode_row: float
    active_slot: float
    stream_emit: float

    def step_time(self, shape: StepShape) -> float:
        """From left to right."""
        return (
            self.base
            + self.prompt_row * shape.prefill_rows
            + self.decode_row * shape.decode_rows
            + self.active_slot * shape.num_running
            + self.stream_emit * shape.decode_rows
        )


@dataclass(frozen=True, slots=True)
class CallMilliseconds:
    """Float milliseconds of a call for each sequence, one after another."""

    call: SharedMilliseconds

    def step_time(self, shape: StepShape) -> float:
        """The calls in row order, then the slots."""
        call = self.call
        total = 0.0
        for each in shape.calls:
            total += (
                call.base
                + call.prompt_row * each.prefill_rows
                + call.decode_row * each.decode_rows
                + call.stream_emit * each.decode_rows
            )
        return total + call.active_slot * shape.num_running


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchMicroseconds:
    """Whole microseconds of one call for all sequences."""

    base: int
    prefill_row: int
    decode_row: int
    sequence: int  # with rows in this step

    def step_time(self, shape: StepShape) -> int:
        """Exact; refuses what does not fit in 64 bits."""
        total = (
            self.base
            + self.prefill_row * shape.prefill_rows
            + self.decode_row * shape.decode_rows
            + self.sequence * (shape.prefill_chunks + shape.decode_rows)
        )
        return total if total <= TIME_MAX else int(checked(total))


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseMicroseconds:
    """Whole microseconds where one request runs alone: prefill and decode steps have bases of their own."""

    prefill_base: int  # with what the one sequence costs
    prefill_row: int
    decode_base: int  # with what the one sequence costs

    def step_time(self, shape: StepShape) -> int:
        """Exact; refuses what does not fit in 64 bits."""
        total = self.decode_base * shape.decode_rows
        if shape.prefill_chunks:
            total += self.prefill_base * shape.prefill_chunks + self.prefill_row * shape.prefill_rows
        return int(checked(total))


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundedMicroseconds:
    """Whole microseconds from float coefficients, rounded to nearest once at the end."""

    base: float
    prefill_row: float = 0.0
    decode_row: float = 0.0
    sequence: float = 0.0  # with rows in this step
    context_token: float = 0.0

    @property
    def is_level(self) -> bool:
        """Whether equal rows at later positions take as long."""
        return self.context_token == 0

    def step_time(self, shape: StepShape) -> int:
        """Refuses what does not fit in 64 bits."""
        total = round(
            self.base
            + self.prefill_row * shape.prefill_rows
            + self.decode_row * shape.decode_rows
            + self.sequence * (shape.prefill_chunks + shape.decode_rows)
            + self.context_token * shape.context_tokens
        )
        return total if total <= TIME_MAX else int(checked(total))
