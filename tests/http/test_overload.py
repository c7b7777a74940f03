"""Too much work, in virtual time: who is let in, who is refused with which words, and after how long."""

import asyncio
import re
from collections import Counter
from dataclasses import replace

import pytest

from arriero.cli.serving import drain
from arriero.core.option_kinds import Threads
from arriero.costmodel.calibrated import CalibratedCost, ValidRange
from arriero.costmodel.passes import PassRules
from arriero.costmodel.terms import PassCosts
from arriero.engine.options import EngineOptions
from tests.http.rig import SMALL, Call, Json, chat, text
from tests.http.virtual import STEP_US, Timed, timed, virtual

TEXT = "/v1/completions"
CHAT = "/v1/chat/completions"
NATIVE = "/completion"
ONE_SLOT = replace(SMALL, num_sequences=1)
MS = 1000


def asks(server: Timed, count: int, *, max_tokens: int = 50, prompt_tokens: int = 10, **more: Json) -> list[Call]:
    """Requests whose prompts have nothing in common."""
    prompts = [chr(ord("A") + number % 26) * prompt_tokens for number in range(count)]
    return [server.rig.call(TEXT, text(prompt, max_tokens=max_tokens), **more) for prompt in prompts]


async def warm(server: Timed) -> None:
    """Let the server see what its work takes."""
    for call in asks(server, 4):
        await call.rest()
        assert call.status == 200


async def full_house(server: Timed, num_waiting: int, **more: Json) -> list[Call]:
    """All slots taken, and so many requests waiting."""
    calls = asks(server, server.rig.engine.limits.num_sequences + num_waiting, **more)
    await asyncio.sleep(5 * STEP_US / 1e6)
    assert server.rig.engine.door.waiting == num_waiting
    return calls


# ── how many ────────────────────────────────────────────────────────────────────────────────────────────────────────


@virtual
async def test_a13_of_a_hundred_at_once_twelve_are_served_and_the_rest_is_told_at_once() -> None:
    async with timed(backlog=8) as server:
        calls = asks(server, 100, max_tokens=20)
        bodies = [await call.json() for call in calls]
        assert Counter(call.status for call in calls) == {200: 12, 503: 88}
        for call, body in zip(calls, bodies, strict=True):
            if call.status == 503:
                assert body["error"]["code"] == "server_is_overloaded"
                assert 1 <= int(call.headers["retry-after"]) <= 120
                assert "x-should-retry" not in call.headers
            else:
                assert body["usage"]["completion_tokens"] == 20
        refused = [row for row in server.rig.witness.rows if row.outcome == "rejected"]
        waits = [(row.t_exit_us or 0) - (row.t_entry_us or 0) for row in refused]
        assert len(waits) == 88
        assert max(waits) <= 10 * MS
        assert len(server.computed()) == 12
        await server.rig.idle()
        assert server.rig.engine.door.waiting_tokens == 0


@virtual
async def test_tokens_that_wait_are_bounded_but_nobody_who_waits_alone_is_refused() -> None:
    async with timed(sizes=ONE_SLOT, engine_options=EngineOptions(backlog_tokens=100)) as server:
        first = server.rig.call(TEXT, text("a" * 200, max_tokens=50))
        await asyncio.sleep(0.001)
        long = server.rig.call(TEXT, text("b" * 150, max_tokens=1))
        await asyncio.sleep(0.001)
        call, body = await server.rig.ask(TEXT, text("c", max_tokens=1))
        assert (call.status, body["error"]["code"]) == (503, "server_is_overloaded")
        assert re.findall(r"\d+", body["error"]["message"]) == ["150", "1", "100"]
        assert server.rig.figure("rejected", "backlog_tokens") == 1
        for each in (first, long):
            await each.rest()
            assert each.status == 200
        await server.rig.idle()


@virtual
async def test_prompts_that_find_a_free_slot_do_not_count_as_waiting() -> None:
    async with timed(engine_options=EngineOptions(backlog_tokens=30)) as server:
        calls = asks(server, 5, prompt_tokens=25, max_tokens=2)
        sixth = server.rig.call(TEXT, text("z" * 25, max_tokens=2))
        statuses = []
        for call in (*calls, sixth):
            await call.rest()
            statuses.append(call.status)
        assert statuses == [200] * 5 + [503]


