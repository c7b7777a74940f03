"""What is let in, what is refused, with which words, and what it holds meanwhile: nothing."""

import asyncio
import dataclasses
from collections.abc import Callable
from itertools import pairwise

import pytest

from arriero.backend.synthetic import SyntheticOptions
from arriero.core.events import TokenEmitted
from arriero.testing.faults import FailedCall
from tests.http.rig import END, SMALL, Call, Json, Rig, Valve, chat, events_of, serving, text, text_of_chat
from tests.http.test_cancels import steady, step_until

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
ONE_SLOT = dataclasses.replace(SMALL, num_sequences=1)


async def fill(rig: Rig, valve: Valve, num_requests: int) -> list[Call]:
    """Requests that run or wait, and do not end before the valve opens."""
    calls = [rig.call(TEXT, text(f"{number}", max_tokens=100)) for number in range(num_requests)]
    await steady(rig, valve, num_requests)
    return calls


async def test_a13_what_is_over_the_bound_is_refused_at_once_and_holds_nothing() -> None:
    valve = Valve()
    async with serving(faults=[valve], backlog=8) as rig:
        calls = await fill(rig, valve, 12)
        refused = [rig.call(CHAT, chat(max_tokens=20, stream=bool(number % 2))) for number in range(88)]
        for call in refused:
            body = await call.json()
            assert call.status == 503
            assert body["error"]["code"] == "server_is_overloaded"
            assert call.headers["retry-after"] == "1"
            assert "x-should-retry" not in call.headers
        door = rig.engine.door
        assert (door.in_flight, door.peak, door.accepted, door.refused) == (12, 12, 12, 88)
        assert rig.figure("rejected", "backlog") == 88
        assert rig.engine.snapshot.totals.submitted == 12
        valve.open()
        for call in calls:
            assert (await call.json())["usage"]["completion_tokens"] == 100
        await rig.idle()
        rows = [row for row in rig.witness.rows if row.outcome == "rejected"]
        assert len(rows) == 88
        assert {(row.http_status, row.error_code) for row in rows} == {(503, "server_is_overloaded")}


async def test_r4_the_bound_counts_every_endpoint_and_every_sequence() -> None:
    valve = Valve()
    async with serving(faults=[valve], backlog=2) as rig:
        calls = await fill(rig, valve, 3)
        call, body = await rig.ask(TEXT, text(["a", "b", "c", "d"], max_tokens=1))
        assert (call.status, body["error"]["code"]) == (503, "server_is_overloaded")
        assert rig.engine.door.in_flight == 3, "the places of a request that did not fit were given back"
        two = rig.call(TEXT, text(["a", "b"], max_tokens=1))
        native = rig.call("/completion", {"prompt": "x", "decode_budget": 1})
        extra = rig.call("/completion", {"prompt": "x", "decode_budget": 1})
        body = await extra.json()
        assert (extra.status, body["error"]["code"]) == (503, "server_busy")
        valve.open()
        for each in (*calls, two, native):
            await each.rest()
            assert each.status == 200
        await rig.idle()


async def test_r4_a_request_of_more_prompts_than_places_can_never_fit_and_says_so() -> None:
    async with serving(backlog=2) as rig:
        call, body = await rig.ask(TEXT, text(["x"] * 7, max_tokens=1))
        assert (call.status, body["error"]["param"]) == (400, "prompt")
        assert "7" in body["error"]["message"]
        assert "6" in body["error"]["message"]
        await rig.idle()


