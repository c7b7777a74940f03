"""Priority and deadline of a request, in its body or in headers."""

import pytest

from arriero.core.errors import InvalidRequest
from arriero.core.events import Queued
from arriero.core.request import Request
from arriero.http.urgency import Urgency
from tests.http.rig import Json, Rig, chat, serving, text

BODIES: dict[str, Json] = {
    "/v1/chat/completions": chat(max_tokens=1),
    "/v1/completions": text(max_tokens=1),
    "/completion": {"prompt": "x", "decode_budget": 1},
}


async def taken(rig: Rig) -> Request:
    """The request that the engine got last."""
    await rig.idle()
    return [event.request for event in rig.witness.events if isinstance(event, Queued)][-1]


@pytest.mark.parametrize("path", list(BODIES))
async def test_both_places_reach_the_engine(path: str) -> None:
    headers = {"X-Priority": "-3", "X-Deadline-Ms": "60000"}
    async with serving() as rig:
        for body, more in (
            ({**BODIES[path], "priority": -3, "deadline_ms": 60_000}, {}),
            (BODIES[path], {"headers": headers}),
            ({**BODIES[path], "priority": -3, "deadline_ms": 60_000}, {"headers": headers}),
        ):
            call, _ = await rig.ask(path, body, **more)
            assert call.status == 200
            request = await taken(rig)
            assert request.priority == -3
            assert request.deadline_at == request.arrival_at + 60_000_000
            assert request.start_by == request.deadline_at, "who has not started by then cannot be in time"
        call, _ = await rig.ask(path, BODIES[path])
        request = await taken(rig)
        assert (call.status, request.priority, request.deadline_at, request.start_by) == (200, 0, None, None)


async def test_a_key_pays_for_its_requests_under_a_name_that_is_not_the_key() -> None:
    async with serving(api_keys=("sesame", "other")) as rig:
        tenants = set()
        for key in ("sesame", "other", "sesame"):
            await rig.ask("/v1/completions", text(max_tokens=1), headers={"authorization": f"Bearer {key}"})
            tenants.add((await taken(rig)).tenant)
        assert len(tenants) == 2
        assert not any("sesame" in str(each) for each in tenants)


@pytest.mark.parametrize(
    ("fields", "headers", "param"),
    [
        ({"priority": 101}, {}, "priority"),
        ({"priority": -101}, {}, "priority"),
        ({"priority": "high"}, {}, "priority"),
        ({"deadline_ms": 0}, {}, "deadline_ms"),
        ({"deadline_ms": 1.5}, {}, "deadline_ms"),
        ({}, {"X-Priority": "high"}, "priority"),
        ({}, {"X-Priority": "101"}, "priority"),
        ({}, {"X-Priority": ""}, "priority"),
        ({}, {"X-Deadline-Ms": "0"}, "deadline_ms"),
        ({}, {"X-Deadline-Ms": "-5"}, "deadline_ms"),
        ({}, {"X-Deadline-Ms": "99999999999999999999"}, "deadline_ms"),
        ({"priority": 1}, {"X-Priority": "2"}, "priority"),
        ({"deadline_ms": 1000}, {"X-Deadline-Ms": "2000"}, "deadline_ms"),
    ],
)
async def test_what_is_no_priority_or_deadline_names_the_field(
    fields: dict[str, Json], headers: dict[str, str], param: str
) -> None:
    async with serving() as rig:
        for path, body in BODIES.items():
            call, answer = await rig.ask(path, {**body, **fields}, headers=headers)
            assert call.status in ({400, 422} if path == "/completion" else {400})
            assert answer["error"]["param"] == param
        assert rig.engine.door.accepted == 0


@pytest.mark.parametrize("shown", [b" 7 ", b"+7", b"007"])
def test_a_header_may_be_padded(shown: bytes) -> None:
    assert Urgency().with_headers(shown, None) == Urgency(7, None)


def test_bytes_that_are_no_text_are_shown_as_they_came() -> None:
    with pytest.raises(InvalidRequest, match="must be a whole number from 1 to"):
        Urgency().with_headers(None, b"\xff\xfe")
