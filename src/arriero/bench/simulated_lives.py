"""From a row of the simulator to the life of its client."""

from typing import NamedTuple

from arriero.bench.loops_lines import INTERRUPTED
from arriero.bench.runner_words import error_word
from arriero.bench.schedule import Planned
from arriero.bench.simulated_senders import NS_PER_US, Sending
from arriero.core.errors import CallerError
from arriero.core.events import Finished, Rejected
from arriero.metrics.client_life import ClientLife, Outcome
from arriero.record.sim_rows import SimRequestRow


class Ending(NamedTuple):
    """How a request ended, or how the run ended without it; microseconds of the simulator's line.

    Attributes:
        event: its end, or None.
        gave_up: why nobody waits for it any more, if it did not end.
        run_ended_at: when that was.
    """

    event: Finished | Rejected | None
    gave_up: str
    run_ended_at: int


def simulated_life(item: Planned, sending: Sending, row: SimRequestRow, ending: Ending) -> ClientLife:
    """The life of a request that was sent, from what the simulator knows of it."""
    event, ended_at = ending.event, ending.run_ended_at
    end = None if event is None or event.at > ended_at else event
    outcome, error = _ending(item, end, ending.gave_up)
    chunks = tuple(at * NS_PER_US for at in row.token_at_us if at <= ended_at)
    at_ns = sending.at * NS_PER_US
    return ClientLife(
        request_id=item.ask.request_id,
        intended_at=at_ns if sending.is_intended else None,
        sent_at=at_ns,
        closed_at=(ended_at if end is None else int(end.at)) * NS_PER_US,
        outcome=outcome,
        error=error,
        asked_tokens=item.ask.max_tokens,
        chunk_at=chunks,
        chunk_tokens=(1,) * len(chunks),
        num_tokens=len(chunks),
        prompt_tokens=None if isinstance(end, Rejected) else row.prompt_tokens,
        cached_tokens=row.cached_tokens if row.looked_up else None,
        asked_prompt_tokens=row.prompt_tokens,
        conversation=item.ask.conversation,
        turn=item.ask.turn,
        is_warm_up=item.is_warm_up,
    )


def _ending(item: Planned, end: Finished | Rejected | None, gave_up: str) -> tuple[Outcome, str | None]:
    match end:
        case None:
            return (Outcome.CANCELLED_BY_CLIENT if gave_up == INTERRUPTED else Outcome.TIMEOUT), gave_up
        case Rejected(error=error):
            return (Outcome.ERROR if isinstance(error, CallerError) else Outcome.REJECTED), error_word(error)
        case Finished(cancel_reason=None):
            return Outcome.LENGTH, None
        case Finished():
            is_planned = item.ask.cancel_after is not None
            return (Outcome.CANCELLED_BY_CLIENT, None) if is_planned else (Outcome.CANCELLED_BY_SERVER, "cancelled")
