"""Health: is the engine well? Told from what it published last, so that asking never waits for it."""

from dataclasses import dataclass

from arriero.core.errors import ArrieroError
from arriero.core.ids import Time
from arriero.engine.actor import Actor
from arriero.engine.watchdog import stuck_reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Whether the engine is well, from its last published figures.

    Attributes:
        alive: the loop runs.
        accepting: new work is taken.
        reason: why it is not well, in one line, or None.
        has_work: requests are alive, or wait to be taken.
        step_age_us: since the end of the last step, or since it woke up after that; 0 while it sleeps without work.
        stuck: work waits and no step has ended for too long; `reason` says for how long, and what is being done.
    """

    alive: bool
    accepting: bool
    reason: str | None
    has_work: bool
    step_age_us: Time
    stuck: bool = False


def not_started(refusal: ArrieroError | None) -> Health:
    """Of an engine that does not run yet."""
    return Health(alive=False, accepting=refusal is None, reason="not started", has_work=False, step_age_us=0)


def health_of(actor: Actor, now: Time, *, alive: bool, after: Time) -> Health:
    """Of a running engine, or one that has ended.

    Args:
        actor: of the engine.
        now: on its clock.
        alive: whether its loop runs.
        after: how long work may wait for the end of a step.
    """
    refusal, pulse = actor.inbox.refusal, actor.control.pulse
    # the figures may be older than the call that runs; a message that waits for a sleeping engine is about to wake it
    is_owed = actor.snapshot.has_work or pulse.work is not None
    has_work = is_owed or len(actor.inbox) > 0
    waits = is_owed or (has_work and not pulse.is_asleep)
    why_stuck = stuck_reason(pulse, now, after=after) if alive and waits else None
    return Health(
        alive=alive,
        accepting=refusal is None,
        reason=why_stuck if refusal is None else str(refusal),
        has_work=has_work,
        step_age_us=pulse.age(now) if waits else 0,
        stuck=why_stuck is not None,
    )
