"""A client that leaves, or a cancel, ends a request in any stage, and nobody else's."""

import asyncio
import json
import logging
import random
from collections.abc import Callable
from functools import partial

import pytest

from arriero.core.events import Admitted, Finished, TokenEmitted
from arriero.core.request import CancelReason
from arriero.engine.placement import Shared
from arriero.testing.faults import FailedRequest
from tests.http.rig import END, FIRST_PIECE, Json, Rig, Valve, chat, events_of, serving, text, text_of_chat

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"


async def finished(rig: Rig, number: int) -> Finished:
    """The end of a request, by its engine number."""

    def ends() -> list[Finished]:
        return [each for each in rig.witness.events if isinstance(each, Finished) and each.request.request_id == number]

    await rig.witness.until(lambda: bool(ends()))
    assert len(ends()) == 1
    return ends()[0]


async def steady(rig: Rig, valve: Valve, num_requests: int) -> None:
    """Let single decode calls through until so many requests have been queued."""
    await step_until(rig, valve, lambda: rig.witness.queued() >= num_requests)


async def step_until(rig: Rig, valve: Valve, holds: Callable[[], bool]) -> None:
    """Let decode calls through one at a time until this holds."""
    while not holds():
        valve.step()
        before = len(rig.witness.records)
        await rig.witness.until(lambda seen=before: len(rig.witness.records) > seen)  # type: ignore[misc]


async def test_b1_a_reader_who_leaves_frees_its_slot_within_a_step(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="arriero.http")
    valve = Valve()
    async with serving(faults=[valve], script={2: [*b"ok", END]}) as rig:
        call = rig.call(CHAT, chat(stream=True, max_tokens=100))
        valve.step()
        await call.begin()
        for _ in range(3):
            await call.part()
            valve.step()
        call.leave()
        await asyncio.sleep(0)  # the watch runs
        await asyncio.sleep(0)
        seen_at = rig.engine.now()
        valve.open()
        end = await finished(rig, 1)
        await call.over()
        await rig.idle()
        assert end.cancel_reason is CancelReason.DISCONNECT
        tokens = [event for event in rig.witness.events if isinstance(event, TokenEmitted)]
        assert sum(event.at > seen_at for event in tokens) <= 1
        assert rig.figure("cancelled", "decode", "disconnect") == 1
        row = rig.witness.rows[-1]
        assert (row.disconnect_observed, row.cancel_issued, row.final_status) == (True, True, "cancelled")
        _, body = await rig.ask(CHAT, chat())
        assert body["choices"][0]["message"]["content"] == "ok"
    gone = [record for record in caplog.records if "left" in record.getMessage()]
    assert len(gone) == 1
    assert gone[0].levelno == logging.INFO
    assert not [record for record in caplog.records if record.levelno > logging.INFO]


async def test_b1_the_next_in_line_starts_when_a_reader_leaves() -> None:
    valve = Valve()
    async with serving(faults=[valve]) as rig:
        calls = [rig.call(CHAT, chat(f"{number}", stream=True, max_tokens=60)) for number in range(5)]
        await steady(rig, valve, 5)
        calls[0].leave()
        valve.open()
        end = await finished(rig, 1)
        admitted = [each for each in rig.witness.events if isinstance(each, Admitted) and each.request.request_id == 5]
        await rig.witness.until(lambda: any(isinstance(each, Finished) for each in rig.witness.events))
        for call in calls[1:]:
            await call.rest()
        admitted = [each for each in rig.witness.events if isinstance(each, Admitted) and each.request.request_id == 5]
        assert admitted[0].step == end.step + 1, "one step of rest, then the freed slot"
        await rig.idle()


