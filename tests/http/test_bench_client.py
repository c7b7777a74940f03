"""The measuring client on real sockets: against servers that misbehave, and against this project's own."""

import asyncio
import hashlib
import shutil
import ssl
import subprocess
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from arriero.bench.ask import Ask, Endpoint
from arriero.bench.calibration import CalibrationOptions, calibrate
from arriero.bench.client import HttpTarget
from arriero.bench.client_loop import run
from arriero.bench.client_options import HttpOptions, TimeLimits
from arriero.bench.null_server import NullServer
from arriero.bench.null_server_options import NullOptions
from arriero.bench.null_server_process import null_server
from arriero.core.errors import ConfigError
from arriero.metrics.client_life import ClientLife, Outcome
from arriero.testing.bad_servers import BadServer, Close, Send
from arriero.testing.bad_servers_catalogue import MISBEHAVIOURS
from arriero.testing.bad_servers_oddities import ODDITIES
from arriero.testing.bad_servers_words import stream, text
from tests.http.rig import PATIENCE_S, Rig, Valve, serving
from tests.http.test_cancels import step_until
from tests.http.test_socket import listening

GOOD = stream(text("one "), text("two ", "stop"))


def ask(name: str = "r", **fields: Any) -> Ask:  # noqa: ANN401 - fields of the ask
    return Ask(**{"request_id": name, "prompt": "hello", "max_tokens": 8, **fields})


@asynccontextmanager
async def asking(
    server: BadServer | NullServer,
    options: HttpOptions | None = None,
    **more: Any,  # noqa: ANN401 - of the target
) -> AsyncGenerator[HttpTarget]:
    listener = await server.listen()
    port = listener.sockets[0].getsockname()[1]
    target = HttpTarget(f"http://127.0.0.1:{port}/v1", options or HttpOptions(), **more)
    await target.open()
    try:
        async with asyncio.timeout(PATIENCE_S):
            yield target
    finally:
        await target.close()
        listener.close()


async def meet(name: str) -> tuple[ClientLife, ClientLife]:
    """Ask a misbehaving server, and then once more."""
    bad = MISBEHAVIOURS[name]
    server = BadServer(bad.script, GOOD, greeting=bad.greeting)
    limits = TimeLimits(silence_s=bad.silence_s, total_s=bad.total_s or PATIENCE_S)
    options = HttpOptions(limits=limits, max_answer_bytes=bad.max_answer_bytes or 1 << 20)
    async with asking(server, options) as target:
        first = await target.ask(ask("bad"), None)
        server.greeting = ()
        if not server.requests:
            server.script_for(b"the first never came")
        return first, await target.ask(ask("good"), None)


def check(name: str, lives: tuple[ClientLife, ClientLife]) -> None:
    bad, (life, after) = MISBEHAVIOURS[name], lives
    assert (life.outcome, life.error in bad.errors) == (bad.outcome, True), life
    assert bad.num_chunks in {None, len(life.chunk_at)}
    assert (after.outcome, after.error) == (Outcome.STOP, None)


@pytest.mark.parametrize("name", MISBEHAVIOURS)
async def test_every_misbehaviour_has_its_word_and_the_run_goes_on(name: str) -> None:
    check(name, await meet(name))


@pytest.mark.parametrize("name", ODDITIES)
async def test_what_only_looks_wrong_is_a_normal_end(name: str) -> None:
    odd, texts = ODDITIES[name], dict[str, str]()
    async with asking(odd.server(), on_text=texts.__setitem__) as target:
        life = await target.ask(ask("odd"), None)
    assert (life.outcome, life.error) == (Outcome.STOP, None)
    assert (texts["odd"], life.chunk_tokens, life.num_tokens) == (odd.text, odd.chunk_tokens, odd.num_tokens)


def test_the_quick_event_loop_tells_the_same() -> None:
    """uvloop has transports of its own; one of each kind of end is enough."""
    for name in (
        "closes as soon as somebody connects", "closes between two chunks", "resets after the request",
        "frames its chunks wrongly", "is busy (503)", "stalls in the middle",
    ):  # fmt: skip
        check(name, run(meet(name)))


