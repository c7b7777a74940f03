import asyncio

import pytest

from arriero.bench.client_options import HttpOptions
from arriero.bench.connections import ConnectionCounts
from arriero.bench.null_server_options import NullOptions
from arriero.metrics.client_life import ClientLife, Outcome
from arriero.testing.bad_servers import Action, BadServer, Close, Pause, Send
from arriero.testing.bad_servers_words import head, stream, text
from tests.unit.bench.client_rig import MS, Rig, on_rig, turns

GOOD = stream(text("one ", "stop"))
SLOW = NullOptions(first_s=0.05, num_chunks=1)


def counts(opened: int, reused: int = 0, closed_idle: int = 0, expired: int = 0) -> ConnectionCounts:
    return ConnectionCounts(opened=opened, failed=0, reused=reused, closed_idle=closed_idle, expired=expired)


def test_a_send_never_waits_for_a_connection() -> None:
    async def work(rig: Rig) -> tuple[list[ClientLife], ConnectionCounts]:
        first = await asyncio.gather(*(rig.ask(f"a{n}") for n in range(5)))
        await asyncio.sleep(0.15)
        second = await asyncio.gather(*(rig.ask(f"b{n}") for n in range(7)))
        return [*first, *second], rig.target.connections

    lives, found = on_rig(SLOW, work)
    assert [life.sent_at for life in lives] == [0] * 5 + [200 * MS] * 7
    assert found == counts(opened=7, reused=5)
    assert [life.connect_ns is None for life in lives] == [False] * 5 + [True] * 5 + [False] * 2


def test_a_kept_connection_that_the_server_closed_is_opened_again_and_counted() -> None:
    async def work(rig: Rig) -> tuple[ClientLife, ConnectionCounts]:
        await rig.ask("a")
        await turns()
        return await rig.ask("b"), rig.target.connections

    life, found = on_rig(BadServer([*GOOD, Close()]), work)
    assert life.outcome is Outcome.STOP
    assert found == counts(opened=2, closed_idle=1)


@pytest.mark.parametrize("closes_after_s", [0.0, 0.05, 0.099])
def test_a_server_that_closes_late_what_it_promised_to_keep_loses_no_request(closes_after_s: float) -> None:
    async def work(rig: Rig) -> tuple[list[ClientLife], ConnectionCounts]:
        lives = []
        for number in range(20):
            lives.append(await rig.ask(f"r{number}"))
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        return lives, rig.target.connections

    lives, found = on_rig(BadServer([*GOOD, Pause(closes_after_s), Close()]), work)
    assert {(life.outcome, life.error) for life in lives} == {(Outcome.STOP, None)}
    assert found == counts(opened=20, closed_idle=20)


def test_a_connection_that_is_closed_while_we_send_on_it_has_its_own_word() -> None:
    life = on_rig(BadServer(GOOD, [Close()]), _twice)
    assert (life.outcome, life.error) == (Outcome.ERROR, "stale_connection")


def test_nothing_is_ever_sent_twice() -> None:
    server = BadServer(GOOD, [Close()])
    on_rig(server, _twice)
    assert len(server.requests) == 2


def test_connections_that_were_idle_for_long_are_not_used_again() -> None:
    async def work(rig: Rig) -> ConnectionCounts:
        await asyncio.gather(rig.ask("a"), rig.ask("b"))
        await asyncio.sleep(3)
        await rig.ask("c")
        await asyncio.sleep(3.99)
        await rig.ask("d")
        await asyncio.sleep(4.01)
        await rig.ask("e")
        return rig.target.connections

    assert on_rig(SLOW, work) == counts(opened=3, reused=2, expired=2)


def test_without_reuse_every_request_has_a_connection_of_its_own() -> None:
    async def work(rig: Rig) -> ConnectionCounts:
        lives = [await rig.ask(f"r{n}") for n in range(3)]
        assert all(life.connect_ns is not None for life in lives)
        return rig.target.connections

    assert on_rig(SLOW, work, HttpOptions(reuse_connections=False)) == counts(opened=3)


def test_a_server_that_wants_its_connection_closed_is_obeyed() -> None:
    closing = [Send(head("200 OK", "text/event-stream", "connection: close")), *GOOD[1:]]

    async def work(rig: Rig) -> ConnectionCounts:
        await rig.ask("a")
        await rig.ask("b")
        return rig.target.connections

    assert on_rig(BadServer(closing), work) == counts(opened=2)


def test_what_a_server_says_on_an_idle_connection_is_no_answer_to_the_next_request() -> None:
    bye = Send(head("408 Request Timeout", length=0))

    async def work(rig: Rig) -> tuple[ClientLife, ConnectionCounts]:
        await rig.ask("a")
        await asyncio.sleep(1)
        return await rig.ask("b"), rig.target.connections

    life, found = on_rig(BadServer([*GOOD, Pause(0.5), bye]), work)
    assert life.outcome is Outcome.STOP
    assert found.opened == 2


def test_an_answer_that_is_done_gives_its_connection_back_when_its_body_ends() -> None:
    late_end: list[Action] = [*GOOD[:-1], Pause(1.0), GOOD[-1]]

    async def work(rig: Rig) -> tuple[ClientLife, ConnectionCounts]:
        life = await rig.ask("a")
        await rig.ask("b")  # the first connection is not free yet
        await asyncio.sleep(2)
        await rig.ask("c")
        return life, rig.target.connections

    life, found = on_rig(BadServer(late_end), work)
    assert life.closed_at == 0
    assert found == counts(opened=2, reused=1)


async def _twice(rig: Rig) -> ClientLife:
    await rig.ask("a")
    await asyncio.sleep(0.2)
    return await rig.ask("b")