@pytest.mark.parametrize("stream", [True, False])
async def test_b2_clients_that_leave_the_queue_are_never_computed(stream: bool) -> None:  # noqa: FBT001
    valve = Valve()
    async with serving(faults=[valve]) as rig:
        running = [rig.call(CHAT, chat(f"{n}", stream=True, max_tokens=100)) for n in range(4)]
        await steady(rig, valve, 4)
        waiting = [rig.call(CHAT, chat(f"late {n}", stream=stream, max_tokens=20)) for n in range(5)]
        await steady(rig, valve, 9)
        for call in waiting:
            call.leave()
        await step_until(rig, valve, lambda: rig.figure("finished", "abort") == 5)
        for number in range(5, 10):
            end = await finished(rig, number)
            assert (end.sequence_id, end.num_computed, end.num_decoded) == (None, 0, 0)
        assert rig.figure("cancelled", "waiting", "disconnect") == 5
        assert rig.engine.snapshot.scheduler.num_waiting == 0
        valve.open()
        for call in running:
            assert len(text_of_chat(events_of(await call.rest()))) == 100
        await rig.idle()


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("stage", ["prefill", "first token", "decode"])
async def test_r7_leaving_in_any_stage_cancels(stream: bool, stage: str) -> None:  # noqa: FBT001
    valve = Valve()
    async with serving(faults=[valve]) as rig:
        prompt = "x" * 200 if stage == "prefill" else "x"
        call = rig.call(TEXT, text(prompt, stream=stream, max_tokens=50))
        await steady(rig, valve, 1)
        if stage == "decode":
            valve.step(3)
            await rig.witness.until(lambda: rig.figure("generated_tokens") >= 3)
        call.leave()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        seen_at = rig.engine.now()
        valve.open()
        end = await finished(rig, 1)
        await call.over()
        assert end.cancel_reason is CancelReason.DISCONNECT
        tokens = [event for event in rig.witness.events if isinstance(event, TokenEmitted)]
        assert sum(event.at > seen_at for event in tokens) <= 1
        await rig.idle()
        assert len(rig.service.request_log.rows) == 1  # type: ignore[union-attr]


async def test_r7_leaving_while_the_prompt_is_tokenised_submits_nothing() -> None:
    async with serving() as rig:
        call = rig.call(CHAT, chat(stream=True))
        call.leave()
        await call.over()
        await rig.idle()
        assert rig.engine.snapshot.totals.emitted_tokens == 0 or rig.engine.snapshot.totals.completed == 0


async def test_r7_leaving_before_the_body_is_complete_takes_nothing() -> None:
    async with serving() as rig:
        call = rig.call(CHAT, raw=[])
        call.leave()
        await call.over()
        assert rig.engine.door.accepted == 0
        assert rig.witness.rows[-1].outcome == "rejected"


async def test_b5_a_waiting_client_that_leaves_changes_nobodys_bytes() -> None:
    def told(raw: bytes) -> list[Json]:
        return [event["choices"] for event in events_of(raw)]

    async with serving(synthetic=True) as rig:
        solo = [told(await rig.call(CHAT, chat(f"{n}", stream=True, max_tokens=60)).rest()) for n in range(4)]
    valve = Valve()
    async with serving(synthetic=True, faults=[valve]) as rig:
        calls = [rig.call(CHAT, chat(f"{n}", stream=True, max_tokens=60)) for n in range(4)]
        await steady(rig, valve, 4)
        waiting = rig.call(CHAT, chat("b", stream=True, max_tokens=60))
        await steady(rig, valve, 5)
        waiting.leave()
        valve.open()
        assert [told(await call.rest()) for call in calls] == solo
        await rig.idle()


async def test_b7_a_cancel_by_id_counts_once_and_hits_only_its_own_request(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="arriero.http")
    valve = Valve()
    async with serving(faults=[valve]) as rig:
        one = rig.call(CHAT, chat(stream=True, max_tokens=60), headers={"x-request-id": "req_1"})
        ten = rig.call(CHAT, chat(stream=True, max_tokens=60), headers={"x-request-id": "req_10"})
        await steady(rig, valve, 2)
        valve.step(2)
        await one.begin()
        statuses = [(await rig.ask("/v1/requests/req_1/cancel"))[0].status for _ in range(100)]
        assert statuses[0] == 200
        assert statuses == sorted(statuses), "known until its end, unknown afterwards"
        valve.open()
        events = events_of(await one.rest())
        assert events[-1]["error"]["code"] == "request_cancelled"
        assert not [choice for event in events[:-1] for choice in event["choices"] if choice["finish_reason"]]
        assert len(text_of_chat(events_of(await ten.rest()))) == 60
        await rig.idle()
        assert rig.figure("cancelled", "decode", "user") == 1
        assert rig.engine.snapshot.scheduler.cancels.duplicates == 0
        for name in ("req_1", "req_10", "req_2", "nobody"):
            call, body = await rig.ask(f"/v1/requests/{name}/cancel")
            assert (call.status, body["error"]["code"]) == (404, "request_not_found")
    assert len([record for record in caplog.records if "req_1" in record.getMessage()]) <= 2


