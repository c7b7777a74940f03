"""Watchdog: is an engine busy, or stuck? A pure rule over what the engine last said.

A step may take minutes where a model is large, so a bound alone would call an honest engine stuck: where a cost model
predicts the running step, it may take many times that. An engine that sleeps has no work, whatever its last step's age.
"""

from typing import Final, NamedTuple

from arriero.core.ids import StepNumber, Time

TIMES_PREDICTED: Final = 20
"""How many times as long as predicted a step may take before it counts as stuck."""


class Work(NamedTuple):
    """A decode call that is under way.

    Attributes:
        step: of which plan.
        decode_rows, prefill_rows: what is computed.
        predicted: how long the whole step will take; None without a cost model.
    """

    step: StepNumber
    decode_rows: int
    prefill_rows: int
    predicted: Time | None

    @property
    def words(self) -> str:
        """For a person."""
        rows = f"step {self.step} computes {self.decode_rows} decode rows and {self.prefill_rows} prompt rows"
        return rows if self.predicted is None else f"{rows}, which was predicted to take {self.predicted / 1e6:.3g} s"


class Pulse(NamedTuple):
    """What an engine said last; one value, so that whoever reads it from another thread sees one moment.

    Attributes:
        at: the end of its last step, or when it woke up after that.
        is_asleep: whether it waits for a message.
        work: the decode call that is under way, if one is.
    """

    at: Time
    is_asleep: bool = False
    work: Work | None = None

    def age(self, now: Time) -> Time:
        """Since then."""
        return max(0, now - self.at)


def stuck_reason(pulse: Pulse, now: Time, *, after: Time) -> str | None:
    """Why an engine that has work is stuck, in one line; None while it is only busy.

    Args:
        pulse: what it said last.
        now: on its clock.
        after: how long work may wait for the end of a step, at least.
    """
    age = pulse.age(now)
    predicted = None if pulse.work is None else pulse.work.predicted
    if age <= (after if predicted is None else max(after, TIMES_PREDICTED * predicted)):
        return None
    doing = "requests wait and nothing is computed" if pulse.work is None else pulse.work.words
    return f"no step has ended for {age / 1e6:.1f} s: {doing}"
