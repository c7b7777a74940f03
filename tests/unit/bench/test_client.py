import asyncio
import gc
import hashlib

import pytest

from arriero.bench.ask import Endpoint
from arriero.bench.client import HttpTarget
from arriero.bench.client_options import HttpOptions, TimeLimits
from arriero.bench.connections import ConnectionCounts
from arriero.bench.null_server_options import NullOptions, Stall
from arriero.core.errors import ConfigError
from arriero.metrics.client_life import ClientLife, Outcome
from arriero.testing.bad_servers import BadServer, Close, Hold, Pause
from arriero.testing.bad_servers_catalogue import MISBEHAVIOURS
from arriero.testing.bad_servers_oddities import ODDITIES
from arriero.testing.bad_servers_words import framed, stream, text
from tests.unit.bench.client_rig import MS, Rig, S, on_rig, turns

SLOW = NullOptions(first_s=0.05, gap_s=0.01, num_chunks=4)
GOOD = stream(text("one "), text("two ", "stop"))


@pytest.mark.parametrize("endpoint", list(Endpoint))
def test_every_moment_is_exact(endpoint: Endpoint) -> None:
    async def work(rig: Rig) -> ClientLife:
        await asyncio.sleep(1)
        return await rig.ask(intended_at=rig.loop.time_ns() - 7, endpoint=endpoint, prompt="hi")

    life = on_rig(SLOW, work, latency_s=0.001)
    # a connection takes a latency, and so do the request and each chunk
    sent = S + MS
    assert (life.intended_at, life.sent_at, life.connect_ns) == (S - 7, sent, MS)
    assert life.chunk_at == tuple(sent + (52 + 10 * index) * MS for index in range(4))
    assert life.headers_at == life.chunk_at[0]
    assert life.closed_at == life.chunk_at[-1]
    assert (life.outcome, life.error, life.status) == (Outcome.LENGTH, None, 200)
    assert life.empty_at == life.chunk_at[-1:]


def test_tokens_are_the_servers_and_the_texts_are_hashed() -> None:
    async def work(rig: Rig) -> tuple[ClientLife, str]:
        life = await rig.ask("a")
        return life, rig.texts["a"]

    life, words = on_rig(NullOptions(num_chunks=5, tokens_per_chunk=2), work)
    assert (life.num_tokens, life.chunk_tokens) == (10, (1,) * 5)
    assert (life.prompt_tokens, life.asked_prompt_tokens, life.asked_tokens) == (3, 3, 3)
    assert life.text_sha256 == hashlib.sha256(words.encode()).hexdigest()


def test_continuous_usage_tells_how_many_tokens_a_chunk_carries() -> None:
    options = HttpOptions(continuous_usage=True)
    life = on_rig(NullOptions(num_chunks=3, tokens_per_chunk=2), lambda rig: rig.ask(), options)
    assert life.chunk_tokens == (2, 2, 2)


def test_an_answer_in_one_body_has_one_chunk_with_all_tokens() -> None:
    life = on_rig(SLOW, lambda rig: rig.ask(stream=False))
    assert life.outcome is Outcome.LENGTH
    assert life.chunk_at == (80 * MS,)
    assert life.chunk_tokens == (4,)


@pytest.mark.parametrize("name", MISBEHAVIOURS)
def test_every_misbehaviour_has_its_word_and_the_next_request_is_answered(name: str) -> None:
    bad = MISBEHAVIOURS[name]
    server = BadServer(bad.script, GOOD, greeting=bad.greeting)

    async def work(rig: Rig) -> tuple[ClientLife, ClientLife, dict[str, str]]:
        first = await rig.ask("bad")
        server.greeting = ()
        if not server.requests:
            server.script_for(b"the first never came")
        second = await rig.ask("good")
        return first, second, (await rig.target.facts())["first_errors"]

    limits = TimeLimits(silence_s=bad.silence_s, total_s=bad.total_s or 600)
    life, next_life, errors = on_rig(
        server, work, HttpOptions(limits=limits, max_answer_bytes=bad.max_answer_bytes or 1 << 20)
    )
    assert (life.outcome, life.error in bad.errors) == (bad.outcome, True), life
    assert bad.num_chunks in {None, len(life.chunk_at)}
    assert life.error in errors
    assert (next_life.outcome, next_life.error) == (Outcome.STOP, None)


@pytest.mark.parametrize("name", ODDITIES)
def test_what_only_looks_wrong_is_a_normal_end(name: str) -> None:
    odd = ODDITIES[name]

    async def work(rig: Rig) -> tuple[ClientLife, str]:
        return await rig.ask("odd"), rig.texts["odd"]

    life, words = on_rig(odd.server(), work)
    assert (life.outcome, life.error) == (Outcome.STOP, None)
    assert (words, life.chunk_tokens, life.num_tokens) == (odd.text, odd.chunk_tokens, odd.num_tokens)


@pytest.mark.parametrize(("cancel_after", "chunks", "closed_ms"), [(0, 0, 0), (1, 1, 50), (3, 3, 70)])
def test_a_planned_cancel_closes_the_connection(cancel_after: int, chunks: int, closed_ms: int) -> None:
    async def work(rig: Rig) -> tuple[ClientLife, ClientLife, ConnectionCounts]:
        life = await rig.ask(cancel_after=cancel_after)
        return life, await rig.ask(), rig.target.connections

    life, after, counts = on_rig(SLOW, work)
    assert (life.outcome, life.error) == (Outcome.CANCELLED_BY_CLIENT, None)
    assert (len(life.chunk_at), life.closed_at) == (chunks, closed_ms * MS)
    assert after.outcome is Outcome.LENGTH
    assert counts.opened == 2