async def test_a9_two_streams_take_turns_and_health_answers_meanwhile() -> None:
    valve = Valve()
    async with serving(faults=[valve]) as rig:
        first = rig.call(CHAT, chat("one", stream=True, max_tokens=100))
        await steady(rig, valve, 1)
        second = rig.call(CHAT, chat("two", stream=True, max_tokens=100))
        while rig.figure("generated_tokens") < 200:
            call, body = await rig.ask("/health", method="GET")  # answered while a decode call waits
            assert (call.status, body["status"]) == (200, "ok")
            await step_until(rig, valve, _after(rig))
        for each in (first, second):
            assert len(text_of_chat(events_of(await each.rest()))) == 100
        steps: dict[int, list[int]] = {}
        for event in rig.witness.events:
            if isinstance(event, TokenEmitted):
                steps.setdefault(int(event.request_id), []).append(event.step)
        assert all(b - a <= 2 for mine in steps.values() for a, b in pairwise(mine))


def _after(rig: Rig) -> Callable[[], bool]:
    before = len(rig.witness.records)
    return lambda: len(rig.witness.records) > before


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("path", "param"), [(CHAT, "messages"), (TEXT, "prompt")])
async def test_c3_a_prompt_that_is_too_long_is_refused_with_both_numbers(path: str, param: str, stream: bool) -> None:  # noqa: FBT001
    async with serving() as rig:
        overhead = (await rig.ask(CHAT, chat("", max_tokens=1)))[1]["usage"]["prompt_tokens"]
        body = chat("x" * (513 - overhead), stream=stream) if path == CHAT else text("x" * 513, stream=stream)
        call, answer = await rig.ask(path, body)
        assert call.status == 400
        assert call.headers["content-type"] == "application/json"
        error = answer["error"]
        assert (error["code"], error["param"]) == ("context_length_exceeded", param)
        assert "513" in error["message"]
        assert "512" in error["message"]
        await rig.idle()


async def test_c3_the_limit_that_is_named_is_the_sequences_own() -> None:
    async with serving(sizes=dataclasses.replace(SMALL, unified=False)) as rig:
        call, body = await rig.ask(TEXT, text("x" * 300))
        assert call.status == 400
        assert "128" in body["error"]["message"]
        assert "512" not in body["error"]["message"]


@pytest.mark.parametrize(("unified", "limit", "status"), [(True, 512, 200), (False, 128, 400)])
async def test_c2_a_prompt_is_held_to_what_one_sequence_has_and_both_numbers_are_shown(
    unified: bool,  # noqa: FBT001
    limit: int,
    status: int,
) -> None:
    async with serving(sizes=dataclasses.replace(SMALL, unified=unified)) as rig:
        call, body = await rig.ask(TEXT, text("x" * 300, max_tokens=1))
        assert call.status == status
        if status == 400:
            assert body["error"]["code"] == "context_length_exceeded"
            assert str(limit) in body["error"]["message"]
        _, models = await rig.ask("/v1/models", method="GET")
        assert models["data"][0]["max_model_len"] == limit
        _, state = await rig.ask("/debug/state", method="GET")
        assert state["engine"]["scheduler"]["kv"]["num_cells"] == 512
        await rig.idle()


async def test_b11_a_newcomer_waits_and_the_running_stream_is_what_it_is_alone() -> None:
    async with serving(synthetic=True, sizes=ONE_SLOT) as rig:
        alone = await rig.call(CHAT, chat("one", stream=True, max_tokens=40)).rest()
    valve = Valve()
    async with serving(synthetic=True, sizes=ONE_SLOT, faults=[valve]) as rig:
        first = rig.call(CHAT, chat("one", stream=True, max_tokens=40))
        await steady(rig, valve, 1)
        second = rig.call(CHAT, chat("two", max_tokens=3))
        await steady(rig, valve, 2)
        valve.open()
        together = await first.rest()
        assert text_of_chat(events_of(together)) == text_of_chat(events_of(alone))
        assert len(text_of_chat(events_of(together))) == 40
        await second.rest()
        assert second.status == 200
        await rig.idle()
        one, two = rig.witness.results
        assert one.finished_at <= (two.admitted_at or 0)


