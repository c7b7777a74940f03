"""A real socket, a real server, the official client as the customer."""

import asyncio
import json
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace

import openai
import pytest
import uvicorn

from arriero.http.server import server_config
from tests.http.rig import END, PATIENCE_S, SMALL, Json, Rig, Valve, chat, events_of, serving, text_of_chat
from tests.http.test_cancels import finished, steady

CHAT = "/v1/chat/completions"


class Listening(uvicorn.Server):
    """A server that says when it listens, and leaves the signals alone."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listens = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listens.set()


@asynccontextmanager
async def listening(rig: Rig) -> AsyncGenerator[int]:
    """The rig's application on a port of its own."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)  # inherited: a reader that stalls is soon noticed
    sock.bind(("127.0.0.1", 0))
    server = Listening(server_config(rig.app, rig.service.options))
    task = asyncio.create_task(server._serve([sock]))
    try:
        async with asyncio.timeout(PATIENCE_S):
            await server.listens.wait()
        yield sock.getsockname()[1]
    finally:
        server.should_exit = True
        async with asyncio.timeout(PATIENCE_S):
            await task
        sock.close()


def client_for(port: int, *, max_retries: int = 0) -> openai.AsyncOpenAI:
    base_url = f"http://127.0.0.1:{port}/v1"
    return openai.AsyncOpenAI(base_url=base_url, api_key="none", max_retries=max_retries, timeout=PATIENCE_S)