@virtual
async def test_several_prompts_that_may_never_wait_together_are_told_so() -> None:
    async with timed(sizes=ONE_SLOT, engine_options=EngineOptions(backlog_tokens=30)) as server:
        call, body = await server.rig.ask(TEXT, text(["a" * 25, "b" * 25, "c" * 25], max_tokens=1))
        assert (call.status, body["error"]["param"]) == (400, "prompt")
        assert re.findall(r"\d+", body["error"]["message"]) == ["75", "30"]
        await server.rig.idle()


# ── one key ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


@virtual
async def test_e14_a_limit_on_one_key_is_a_429_and_concerns_nobody_else() -> None:
    async with timed(api_keys=("a", "b"), engine_options=EngineOptions(key_requests=2)) as server:
        own = asks(server, 2, headers=bearer("a"))
        await asyncio.sleep(0.001)
        call, body = await server.rig.ask(CHAT, chat(max_tokens=1), headers=bearer("a"))
        assert (call.status, body["error"]["code"]) == (429, "rate_limit_exceeded")
        assert "2 requests of this API key" in body["error"]["message"]
        assert int(call.headers["retry-after"]) >= 1
        assert "x-should-retry" not in call.headers
        call, _ = await server.rig.ask("/tokenize", {"content": "x"}, headers=bearer("a"))
        assert call.status == 429, "every endpoint counts"
        other, _ = await server.rig.ask(CHAT, chat(max_tokens=1), headers=bearer("b"))
        assert other.status == 200
        for each in own:
            await each.rest()
        again, _ = await server.rig.ask(CHAT, chat(max_tokens=1), headers=bearer("a"))
        assert again.status == 200
        assert server.rig.figure("rejected", "key_requests") == 1
        await server.rig.idle()


@virtual
async def test_more_prompts_in_one_request_than_a_key_may_have_are_told_so() -> None:
    async with timed(api_keys=("a",), engine_options=EngineOptions(key_requests=2)) as server:
        call, body = await server.rig.ask(TEXT, text(["x"] * 3, max_tokens=1), headers=bearer("a"))
        assert (call.status, body["error"]["param"]) == (400, "prompt")
        assert re.findall(r"\d+", body["error"]["message"]) == ["3", "2"]
        await server.rig.idle()


@virtual
async def test_the_prompt_tokens_of_one_key_are_bounded_and_one_alone_is_never_refused() -> None:
    async with timed(api_keys=("a", "b"), engine_options=EngineOptions(key_tokens=50)) as server:
        long = server.rig.call(TEXT, text("x" * 60, max_tokens=5), headers=bearer("a"))
        await asyncio.sleep(0.001)
        call, body = await server.rig.ask(TEXT, text("y" * 20, max_tokens=1), headers=bearer("a"))
        assert (call.status, body["error"]["code"]) == (429, "rate_limit_exceeded")
        assert re.findall(r"\d+", body["error"]["message"]) == ["60", "20", "50"]
        other, _ = await server.rig.ask(TEXT, text("y" * 20, max_tokens=1), headers=bearer("b"))
        assert other.status == 200
        await long.rest()
        assert long.status == 200
        assert server.rig.figure("rejected", "key_tokens") == 1
        await server.rig.idle()


# ── how long ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("path", "stream"), [(TEXT, False), (TEXT, True), (NATIVE, False), (NATIVE, True)])
@virtual
async def test_a15_who_has_waited_for_long_enough_is_told_while_a_decode_call_runs(path: str, stream: bool) -> None:  # noqa: FBT001
    async with timed(step_us=1000 * MS, row_us=0, queue_timeout_ms=200) as server:
        rig = server.rig
        first = rig.call(TEXT, text("one", max_tokens=3))
        await asyncio.sleep(0.1)
        asked_at = server.now_us
        body = text("two", max_tokens=3) if path == TEXT else {"prompt": "two", "decode_budget": 3}
        late = rig.call(path, {**body, "stream": stream})
        answer = await late.json()
        assert (late.status, answer["error"]["code"]) == (503, "queue_timeout")
        assert "0.2 s" in answer["error"]["message"]
        assert 200 * MS <= server.now_us - asked_at <= 300 * MS
        assert int(late.headers["retry-after"]) >= 1
        assert rig.engine.door.in_flight == 1, "its place was given back at once"
        await first.rest()
        assert first.status == 200
        await rig.idle()
        assert server.computed() == {1}
        endpoint = "completions" if path == TEXT else "native"
        assert rig.figure("requests", endpoint, "rejected") == 1
        assert rig.figure("rejected", "queue_timeout") == 1
        assert rig.figure("cancelled", "waiting", "queue_timeout") == 1
        row = next(row for row in rig.witness.rows if row.outcome == "rejected")
        assert (row.http_status, row.error_code, row.n_decoded) == (503, "queue_timeout", 0)