@pytest.mark.parametrize("stream", [True, False])
async def test_c5_prompt_and_answer_share_the_context(stream: bool) -> None:  # noqa: FBT001
    async with serving() as rig:
        call = rig.call(TEXT, text("x" * 400, max_tokens=200, stream=stream, **_with_usage(stream)))
        if stream:
            events = events_of(await call.rest())
            usage, reason = events[-1]["usage"], events[-2]["choices"][0]["finish_reason"]
        else:
            body = await call.json()
            usage, reason = body["usage"], body["choices"][0]["finish_reason"]
        assert (usage["completion_tokens"], usage["total_tokens"], reason) == (112, 512, "length")


def _with_usage(stream: bool) -> dict[str, Json]:  # noqa: FBT001
    return {"stream_options": {"include_usage": True}} if stream else {}


async def test_c6_an_answer_without_a_limit_fills_the_context() -> None:
    async with serving() as rig:
        call, body = await rig.ask(TEXT, text("x" * 12))
        assert call.status == 200
        assert body["usage"]["completion_tokens"] == 500
        assert body["choices"][0]["finish_reason"] == "length"


async def test_c6_four_answers_without_a_limit_run_together_from_the_start() -> None:
    valve = Valve()
    async with serving(faults=[valve]) as rig:
        calls = [rig.call(TEXT, text(f"{number}" * 12)) for number in range(4)]
        await steady(rig, valve, 4)
        await step_until(rig, valve, _after(rig))
        assert rig.engine.snapshot.scheduler.num_running == 4
        valve.open()
        for call in calls:
            body = await call.json()
            assert (body["usage"]["completion_tokens"], call.status) == (500, 200)
        await rig.idle()


async def test_a_prompt_beyond_the_servers_own_bound_is_too_large() -> None:
    async with serving(max_prompt_tokens=10) as rig:
        call, body = await rig.ask(TEXT, text("x" * 11))
        assert (call.status, body["error"]["code"], body["error"]["param"]) == (413, "payload_too_large", "prompt")
        call, _ = await rig.ask(TEXT, text("x" * 10, max_tokens=1))
        assert call.status == 200
        await rig.idle()


@pytest.mark.parametrize("prompt", ["", [], [[]], ["a", ""], ["a", 5], [9999], [[1], [9999]], None, 5, {}])
async def test_r19_an_odd_prompt_is_refused_and_the_next_request_works(prompt: Json) -> None:
    async with serving() as rig:
        call, body = await rig.ask(TEXT, text(prompt, max_tokens=1))
        assert call.status == 400
        assert body["error"]["param"].startswith("prompt")
        call, _ = await rig.ask(TEXT, text(max_tokens=1))
        assert call.status == 200
        await rig.idle()
        assert rig.engine.snapshot.totals.submitted == 1


# ── the native endpoint's published order and codes ─────────────────────────────────────────────────────────────────