async def send(port: int, raw: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(raw)
    await writer.drain()
    return reader, writer


def post(path: str, body: Json, *, version: str = "1.1", more: str = "") -> bytes:
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/{version}\r\nhost: x\r\n{more}content-length: {len(data)}\r\n\r\n"
    return head.encode() + data


async def read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    async with asyncio.timeout(PATIENCE_S):
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    return int(head[0].split(" ")[1]), dict(line.lower().split(": ", 1) for line in head[1:] if line)


async def read_json(reader: asyncio.StreamReader) -> tuple[int, Json]:
    status, headers = await read_head(reader)
    async with asyncio.timeout(PATIENCE_S):
        return status, json.loads(await reader.readexactly(int(headers["content-length"])))


async def read_chunked(reader: asyncio.StreamReader) -> bytes:
    parts: list[bytes] = []
    async with asyncio.timeout(PATIENCE_S):
        while size := int(await reader.readline(), 16):
            parts.append(await reader.readexactly(size))
            await reader.readline()
        await reader.readline()
    return b"".join(parts)


async def test_the_official_client_streams_sixteen_chats_and_gets_what_it_gets_one_by_one() -> None:
    async with serving(synthetic=True) as rig, listening(rig) as port, client_for(port) as client:

        async def ask(number: int) -> tuple[str, int]:
            stream = await client.chat.completions.create(
                model="test-model",
                messages=[{"role": "user", "content": f"question {number}"}],
                max_tokens=40,
                stream=True,
                stream_options={"include_usage": True},
            )
            parts, tokens = [], 0
            async for chunk in stream:
                parts += [choice.delta.content or "" for choice in chunk.choices]
                tokens = chunk.usage.completion_tokens if chunk.usage else tokens
            return "".join(parts), tokens

        alone = [await ask(number) for number in range(16)]
        together = await asyncio.gather(*(ask(number) for number in range(16)))
        await rig.idle()
    assert together == alone
    assert {tokens for _, tokens in alone} == {40}
    assert len({content for content, _ in alone}) == 16


async def test_half_of_sixteen_chats_cancelled_midway_leave_nothing() -> None:
    valve = Valve()
    async with serving(synthetic=True, faults=[valve]) as rig, listening(rig) as port, client_for(port) as client:
        valve.step(10_000)

        async def ask(number: int) -> str:
            messages: Json = [{"role": "user", "content": f"question {number}"}]
            stream = await client.chat.completions.create(
                model="test-model", messages=messages, max_tokens=60, stream=True
            )
            parts: list[str] = []
            async for chunk in stream:
                parts.append(chunk.choices[0].delta.content or "")
                if number % 2 and len(parts) == 3:
                    await stream.close()
                    break
            return "".join(parts)

        texts = await asyncio.gather(*(ask(number) for number in range(16)))
        await rig.idle()
        assert [len(each) for each in texts[::2]] == [60] * 8
        assert all(len(each) <= 60 for each in texts[1::2])


async def test_the_official_client_sees_whole_answers_lists_and_errors() -> None:
    async with serving() as rig, listening(rig) as port, client_for(port) as client:
        answer = await client.chat.completions.create(
            model="test-model", messages=[{"role": "user", "content": "x"}], max_completion_tokens=3
        )
        assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == ("aaa", "length")
        assert [model.id async for model in client.models.list()] == ["test-model"]
        legacy = await client.completions.create(model="test-model", prompt=["a", "b"], max_tokens=2)
        assert [choice.text for choice in legacy.choices] == ["aa", "aa"]
        with pytest.raises(openai.BadRequestError) as bad:
            await client.completions.create(model="test-model", prompt="x" * 600)
        assert (bad.value.code, bad.value.param) == ("context_length_exceeded", "prompt")
        with pytest.raises(openai.NotFoundError):
            await client.completions.create(model="other", prompt="x")
        with pytest.raises(openai.BadRequestError, match="tools"):
            await client.chat.completions.create(
                model="test-model",
                messages=[{"role": "user", "content": "x"}],
                tools=[{"type": "function", "function": {"name": "f"}}],
            )


async def test_e11_the_official_client_raises_on_an_error_after_the_stream_began() -> None:
    valve = Valve()
    async with serving(faults=[valve]) as rig, listening(rig) as port, client_for(port) as client:
        valve.step(3)
        stream = await client.chat.completions.create(
            model="test-model",
            messages=[{"role": "user", "content": "x"}],
            stream=True,
            max_tokens=50,
            extra_headers={"x-request-id": "mine"},
        )
        await rig.ask("/v1/requests/mine/cancel")
        valve.open()
        with pytest.raises(openai.APIError, match="cancelled"):
            async for _ in stream:
                pass


async def test_e14_the_official_client_retries_an_overload_and_succeeds() -> None:
    valve = Valve()
    async with serving(faults=[valve], backlog=0) as rig, listening(rig) as port:
        calls = [rig.call(CHAT, chat(f"{n}", max_tokens=100)) for n in range(4)]
        await steady(rig, valve, 4)
        messages: Json = [{"role": "user", "content": "x"}]
        async with client_for(port) as impatient:
            with pytest.raises(openai.InternalServerError) as refused:
                await impatient.chat.completions.create(model="test-model", messages=messages)
            assert refused.value.code == "server_is_overloaded"
            assert refused.value.response.headers["retry-after"] == "1"
        async with client_for(port, max_retries=2) as patient:
            began = asyncio.get_running_loop().time()
            asking = asyncio.create_task(
                patient.chat.completions.create(model="test-model", messages=messages, max_tokens=1)
            )
            await rig.witness.until(lambda: rig.engine.door.refused >= 2)
            valve.open()
            assert (await asking).choices[0].message.content == "a"
            assert asyncio.get_running_loop().time() - began >= 1, "not earlier than told"
        for call in calls:
            await call.rest()


async def test_b1_closing_a_socket_cancels_its_stream() -> None:
    valve = Valve()
    async with serving(faults=[valve]) as rig, listening(rig) as port:
        valve.step()
        reader, writer = await send(port, post(CHAT, chat(stream=True, max_tokens=100)))
        status, headers = await read_head(reader)
        assert (status, headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        writer.transport.abort()
        await rig.witness.until(lambda: rig.figure("generated_tokens") >= 1)
        await _until_cancelled(rig, valve)
        end = await finished(rig, 1)
        assert end.num_decoded < 100
        await rig.idle()
        assert rig.figure("cancelled", "decode", "disconnect") == 1


@pytest.mark.parametrize("stream", [True, False])
async def test_b2_closing_the_socket_of_a_waiting_request_cancels_it(stream: bool) -> None:  # noqa: FBT001
    valve = Valve()
    async with serving(faults=[valve]) as rig, listening(rig) as port:
        calls = [rig.call(CHAT, chat(f"{n}", max_tokens=100)) for n in range(4)]
        await steady(rig, valve, 4)
        _, writer = await send(port, post(CHAT, chat("late", stream=stream)))
        await steady(rig, valve, 5)
        writer.transport.abort()
        await _until_cancelled(rig, valve)
        assert (await finished(rig, 5)).sequence_id is None
        valve.open()
        for call in calls:
            assert (await call.json())["usage"]["completion_tokens"] == 100
        await rig.idle()


async def _until_cancelled(rig: Rig, valve: Valve) -> None:
    """Steps, until the server has noticed that a client left."""
    while rig.figure("finished", "abort") < 1:
        valve.step()
        before = len(rig.witness.records)
        await rig.witness.until(lambda seen=before: len(rig.witness.records) > seen)  # type: ignore[misc]


async def test_b8_a_kept_alive_connection_serves_request_after_request() -> None:
    async with serving() as rig, listening(rig) as port:
        reader, writer = await send(port, post(CHAT, chat(stream=True, max_tokens=5)))
        for _ in range(3):
            status, headers = await read_head(reader)
            assert (status, headers["transfer-encoding"]) == (200, "chunked")
            assert text_of_chat(events_of(await read_chunked(reader))) == "aaaaa"
            writer.write(post(CHAT, chat(stream=True, max_tokens=5)))
        await read_head(reader)
        await read_chunked(reader)
        writer.close()
        await rig.idle()
        assert rig.figure("finished", "length") == 4


async def test_b8_an_http_1_0_client_reads_a_stream() -> None:
    async with serving(script={1: [*b"abc", END]}) as rig, listening(rig) as port:
        reader, writer = await send(port, post(CHAT, chat(stream=True), version="1.0"))
        _, headers = await read_head(reader)
        assert "transfer-encoding" not in headers
        async with asyncio.timeout(PATIENCE_S):
            raw = await reader.read()
        assert len(raw) == int(headers["content-length"])
        assert text_of_chat(events_of(raw)) == "abc"
        writer.close()


async def test_b8_a_socket_that_is_not_read_holds_a_bounded_buffer_and_delays_nobody() -> None:
    sizes = replace(SMALL, num_cells=4000)
    async with serving(sizes=sizes, synthetic=True) as rig, listening(rig) as port:
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect(("127.0.0.1", port))
        reader, writer = await asyncio.open_connection(sock=sock, limit=1024)
        # a long id makes long chunks: enough to fill the kernel's small buffers and the server's own
        writer.write(post(CHAT, chat(stream=True, max_tokens=3000), more=f"x-request-id: {'n' * 128}\r\n"))
        await rig.witness.until(lambda: rig.figure("generated_tokens") > 100)
        quick = await rig.call(CHAT, chat("quick", stream=True, max_tokens=50)).rest()
        assert len(text_of_chat(events_of(quick))) == 50
        await rig.witness.until(lambda: rig.figure("finished", "length") == 2)
        assert rig.engine.door.in_flight == 1
        await read_head(reader)
        events = events_of(await read_chunked(reader))
        assert len(text_of_chat(events)) == 3000
        assert len(events) < 3000, "merged"
        writer.close()
        await rig.idle()


async def test_e25_a_head_of_a_megabyte_gets_431_and_other_requests_go_on() -> None:
    async with serving() as rig, listening(rig) as port:
        raw = b"GET /health HTTP/1.1\r\nhost: x\r\nx-much: " + b"x" * 1_000_000 + b"\r\n\r\n"
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(raw)
        status, body = await read_json(reader)
        assert (status, body["error"]["code"]) == (431, "headers_too_large")
        writer.close()
        reader, writer = await send(port, b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n")
        assert (await read_json(reader))[0] == 200
        writer.close()


async def test_e25_a_body_of_fifty_megabytes_gets_413_while_others_stream() -> None:
    valve = Valve()
    async with serving(faults=[valve]) as rig, listening(rig) as port:
        call = rig.call(CHAT, chat(stream=True, max_tokens=30))
        valve.step()
        await call.begin()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST %b HTTP/1.1\r\nhost: x\r\ncontent-length: 52428800\r\n\r\n" % CHAT.encode())
        status, body = await read_json(reader)
        assert (status, body["error"]["code"]) == (413, "payload_too_large")
        writer.write(b" " * 52_428_800)
        await writer.drain()
        writer.write(post(CHAT, chat(max_tokens=1)))
        valve.open()
        assert (await read_json(reader))[0] == 200, "the connection is still good"
        writer.close()
        assert len(text_of_chat(events_of(await call.rest()))) == 30


@pytest.mark.parametrize(
    "raw",
    [
        b"nonsense\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"POST / HTTP/1.1\r\nbad header\r\n\r\n",
    ],
)
async def test_e18_what_is_no_http_gets_an_error_object_and_the_server_lives(raw: bytes) -> None:
    async with serving() as rig, listening(rig) as port:
        reader, writer = await send(port, raw)
        status, body = await read_json(reader)
        assert (status, set(body["error"])) == (400, {"message", "type", "param", "code"})
        writer.close()
        reader, writer = await send(port, b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n")
        assert (await read_json(reader))[0] == 200
        writer.close()
