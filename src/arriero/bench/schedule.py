"""Schedule: what will be asked and when, fixed before a run.

    open loop     every item has a time, or follows the end of another one by its think time
    closed loop   clients take the next item that follows nothing as soon as they are free

An item that follows another is sent `think_ns` after that one's end. Nothing here is decided while a run goes on, so
the same schedule can be given to any target, and its hash names it.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain
from typing import Any

import msgspec
import numpy as np

from arriero.bench.ask import Ask


class Loop(StrEnum):
    """What arrivals follow."""

    OPEN = "open"  # the schedule
    CLOSED = "closed"  # the ends of answers


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One request of a schedule.

    Attributes:
        ask: what is sent.
        at_ns: when, from the start of the run; None if it waits for another request or for a free client.
        follows: the request whose end it waits for, or None.
        think_ns: from that end to its own send; in a closed loop, if it follows nothing, from the end of its client's
            previous request.
        num_fresh: tokens at the end of its prompt that its turn adds; None if it continues no answer.
        is_warm_up: in no figure.
    """

    ask: Ask
    at_ns: int | None = None
    follows: str | None = None
    think_ns: int = 0
    num_fresh: int | None = None
    is_warm_up: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When a run ends, and which part of it counts.

    Attributes:
        duration_ns: nothing is sent later than this after the start; None: until everything was sent.
        drain_ns: how long answers are waited for after the last send was due; None: as long as it takes.
        warm_up_ns: left out at the beginning.
        cool_down_ns: left out before the stop of arrivals.
    """

    duration_ns: int | None = None
    drain_ns: int | None = None
    warm_up_ns: int = 0
    cool_down_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """All of a run that is known beforehand; `seal` makes one.

    Attributes:
        planned: in the order in which they are sent, where that is known.
        client_starts: in a closed loop, when each client begins, from the start of the run; empty in an open one.
        continues_answers: prompts of later turns are made from the real answers, so only their fresh ends are fixed.
        settings: what it was made from, as JSON.
        sha256: of everything above.
    """

    loop: Loop
    planned: tuple[Planned, ...]
    client_starts: tuple[int, ...] = ()
    limits: Limits = field(default_factory=Limits)
    continues_answers: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    sha256: str

    @property
    def is_supply(self) -> bool:
        """Whether clients only draw from it until the time is over: what is left then was never intended."""
        return self.loop is Loop.CLOSED and self.limits.duration_ns is not None

    def followers(self) -> dict[str, list[Planned]]:
        """Request id → what follows it, in order."""
        found: dict[str, list[Planned]] = {}
        for each in self.planned:
            if each.follows is not None:
                found.setdefault(each.follows, []).append(each)
        return found

    def heads(self) -> list[Planned]:
        """What follows nothing, in order."""
        return [each for each in self.planned if each.follows is None]


def seal(
    loop: Loop,
    planned: Sequence[Planned],
    *,
    client_starts: Sequence[int] = (),
    limits: Limits | None = None,
    continues_answers: bool = False,
    settings: Mapping[str, Any] | None = None,
) -> Schedule:
    """A schedule with its hash."""
    limits = Limits() if limits is None else limits
    settings = {} if settings is None else settings
    digest = hashlib.sha256()
    head = {
        "loop": loop,
        "client_starts": list(client_starts),
        "limits": limits,
        "continues_answers": continues_answers,
        "settings": settings,
    }
    for part in chain([msgspec.json.encode(head, order="deterministic")], map(_bytes_of, planned)):
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return Schedule(
        loop=loop,
        planned=tuple(planned),
        client_starts=tuple(client_starts),
        limits=limits,
        continues_answers=continues_answers,
        settings=settings,
        sha256=digest.hexdigest(),
    )


def _bytes_of(planned: Planned) -> bytes:
    ask = planned.ask
    prompt: object = ask.prompt
    if isinstance(ask.prompt, tuple) and all(type(token) is int for token in ask.prompt):
        # four bytes a token, in one byte order
        prompt = hashlib.sha256(np.asarray(ask.prompt, dtype="<i4").tobytes()).hexdigest()
    values = [
        *(ask.request_id, ask.endpoint, prompt, ask.max_tokens, dict(ask.fields), ask.stream, ask.cancel_after),
        *(ask.session_id, ask.conversation, ask.turn),
        *(planned.at_ns, planned.follows, planned.think_ns, planned.num_fresh, planned.is_warm_up),
    ]
    return msgspec.json.encode(values, order="deterministic")