NATIVE_FAILURES: list[tuple[Json, int, str]] = [
    (b"{", 400, "bad_request"),
    (b"[]", 400, "bad_request"),
    ({"decode_budget": 1}, 400, "bad_request"),
    ({"prompt": "x"}, 400, "bad_request"),
    ({"prompt": 5, "decode_budget": 1}, 400, "bad_request"),
    ({"prompt": "x", "decode_budget": "1"}, 400, "bad_request"),
    ({"prompt": "x", "decode_budget": True}, 400, "bad_request"),
    ({"prompt": "x", "decode_budget": 1, "stream": 1}, 400, "bad_request"),
    ({"prompt": "x", "decode_budget": 1, "session_id": 1}, 400, "bad_request"),
    ({"prompt": "x", "decode_budget": 1, "sampling": 1}, 400, "bad_request"),
    ({"prompt": "x", "decode_budget": 0}, 422, "invalid_argument"),
    ({"prompt": "x", "decode_budget": -1}, 422, "invalid_argument"),
    ({"prompt": "x", "decode_budget": 1, "timeout_ms": 0}, 422, "invalid_argument"),
    ({"prompt": "x", "decode_budget": 1, "sampling": {"mode": "best"}}, 422, "invalid_sampling"),
    ({"prompt": "x", "decode_budget": 1, "sampling": {"mode": 5}}, 422, "invalid_sampling"),
    ({"prompt": "x", "decode_budget": 1, "sampling": {"seed": "1"}}, 422, "invalid_sampling"),
    ({"prompt": "x", "decode_budget": 1, "sampling": {"seed": -1}}, 422, "invalid_sampling"),
    ({"prompt": "x", "decode_budget": 1, "sampling": {"seed": 2**32}}, 422, "invalid_sampling"),
    ({"prompt": "x", "decode_budget": 1, "sampling": {"temperature": 0}}, 422, "invalid_sampling"),
    ({"prompt": "x", "decode_budget": 1, "sampling": {"top_k": -1}}, 422, "invalid_sampling"),
    ({"prompt": "x", "decode_budget": 1, "sampling": {"top_p": 0}}, 422, "invalid_sampling"),
    ({"prompt": "x", "decode_budget": 1, "sampling": {"top_p": 1.5}}, 422, "invalid_sampling"),
    ({"prompt": "x", "decode_budget": 1, "sampling": {"top_p_min_keep": 0}}, 422, "invalid_sampling"),
]
AFTER_THE_PLACE: list[tuple[Json, int, str]] = [
    ({"prompt": "", "decode_budget": 1}, 422, "invalid_argument"),
    ({"prompt": "x" * 101, "decode_budget": 1}, 413, "payload_too_large"),
    ({"prompt": "x", "decode_budget": 513}, 422, "invalid_argument"),
]


def native(rig: Rig, body: Json) -> Call:
    return rig.call("/completion", raw=body) if isinstance(body, bytes) else rig.call("/completion", body)


@pytest.mark.parametrize(("body", "status", "code"), [*NATIVE_FAILURES, *AFTER_THE_PLACE])
async def test_g34_a_native_request_fails_with_the_published_code(body: Json, status: int, code: str) -> None:
    async with serving(max_prompt_tokens=100) as rig:
        call = native(rig, body)
        answer = await call.json()
        assert (call.status, answer["error"]["code"]) == (status, code), answer
        assert set(answer["error"]) == {"message", "type", "param", "code"}
        assert "retry-after" not in call.headers
        await rig.idle()


async def test_g34_the_context_fit_names_its_three_numbers() -> None:
    async with serving() as rig:
        call, _ = await rig.ask("/completion", {"prompt": "x" * 12, "decode_budget": 501})
        assert call.status == 200, "the last token needs no position"
        _, body = await rig.ask("/completion", {"prompt": "x" * 12, "decode_budget": 502})
        for number in ("12", "502", "512"):
            assert number in body["error"]["message"]


async def test_g39_what_is_malformed_is_told_at_capacity_too_and_what_needs_a_place_is_not() -> None:
    valve = Valve()
    async with serving(faults=[valve], sizes=ONE_SLOT, backlog=0, max_prompt_tokens=100) as rig:
        calls = await fill(rig, valve, 1)
        for body, status, code in NATIVE_FAILURES:
            call = native(rig, body)
            answer = await call.json()
            assert (call.status, answer["error"]["code"]) == (status, code)
        for body, _, _ in AFTER_THE_PLACE:
            call = native(rig, body)
            answer = await call.json()
            assert (call.status, answer["error"]["code"]) == (503, "server_busy")
            assert call.headers["retry-after"] == "1"
        assert rig.engine.door.in_flight == 1
        valve.open()
        await calls[0].rest()
        await rig.idle()


