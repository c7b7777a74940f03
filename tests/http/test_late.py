"""A request whose time to wait is over while its prompt is tokenised, in the very turn that brings the tokens."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import pytest

from arriero.http.completions import read_completion
from arriero.http.desk import Desk
from arriero.http.endpoint import AnswerEndpoint
from arriero.http.errors import Dialect
from arriero.http.gate import Gate
from tests.http.rig import Json, serving, text

T = TypeVar("T")

TEXT = "/v1/completions"
END_OF_TIME = 2**62


class AtTheLastMoment(Desk):
    """Whoever has its prompt tokenised here has waited for long enough when that is done."""

    async def on_worker(self, work: Callable[[], T]) -> T:
        done = work()
        for place in self.service.engine.places.expire(END_OF_TIME):
            place.tell_late()
        return done


@pytest.mark.parametrize(
    ("urgency", "queue_timeout_ms", "code", "reason"),
    [
        ({}, 60_000, "queue_timeout", "queue_timeout"),
        ({"deadline_ms": 60_000}, None, "deadline_hopeless", "deadline"),
    ],
)
async def test_who_is_late_when_its_tokens_come_is_told_and_counted_like_everybody_who_is_late(
    urgency: Json, queue_timeout_ms: int | None, code: str, reason: str
) -> None:
    async with serving(queue_timeout_ms=queue_timeout_ms) as rig:
        desk = AtTheLastMoment(rig.service)
        endpoint = AnswerEndpoint(desk, "completions", Dialect.OPENAI, read_completion)
        late = replace(rig, app=Gate(rig.app, {TEXT: endpoint}, rig.service.options))
        call, body = await late.ask(TEXT, text("x", max_tokens=1, **urgency))
        assert (call.status, body["error"]["code"]) == (503, code)
        assert int(call.headers["retry-after"]) >= 1
        assert rig.engine.num_submitted == 0
        assert rig.figure("rejected", reason) == 1
        assert rig.figure("requests", "completions", "rejected") == 1
        await rig.idle()
        desk.close()