def test_stamps_are_ordered_on_the_quick_event_loop() -> None:
    async def work() -> list[ClientLife]:
        async with asking(NullServer(NullOptions(first_s=0.01, gap_s=0.002, num_chunks=5))) as target:
            return list(await asyncio.gather(*(target.ask(ask(f"r{n}"), None) for n in range(20))))

    for life in run(work()):
        assert life.outcome is Outcome.LENGTH
        assert life.sent_at is not None
        assert life.headers_at is not None
        moments = [life.sent_at, life.headers_at, *life.chunk_at, life.closed_at or 0]
        assert moments == sorted(moments)
        assert len(life.chunk_at) == 5


async def test_a_port_where_nobody_listens_is_refused() -> None:
    listener = await BadServer([Close()]).listen()
    port = listener.sockets[0].getsockname()[1]
    listener.close()
    await listener.wait_closed()
    target = HttpTarget(f"http://127.0.0.1:{port}")
    life = await target.ask(ask(), 0)
    assert (life.outcome, life.error, life.sent_at) == (Outcome.ERROR, "connection_refused", None)
    assert str(port) in (await target.facts())["first_errors"]["connection_refused"]


async def test_a_name_without_an_address_is_said_before_the_run() -> None:
    target = HttpTarget("http://no-such-host.invalid:1")
    with pytest.raises(ConfigError, match=r"no address is known for no-such-host\.invalid"):
        await target.open()


# ── this project's own server ───────────────────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def own_server(rig: Rig, options: HttpOptions | None = None) -> AsyncGenerator[tuple[HttpTarget, dict[str, str]]]:
    texts: dict[str, str] = {}
    async with listening(rig) as port:
        target = HttpTarget(f"http://127.0.0.1:{port}", options or HttpOptions(), on_text=texts.__setitem__)
        await target.open()
        try:
            async with asyncio.timeout(PATIENCE_S):
                yield target, texts
        finally:
            await target.close()


@pytest.mark.parametrize("stream_it", [True, False])
@pytest.mark.parametrize("endpoint", list(Endpoint))
async def test_both_interfaces_streamed_or_not(endpoint: Endpoint, stream_it: bool) -> None:  # noqa: FBT001 - a table
    options = HttpOptions(model="test-model")
    async with serving(synthetic=True) as rig, own_server(rig, options) as (target, texts):
        life = await target.ask(ask("one", endpoint=endpoint, stream=stream_it, max_tokens=12), None)
        await rig.idle()
        facts = await target.facts()
    assert (life.outcome, life.error) == (Outcome.LENGTH, None)
    assert life.num_tokens == 12
    assert sum(life.chunk_tokens) == 12
    assert len(life.chunk_at) == (12 if stream_it else 1)
    assert life.cached_tokens == 0
    assert life.prompt_tokens is not None
    assert life.text_sha256 == hashlib.sha256(texts["one"].encode()).hexdigest()
    assert facts["models"][0] == "test-model"


async def test_our_request_ids_are_the_servers() -> None:
    async with serving(synthetic=True) as rig, own_server(rig) as (target, _):
        await target.ask(ask("my-7"), None)
        await rig.witness.until(lambda: bool(rig.witness.rows))
    assert rig.witness.rows[0].answer_id.endswith("my-7")


async def test_a_planned_cancel_ends_the_request_on_the_server() -> None:
    valve = Valve()
    async with serving(synthetic=True, faults=[valve]) as rig, own_server(rig) as (target, _):
        valve.step(3)
        life = await target.ask(ask(cancel_after=2, max_tokens=100), None)
        await step_until(rig, valve, lambda: bool(rig.witness.results))
        await rig.idle()
    assert life.outcome is Outcome.CANCELLED_BY_CLIENT
    assert len(life.chunk_at) in {2, 3}  # the third may have come in the same bytes
    assert rig.witness.results[0].num_decoded < 100


async def test_continuous_usage_counts_held_back_tokens() -> None:
    pieces = [b"K", "ä".encode()[:1], "ä".encode()[1:], b"se"]
    script = {1: [300, 301, 302, 303]}
    options = HttpOptions(continuous_usage=True)
    async with serving(script=script, pieces=pieces) as rig, own_server(rig, options) as (target, texts):
        life = await target.ask(ask("one", max_tokens=4), None)
    assert texts["one"] == "Käse"
    assert life.num_tokens == sum(life.chunk_tokens) == 4
    assert len(life.chunk_at) == 3