async def test_g35_native_deltas_join_to_the_whole_text_and_the_hash_is_the_same() -> None:
    script = [*"é漢 👩🏽‍🚀".encode(), END]
    async with serving(script={1: script, 2: script}) as rig:
        _, body = await rig.ask("/completion", {"prompt": "x", "decode_budget": 100})
        raw = await rig.call("/completion", {"prompt": "x", "decode_budget": 100, "stream": True}).rest()
    blocks = raw.decode().split("\n\n")[:-1]
    events = [(block.split("\n")[0], events_of(block.split("\n")[1].encode())[0]) for block in blocks]
    tokens = [data for name, data in events if name == "event: token"]
    assert events[-1][0] == "event: done"
    assert len(tokens) == len(script) - 1, "an event for each token"
    assert [data["token_id"] for data in tokens] == script[:-1]
    assert "".join(data["token"] for data in tokens) == body["text"] == bytes(script[:-1]).decode() if END > 255 else ""
    assert events[-1][1]["hash"] == body["hash"]
    assert body["hash"].startswith("0x")
    assert len(body["hash"]) == 18


async def test_g36_a_disconnect_gives_the_lease_back_and_a_challenger_meanwhile_is_refused() -> None:
    valve = Valve()
    async with serving(faults=[valve], sizes=ONE_SLOT, backlog=0) as rig:
        call = rig.call("/completion", {"prompt": "x", "decode_budget": 100, "stream": True})
        valve.step()
        await call.begin()
        challenger, _ = await rig.ask("/completion", {"prompt": "x", "decode_budget": 1})
        assert challenger.status == 503
        call.leave()
        await asyncio.sleep(0)
        valve.open()
        await call.over()
        await rig.idle()
        assert rig.engine.door.peak == 1
        call, body = await rig.ask("/completion", {"prompt": "x", "decode_budget": 3})
        assert (call.status, body["status"], body["n_decoded"]) == (200, "completed", 3)
        assert rig.engine.snapshot.scheduler.cancels.calls == 1


async def test_g38_a_client_that_asks_again_at_once_finds_its_place_free() -> None:
    async with serving(sizes=ONE_SLOT, backlog=0) as rig:
        for number in range(50):
            stream = number % 2 == 0
            call = rig.call("/completion", {"prompt": "x", "decode_budget": 2, "stream": stream})
            await call.begin()
            raw = b""
            while not (raw.endswith(b"\n\n") and b"done" in raw) and b"text" not in raw:
                raw += await call.part()
            if not stream:
                again = rig.call("/completion", {"prompt": "x", "decode_budget": 1})
                await again.rest()
                assert again.status == 200
            await call.rest()
            assert call.status == 200


async def test_a_cancelled_native_request_is_an_answer_with_that_status() -> None:
    valve = Valve()
    async with serving(faults=[valve]) as rig:
        call = rig.call("/completion", {"prompt": "x", "decode_budget": 50}, headers={"x-request-id": "n1"})
        await steady(rig, valve, 1)
        await rig.ask("/v1/requests/n1/cancel")
        valve.open()
        body = await call.json()
        assert (call.status, body["status"], body["cancel_reason"]) == (200, "cancelled", "user")


async def test_an_unhealthy_engine_refuses_with_a_time_to_retry() -> None:
    async with serving(faults=[FailedCall(*range(40))]) as rig:
        while (await rig.ask(CHAT, chat(max_tokens=2)))[0].status == 500:
            pass
        call, body = await rig.ask(CHAT, chat(max_tokens=2))
        assert (call.status, body["error"]["code"]) == (503, "unavailable")
        assert call.headers["retry-after"] == "1"
        call, body = await rig.ask("/completion", {"prompt": "x", "decode_budget": 1})
        assert (call.status, body["error"]["code"]) == (503, "unavailable")
        call, body = await rig.ask("/health", method="GET")
        assert (call.status, body["status"]) == (503, "unavailable")
        assert body["reason"]


def test_the_small_server_has_the_sizes_of_the_conventions() -> None:
    limits = SyntheticOptions.limits(SMALL)
    assert (limits.num_cells, limits.num_rows, limits.num_sequences, limits.unified) == (512, 64, 4, True)