async def test_a_whole_answer_that_is_cancelled_is_an_error_with_a_status() -> None:
    valve = Valve()
    async with serving(faults=[valve]) as rig:
        call = rig.call(CHAT, chat(max_tokens=100), headers={"x-request-id": "mine"})
        await steady(rig, valve, 1)
        await rig.ask("/v1/requests/mine/cancel")
        valve.open()
        body = await call.json()
        assert (call.status, body["error"]["code"]) == (409, "request_cancelled")
        await rig.idle()


async def test_a_tenant_cannot_cancel_another_tenants_request() -> None:
    valve = Valve()
    async with serving(faults=[valve], api_keys=("one", "two")) as rig:
        headers = {"authorization": "Bearer one", "x-request-id": "mine"}
        call = rig.call(CHAT, chat(max_tokens=100), headers=headers)
        await steady(rig, valve, 1)
        other, _ = await rig.ask("/v1/requests/mine/cancel", headers={"authorization": "Bearer two"})
        assert other.status == 404
        valve.open()
        await call.rest()
        assert call.status == 200


async def test_b8_a_slow_reader_gets_merged_pieces_and_delays_nobody() -> None:
    async with serving(synthetic=True) as rig:
        solo = text_of_chat(events_of(await rig.call(CHAT, chat(stream=True, max_tokens=200)).rest()))
        valve = Valve()
        rig.backend.add(valve)
        slow = rig.call(CHAT, chat(stream=True, max_tokens=200))
        valve.step()
        await slow.begin()
        slow.stall()
        valve.open()
        quick = await rig.call(CHAT, chat("quick", stream=True, max_tokens=200)).rest()
        await rig.witness.until(lambda: not rig.engine.snapshot.has_work)
        assert len(text_of_chat(events_of(quick))) == 200
        assert rig.engine.door.in_flight == 1, "the slow one holds its place while it reads"
        num_messages = slow.num_messages
        slow.read_on()
        raw = await slow.rest()
        assert slow.num_messages - num_messages < 8
        assert text_of_chat(events_of(raw)) == solo
        assert rig.figure("requests", "chat", "length") == 3
        await rig.idle()


async def test_b8_a_reader_that_leaves_while_it_stalls_is_cancelled() -> None:
    valve = Valve()
    async with serving(faults=[valve]) as rig:
        slow = rig.call(CHAT, chat(stream=True, max_tokens=100))
        valve.step(2)
        await slow.begin()
        slow.stall()
        valve.step(2)
        await rig.witness.until(lambda: rig.figure("generated_tokens") >= 4)
        slow.leave()
        valve.open()
        await slow.over()
        await rig.idle()


async def test_a_high_water_mark_cuts_a_reader_that_lags_too_far() -> None:
    valve = Valve()
    async with serving(faults=[valve], stream_high_water=10) as rig:
        slow = rig.call(CHAT, chat(stream=True, max_tokens=300))
        valve.step()
        await slow.begin()
        slow.stall()
        valve.open()
        await rig.witness.until(lambda: not rig.engine.snapshot.has_work)
        slow.read_on()
        events = events_of(await slow.rest())
        assert events[-1]["error"]["code"] == "slow_consumer"
        await rig.idle()


async def test_b8_an_http_1_0_client_gets_a_stream_in_one_piece() -> None:
    async with serving(script={1: [*b"abc", END]}) as rig:
        call = await rig.call(CHAT, chat(stream=True), http_version="1.0").begin()
        raw = await call.rest()
        assert int(call.headers["content-length"]) == len(raw)
        assert text_of_chat(events_of(raw)) == "abc"
        assert raw.endswith(b"data: [DONE]\n\n")


async def test_a_stop_string_ends_the_computation_too() -> None:
    async with serving(script={1: [*b"ab#", *b"c" * 400]}) as rig:
        _, body = await rig.ask(CHAT, chat(stop="#", max_tokens=400))
        assert body["choices"][0]["finish_reason"] == "stop"
        assert body["usage"]["completion_tokens"] == 3
        await rig.idle()
        assert rig.figure("finished", "stop") == 1
        assert rig.figure("cancelled", "decode", "stop") == 0, "to nobody a cancel"


async def test_a_request_that_times_out_says_so() -> None:
    async with serving() as rig:
        # three hundred steps take longer than a millisecond on any machine
        call, body = await rig.ask(CHAT, chat(max_tokens=300, timeout_ms=1))
        assert (call.status, body["error"]["code"]) == (408, "request_timeout")
        await rig.idle()