async def test_a_full_server_rejects_and_its_word_is_kept() -> None:
    valve = Valve()
    async with serving(synthetic=True, backlog=0, faults=[valve]) as rig, own_server(rig) as (target, _):
        running = [asyncio.create_task(target.ask(ask(f"r{n}"), None)) for n in range(4)]
        while rig.engine.door.in_flight < 4:  # noqa: ASYNC110 - nobody tells when a place is taken
            await asyncio.sleep(0)
        life = await target.ask(ask("too-many"), None)
        facts = await target.facts()
        valve.open()
        ends = [(await each).outcome for each in running]
    assert (life.outcome, life.error, life.status) == (Outcome.REJECTED, "http_503", 503)
    assert facts["first_errors"]["http_503"].startswith("(retry after 1) ")
    assert set(ends) == {Outcome.LENGTH}


async def test_a_request_that_the_server_gives_up_is_cancelled_by_the_server() -> None:
    valve = Valve()
    async with serving(synthetic=True, faults=[valve]) as rig, own_server(rig) as (target, _):
        valve.step(2)
        asked = asyncio.create_task(target.ask(ask("one", max_tokens=100), None))
        await rig.witness.until(lambda: rig.witness.queued() == 1)
        rig.engine.shutdown()
        rig.engine.cancel_all()
        valve.open()
        life = await asked
    assert (life.outcome, life.error) == (Outcome.CANCELLED_BY_SERVER, "cut_by_server")


# ── TLS, and a null server in a process of its own ──────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl on this machine")
    folder = tmp_path_factory.mktemp("tls")
    key, found = folder / "key.pem", folder / "certificate.pem"
    words = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
    subprocess.run([*words.split(), "-keyout", key, "-out", found], capture_output=True, check=True, timeout=60)
    return key, found


def over_tls(certificate: tuple[Path, Path], trusted: Path | None) -> Coroutine[Any, Any, list[ClientLife]]:
    key, found = certificate

    async def work() -> list[ClientLife]:
        server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server_side.load_cert_chain(found, key)
        # in one piece, so that the connection is free again as soon as the answer is over
        listener = await BadServer([Send(b"".join(each.data for each in GOOD))]).listen(server_side)
        tls = None if trusted is None else ssl.create_default_context(cafile=str(trusted))
        target = HttpTarget(
            f"https://127.0.0.1:{listener.sockets[0].getsockname()[1]}", HttpOptions(tls=tls, settle_s=0)
        )
        async with asyncio.timeout(PATIENCE_S):
            lives = [await target.ask(ask(), None), await target.ask(ask(), None)]
        await target.close()
        listener.close()
        return lives

    return work()


def test_https_works_and_keeps_its_connection(certificate: tuple[Path, Path]) -> None:
    lives = run(over_tls(certificate, certificate[1]))
    assert [life.outcome for life in lives] == [Outcome.STOP] * 2
    assert [life.connect_ns is None for life in lives] == [False, True]


def test_a_certificate_that_nobody_trusts_is_an_error_with_its_word(certificate: tuple[Path, Path]) -> None:
    lives = run(over_tls(certificate, None))
    assert {(life.outcome, life.error) for life in lives} == {(Outcome.ERROR, "tls_failed")}


def test_a_null_server_of_its_own_answers_and_ends_with_us() -> None:
    async def work() -> tuple[ClientLife, ClientLife]:
        async with null_server(NullOptions(first_s=0.02, num_chunks=3)) as url:
            target = HttpTarget(url)
            first = await target.ask(ask(), None)
            await target.close()
        later = HttpTarget(url)
        return first, await later.ask(ask(), None)

    first, later = run(work())
    assert (first.outcome, first.num_tokens) == (Outcome.LENGTH, 3)
    assert later.error == "connection_refused"


def test_a_calibration_gives_offsets_of_every_request() -> None:
    options = CalibrationOptions(num_requests=20, rate_per_s=200.0, first_s=0.01, gap_s=0.002, num_chunks=3)
    found = run(calibrate(options))
    assert (found.ttft.n, found.gap.n, found.num_failed) == (20, 40, 0)
    assert found.told_first_ns > 0
    assert found.ttft.median_ns > 0
