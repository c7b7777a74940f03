"""Asked: who asks for how much and when, and how long the answers will be; in the form that any run takes.

asked_of(records)            of a workload
at_rate(asked, 4.0)          the same at another rate: every gap is stretched alike
by_chance(asked, seed)       the same with the gaps of a Poisson process
at_once(asked)               the same, all there from the start
"""

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from arriero.core.errors import ConfigError
from arriero.core.ids import RequestId, Time, TokenId
from arriero.core.request import BlankTokens, Request
from arriero.sim.own_answers import Turn, answers_in
from arriero.sim.own_order import order_said
from arriero.sim.own_scopes import EVERYBODY
from arriero.workload.arrivals import Poisson, beginnings
from arriero.workload.notes import notes_of
from arriero.workload.records import WorkloadRecord, numbered

_US_PER_S = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request, and what is known of it beforehand.

    Attributes:
        name: unique among those of a run.
        request: as the scheduler takes it; its id is its place among them, from 1. Its answer is as long as
            `max_tokens` unless `answer` ends it earlier.
        answer: tokens of the answer, as far as they matter to a memory that keeps them.
        follows: id of the request after whose end it is sent; None for one that arrives by the clock.
        think_us: from that end to its own arrival.
        cancel_after_us: its client gives up so long after the arrival; None for never.
        conversation: what it is a turn of, or None.
        turn: which one, from 0.
    """

    name: str
    request: Request
    answer: tuple[TokenId, ...] = ()
    follows: RequestId | None = None
    think_us: int = 0
    cancel_after_us: int | None = None
    conversation: str | None = None
    turn: int = 0


def asked_of(records: Iterable[WorkloadRecord], *, with_tokens: bool) -> tuple[Asked, ...]:
    """The requests of a workload, by arrival; who goes first is what it says, as in a simulation of our own mode.

    Args:
        records: in any order.
        with_tokens: prompts keep their tokens, where a prefix cache looks at them; else only their lengths.
    """
    ordered = numbered(records)
    ids = {record.request_id: RequestId(number) for number, record in enumerate(ordered, start=1)}
    answers = answers_in(_turns(ordered)) if with_tokens else {}
    return tuple(
        _asked(record, ids, answers.get(ids[record.request_id], ()), with_tokens=with_tokens) for record in ordered
    )


def own_rate(asked: Sequence[Asked]) -> float | None:
    """Requests a second, as their arrivals stand; None where they have no rate, since all come at one moment.

    Those that follow others come as answers let them, and count all the same.
    """
    times = [each.request.arrival_at for each in asked if each.follows is None]
    if len(times) < 2 or times[-1] <= times[0]:
        return None
    heads_per_us = (len(times) - 1) / (times[-1] - times[0])
    return heads_per_us * _US_PER_S * len(asked) / len(times)


def at_rate(asked: Sequence[Asked], rate_per_s: float) -> tuple[Asked, ...]:
    """The same requests at another mean rate, the first of them at 0; think times stay.

    Raises:
        ConfigError: all of them come at one moment, which cannot be stretched.
    """
    own = own_rate(asked)
    if own is None:
        raise ConfigError("the requests arrive at one moment, so they have no rate; use --arrivals poisson")
    first, factor = asked[0].request.arrival_at, own / rate_per_s
    return tuple(_moved(each, round((each.request.arrival_at - first) * factor)) for each in asked)


def by_chance(asked: Sequence[Asked], seed: int) -> tuple[Asked, ...]:
    """The same requests in the same order, one a second on average, with exponential gaps; the first at 0.

    Those that follow others get the time of the one before them, which nobody looks at.
    """
    times = beginnings(Poisson(rate_per_s=1.0), random.Random(seed))
    found: list[Asked] = []
    now = 0
    for each in asked:
        now = next(times) if each.follows is None else now
        found.append(_moved(each, now))
    return tuple(found)


def at_once(asked: Sequence[Asked]) -> tuple[Asked, ...]:
    """The same requests, all there at 0; what follows others does so at once."""
    return tuple(replace(_moved(each, 0), think_us=0) for each in asked)


def _turns(ordered: Sequence[WorkloadRecord]) -> Iterator[Turn]:
    for number, record in enumerate(ordered, start=1):
        notes = notes_of(record)
        yield Turn(
            request_id=RequestId(number),
            conversation=notes.session_id,
            turn=notes.turn or 0,
            prompt=record.prompt_tokens,
            max_tokens=record.max_new_tokens,
        )


def _asked(
    record: WorkloadRecord, ids: dict[str, RequestId], answer: tuple[TokenId, ...], *, with_tokens: bool
) -> Asked:
    notes, order = notes_of(record), order_said(record)
    exact = record.prompt_tokens if with_tokens else None
    at = record.arrival_time_us
    request = Request(
        request_id=ids[record.request_id],
        prompt=BlankTokens(record.prompt_token_count) if exact is None else tuple(exact),
        max_tokens=record.max_new_tokens,
        arrival_at=at,
        session_id=None if exact is None else notes.session_id,
        cache_scope=None if exact is None else EVERYBODY,
        priority=order.priority,
        deadline_at=None if order.due_after is None else at + order.due_after,
        tenant=order.tenant,
    )
    return Asked(
        name=record.request_id,
        request=request,
        answer=answer,
        follows=None if notes.follows is None else ids.get(notes.follows),
        think_us=notes.think_time_us or 0,
        conversation=notes.session_id,
        turn=notes.turn or 0,
    )


def _moved(each: Asked, at: int) -> Asked:
    """The same request at another time; what it expects stays as far away from its arrival."""
    request = each.request
    by = at - request.arrival_at
    moved = replace(
        request,
        arrival_at=at,
        expires_at=_later(request.expires_at, by),
        start_by=_later(request.start_by, by),
        deadline_at=_later(request.deadline_at, by),
    )
    return replace(each, request=moved)


def arriving(each: Asked, at: int) -> Request:
    """What is submitted if it arrives then."""
    return each.request if each.request.arrival_at == at else _moved(each, at).request


def _later(at: Time | None, by: Time) -> Time | None:
    return None if at is None else at + by