async def test_e11_a_failure_before_the_first_token_is_a_status() -> None:
    async with serving(faults=[FailedRequest(1)]) as rig:
        call, body = await rig.ask(CHAT, chat(stream=True))
        assert call.status == 500
        assert body["error"]["code"] == "engine_error"
        assert "x-should-retry" not in call.headers
        await rig.idle()


async def test_e11_a_failure_after_some_tokens_is_one_event_and_the_end() -> None:
    valve = Valve()
    async with serving(faults=[valve]) as rig:
        call = rig.call(CHAT, chat(stream=True, max_tokens=30))
        valve.step(5)
        await rig.witness.until(lambda: rig.figure("generated_tokens") == 5)
        rig.backend.add(FailedRequest(1))
        valve.open()
        raw = await call.rest()
        events = events_of(raw)
        assert set(events[-1]) == {"error"}
        assert events[-1]["error"]["type"] == "server_error"
        assert len(text_of_chat(events[:-1])) == 5
        assert not [choice for event in events[:-1] for choice in event["choices"] if choice["finish_reason"]]
        assert not raw.endswith(b"[DONE]\n\n")
        await rig.idle()


async def test_one_failing_sequence_of_several_ends_them_all_and_gives_everything_back() -> None:
    async with serving(faults=[FailedRequest(2)]) as rig:
        call, body = await rig.ask(TEXT, text(["a", "b", "c"], max_tokens=200))
        assert (call.status, body["error"]["code"]) == (500, "engine_error")
        await rig.idle()


async def test_an_engine_on_the_servers_own_loop_streams_and_cancels_alike() -> None:
    valve = Valve()
    async with serving(faults=[valve], placement=Shared(), script={2: [*b"ok", END]}) as rig:
        call = rig.call(CHAT, chat(stream=True, max_tokens=100))
        valve.step(3)
        await call.begin()
        call.leave()
        await asyncio.sleep(0)
        valve.open()
        end = await finished(rig, 1)
        assert end.cancel_reason is CancelReason.DISCONNECT
        await call.over()
        _, body = await rig.ask(CHAT, chat())
        assert body["choices"][0]["message"]["content"] == "ok"
        await rig.idle()


@pytest.mark.parametrize("stream", [True, False])
async def test_a_mistake_of_ours_ends_one_request_and_gives_everything_back(stream: bool) -> None:  # noqa: FBT001
    # a token that the vocabulary does not know stands for any exception in the way of an answer
    async with serving(script={1: [FIRST_PIECE + 50]}) as rig:
        call = rig.call(CHAT, chat(stream=stream, max_tokens=100))
        await call.begin()
        assert call.status == 500
        error = json.loads(await call.part())["error"]
        assert error["code"] == "engine_error"
        assert "Index" not in error["message"]
        with pytest.raises(IndexError):
            await call.rest()
        call, _ = await rig.ask(CHAT, chat(max_tokens=1))
        assert call.status == 200
        await rig.idle()


async def test_a16_requests_that_are_dropped_at_random_leave_nothing_behind() -> None:
    chance = random.Random(20261129)
    async with serving(synthetic=True, backlog=None) as rig:

        async def one(number: int) -> bool:
            """Whether the client stayed to the end."""
            stream, drops = number % 2 == 0, chance.random() < 0.3
            path, body = (CHAT, chat) if chance.random() < 0.5 else (TEXT, text)
            call = rig.call(
                path, body("x" * chance.randrange(1, 100), stream=stream, max_tokens=chance.randrange(1, 40))
            )
            if drops:
                await rig.witness.until(partial(has_said, chance.randrange(1500)))
                call.leave()
                await call.over()
                return False
            await call.rest()
            assert call.status == 200
            return True

        def has_said(num_tokens: int) -> bool:
            return rig.figure("generated_tokens") >= num_tokens

        stayed = await asyncio.gather(*(one(number) for number in range(300)))
        await rig.idle()
        rows = rig.witness.rows
        assert len(rows) == 300
        assert sum(row.final_status == "completed" for row in rows) >= sum(stayed) > 150
        assert rig.engine.snapshot.scheduler.num_waiting == 0
        assert rig.engine.door.in_flight == 0
        cancelled = sum(rig.figure("cancelled", stage, "disconnect") for stage in ("waiting", "prefill", "decode"))
        assert cancelled == sum(row.final_status == "cancelled" for row in rows) > 20