@virtual
async def test_a_request_that_has_started_is_never_late() -> None:
    async with timed(queue_timeout_ms=50) as server:
        for call in asks(server, 4, max_tokens=100):
            await call.rest()
            assert call.status == 200
        assert server.now_us > 1000 * MS
        await server.rig.idle()


@virtual
async def test_of_several_prompts_the_later_ones_wait_for_the_first() -> None:
    async with timed(sizes=ONE_SLOT, queue_timeout_ms=100) as server:
        call, body = await server.rig.ask(TEXT, text(["a", "b", "c"], max_tokens=20))
        assert call.status == 200
        assert [each["index"] for each in body["choices"]] == [0, 1, 2]
        await server.rig.idle()


@virtual
async def test_many_who_wait_are_told_each_at_its_own_time() -> None:
    async with timed(sizes=ONE_SLOT, queue_timeout_ms=100) as server:
        asks(server, 1, max_tokens=200)
        ends: list[int] = []

        async def ask() -> None:
            call, _ = await server.rig.ask(TEXT, text("x", max_tokens=1))
            assert call.status == 503
            ends.append(server.now_us)

        waiting = []
        for _ in range(5):
            await asyncio.sleep(0.01)
            waiting.append(asyncio.create_task(ask()))
        await asyncio.gather(*waiting)
        assert [round(end / MS) for end in ends] == [110, 120, 130, 140, 150]


# ── deadlines ───────────────────────────────────────────────────────────────────────────────────────────────────────


@virtual
async def test_a_deadline_that_cannot_be_met_is_refused_early_with_both_times() -> None:
    async with timed() as server:
        await warm(server)
        calls = await full_house(server, 8)
        asked_at = server.now_us
        call, body = await server.rig.ask(TEXT, text("x", max_tokens=50), headers={"x-deadline-ms": "800"})
        assert (call.status, body["error"]["code"]) == (503, "deadline_hopeless")
        assert server.now_us == asked_at
        predicted, deadline = map(int, re.findall(r"(\d+) ms", body["error"]["message"]))
        assert deadline == 800
        assert int(call.headers["retry-after"]) >= 1
        hopeful = server.rig.call(TEXT, text("x", max_tokens=50, deadline_ms=60_000))
        await hopeful.rest()
        took = (server.now_us - asked_at) / MS
        assert hopeful.status == 200
        assert 0.5 * took <= predicted <= took, "an estimate, and no pessimistic one"
        for each in calls:
            await each.rest()
        assert len(server.computed()) == 4 + 12 + 1
        assert server.rig.figure("rejected", "deadline") == 1
        await server.rig.idle()


@pytest.mark.parametrize(
    ("policy", "at_once"), [("fcfs", True), ("deadline", False), ("priority", False), ("m:C", False)]
)
@virtual
async def test_only_those_who_certainly_go_first_make_a_deadline_hopeless(policy: str, at_once: bool) -> None:  # noqa: FBT001
    async with timed(policy=policy) as server:
        await warm(server)
        await full_house(server, 8)
        asked_at = server.now_us
        call, body = await server.rig.ask(TEXT, text("x", max_tokens=1, deadline_ms=800))
        assert (call.status, body["error"]["code"]) == (503, "deadline_hopeless")
        assert server.now_us - asked_at == (0 if at_once else 800 * MS)


@virtual
async def test_without_any_experience_no_deadline_is_called_hopeless() -> None:
    async with timed() as server:
        call, _ = await server.rig.ask(TEXT, text("x", max_tokens=2, deadline_ms=100))
        assert call.status == 200


@virtual
async def test_a_cost_profile_knows_from_the_first_request_on() -> None:
    cost = CalibratedCost(
        rules=PassRules(micro_batch=64, unified=True, stream_cells=512),
        passes={1: PassCosts.of({"pass": 10.0 * MS})},
        threads=Threads(1, 1),
        valid=ValidRange(rows=64, sequences=4, context=512, pool=512),
    )
    async with timed(row_us=0, engine_options=EngineOptions(cost=cost)) as server:
        call, body = await server.rig.ask(TEXT, text("x" * 400, max_tokens=1, deadline_ms=60))
        assert (call.status, body["error"]["code"]) == (503, "deadline_hopeless")
        assert "expected 70 ms after" in body["error"]["message"], "seven passes of 10 ms"
        call, _ = await server.rig.ask(TEXT, text("x" * 400, max_tokens=1, deadline_ms=80))
        assert call.status == 200
        assert server.now_us == 70 * MS