def test_a_cancel_that_comes_too_late_is_none() -> None:
    assert on_rig(SLOW, lambda rig: rig.ask(cancel_after=99)).outcome is Outcome.LENGTH


def test_a_refusal_of_a_request_that_was_to_be_cancelled_is_a_refusal() -> None:
    bad = MISBEHAVIOURS["is busy (503)"]
    life = on_rig(bad.server(), lambda rig: rig.ask(cancel_after=1))
    assert (life.outcome, life.error) == (Outcome.REJECTED, "http_503")


def test_a_server_that_sees_the_cancel_sends_no_more() -> None:
    server = BadServer([*stream(text("one "))[:2], Hold()])

    async def work(rig: Rig) -> int:
        await rig.ask(cancel_after=1)
        await turns()
        return server.num_left

    assert on_rig(server, work) == 1


def test_giving_up_keeps_what_has_come() -> None:
    async def work(rig: Rig) -> list[ClientLife]:
        rig.network.refuses = False
        asks = [rig.asking("a"), rig.asking("b")]
        await asyncio.sleep(0.065)
        rig.target.give_up("drain_limit")
        return [await each for each in asks]

    lives = on_rig(SLOW, work)
    for life in lives:
        assert (life.outcome, life.error) == (Outcome.TIMEOUT, "drain_limit")
        assert (len(life.chunk_at), life.closed_at) == (2, 65 * MS)


def test_closing_ends_what_is_under_way() -> None:
    async def work(rig: Rig) -> ClientLife:
        life = rig.asking()
        await turns()
        await rig.target.close()
        return await life

    assert on_rig(SLOW, work).error == "closed"


def test_a_cancelled_task_closes_its_connection() -> None:
    server = BadServer([Hold()])

    async def work(rig: Rig) -> int:
        task = rig.asking()
        await turns()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await turns()
        return server.num_left

    assert on_rig(server, work) == 1


def test_a_connection_that_is_never_made_times_out() -> None:
    limits = TimeLimits(connect_s=0.5)
    life = on_rig(SLOW, lambda rig: rig.ask(), HttpOptions(limits=limits), latency_s=10)
    assert (life.outcome, life.error, life.sent_at) == (Outcome.TIMEOUT, "timeout_connect", None)
    assert life.closed_at == 500 * MS


def test_a_refused_connection_is_an_error_and_the_next_request_tries_again() -> None:
    async def work(rig: Rig) -> tuple[ClientLife, ClientLife, ConnectionCounts]:
        rig.network.refuses = True
        first = await rig.ask()
        rig.network.refuses = False
        return first, await rig.ask(), rig.target.connections

    first, second, counts = on_rig(SLOW, work)
    assert (first.outcome, first.error, first.sent_at) == (Outcome.ERROR, "connection_refused", None)
    assert second.outcome is Outcome.LENGTH
    assert (counts.failed, counts.opened) == (1, 1)


def test_silence_is_counted_from_the_last_byte_not_from_the_start() -> None:
    pieces = [each for send in framed(text("a ")) * 5 for each in (send, Pause(0.04))]
    good = stream(text("b ", "stop"))
    script = [good[0], *pieces, *good[1:]]
    limits = TimeLimits(silence_s=0.05)
    assert on_rig(BadServer(script), lambda rig: rig.ask(), HttpOptions(limits=limits)).outcome is Outcome.STOP


def test_facts_name_the_server_and_its_models() -> None:
    async def work(rig: Rig) -> dict[str, object]:
        await rig.ask()
        await asyncio.sleep(1)
        return await rig.target.facts()

    facts = on_rig(SLOW, work, HttpOptions(name="mine"))
    assert (facts["name"], facts["kind"], facts["url"]) == ("mine", "http", "http://rig:80")
    assert (facts["answers"], facts["server"], facts["models"]) == (True, "arriero-null", ["null"])
    assert facts["connections"] == {
        "opened": 1, "failed": 0, "reused": 1, "closed_idle": 0, "expired": 0, "kept": True,
    }  # fmt: skip


@pytest.mark.parametrize("script", [[Close()], [Hold()], stream(text("no models"))])
def test_facts_of_a_server_that_does_not_say_are_empty_and_no_error(script: list[Close | Hold]) -> None:
    facts = on_rig(BadServer(script), lambda rig: rig.target.facts())
    assert facts["models"] == []


def test_a_stall_is_seen_by_all_who_were_due_and_by_nobody_else() -> None:
    async def work(rig: Rig) -> list[int]:
        asks = []
        for _ in range(40):
            asks.append(rig.asking())
            await asyncio.sleep(0.01)
        return [life.chunk_at[0] - (life.sent_at or 0) for life in await asyncio.gather(*asks)]

    waits = on_rig(NullOptions(stall=Stall(at_s=0.1, for_s=0.2)), work)
    assert waits == [0] * 10 + [(200 - 10 * index) * MS for index in range(20)] + [0] * 10


def test_a_url_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError):
        HttpTarget("localhost:8080")


def test_nothing_is_left_for_the_garbage_collector() -> None:
    async def work(rig: Rig) -> int:
        await rig.ask()
        gc.collect()
        gc.disable()
        try:
            for number in range(50):
                await rig.ask(f"r{number}", cancel_after=2 if number % 3 == 0 else None)
            await turns()
            return gc.collect()
        finally:
            gc.enable()

    # some objects of the event loop and of a closed connection hold each other; none for each request
    assert on_rig(SLOW, work, HttpOptions(limits=TimeLimits(silence_s=1.0))) < 50