@virtual
async def test_who_has_not_started_at_its_deadline_is_told_then() -> None:
    async with timed(step_us=1000 * MS, queue_timeout_ms=900) as server:
        asks(server, 1, max_tokens=2)
        await asyncio.sleep(0.1)
        asked_at = server.now_us
        call, body = await server.rig.ask(TEXT, text("x", deadline_ms=300))
        assert (call.status, body["error"]["code"]) == (503, "deadline_hopeless")
        assert "300 ms" in body["error"]["message"]
        assert server.now_us - asked_at == 300 * MS


# ── when to come back ───────────────────────────────────────────────────────────────────────────────────────────────


@virtual
async def test_retry_after_is_when_those_who_wait_now_have_started() -> None:
    async with timed(backlog=8) as server:
        await warm(server)
        calls = await full_house(server, 8)
        refused, _ = await server.rig.ask(TEXT, text("x", max_tokens=1))
        assert refused.status == 503
        told = int(refused.headers["retry-after"])
        tokens, _ = await server.rig.ask("/tokenize", {"content": "x"})
        assert (tokens.status, tokens.headers["retry-after"]) == (503, str(told))
        asked_at = server.now_us
        await server.rig.witness.until(lambda: server.rig.engine.door.waiting == 0)
        started = (server.now_us - asked_at) / 1e6
        assert 1 < told <= started + 1.5
        for each in calls:
            await each.rest()


@virtual
async def test_retry_after_is_never_longer_than_clients_obey() -> None:
    async with timed(step_us=300 * MS, backlog=64) as server:
        first = asks(server, 1, max_tokens=40)
        await first[0].rest()
        await full_house(server, 64, max_tokens=40)
        refused, _ = await server.rig.ask(TEXT, text("x", max_tokens=1))
        assert (refused.status, refused.headers["retry-after"]) == (503, "120")


# ── the end ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@virtual
async def test_a_drain_under_load_serves_everybody_who_was_let_in() -> None:
    async with timed(backlog=8) as server:
        calls = await full_house(server, 8)
        engine = server.rig.engine
        closed = asyncio.ensure_future(engine.wait_closed())
        draining = asyncio.create_task(drain(engine, closed, 60))
        await asyncio.sleep(0)
        call, body = await server.rig.ask(TEXT, text("x", max_tokens=1))
        assert (call.status, body["error"]["code"]) == (503, "unavailable")
        assert call.headers["retry-after"] == "1"
        health, _ = await server.rig.ask("/health", method="GET")
        assert health.status == 503
        for each in calls:
            assert (await each.json())["usage"]["completion_tokens"] == 50
        summary = await draining
        assert (summary.crashed, summary.residual_sequences) == (None, ())
        assert engine.door.in_flight == 0


@virtual
async def test_when_the_time_to_drain_is_over_everybody_is_told() -> None:
    async with timed(backlog=8) as server:
        calls = await full_house(server, 8)
        engine = server.rig.engine
        began_at = server.now_us
        summary = await drain(engine, asyncio.ensure_future(engine.wait_closed()), 0.1)
        assert server.now_us - began_at < 200 * MS
        for each in calls:
            body = await each.json()
            assert (each.status, body["error"]["code"]) == (503, "unavailable")
        assert summary.snapshot.totals.completed == 0
        assert engine.door.in_flight == 0


@virtual
async def test_a16_health_turns_red_when_a_step_does_not_end_and_green_when_it_does() -> None:
    async with timed(step_us=2000 * MS, engine_options=EngineOptions(stuck_after_s=0.5)) as server:
        call = server.rig.call(TEXT, text("x", max_tokens=1))
        await asyncio.sleep(0.4)
        health, body = await server.rig.ask("/health", method="GET")
        assert (health.status, body["busy"]) == (200, True)
        await asyncio.sleep(0.3)
        health, body = await server.rig.ask("/health", method="GET")
        assert (health.status, body["status"]) == (503, "unavailable")
        assert "0.7 s" in body["reason"]
        await call.rest()
        health, _ = await server.rig.ask("/health", method="GET")
        assert health.status == 200
