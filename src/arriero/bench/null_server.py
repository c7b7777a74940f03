"""NullServer: OpenAI's interface with nothing behind it: known delays, known chunks, one planned stall.

    python -m arriero.bench.null_server --first-s 0.05 --gap-s 0.01

What a load generator measures against it is the load generator. It runs in a process of its own, so that its work and
the client's do not share an event loop; the answers' bytes are made beforehand. Timers of event loops are good for a
millisecond, so with `keeps_times` it also says when each chunk really left: durations from the receipt of the request
on its own clock.
"""

import asyncio
import sys
import threading
import time
from collections.abc import Sequence
from typing import Final, cast

import httptools
import msgspec

from arriero.bench.ask import Endpoint
from arriero.bench.client_loop import run
from arriero.bench.loop_watch import quiet_collector
from arriero.bench.null_server_answers import AnswerMaker, NullBody, json_answer
from arriero.bench.null_server_options import NullCommand, NullOptions, read_words
from arriero.bench.target import Clock

ENDPOINTS: Final = {b"/v1/completions": Endpoint.COMPLETIONS, b"/v1/chat/completions": Endpoint.CHAT}
BACKLOG: Final = 4096
MODELS: Final = {"object": "list", "data": [{"id": "null", "object": "model", "created": 0, "owned_by": "arriero"}]}

_decode: Final = msgspec.json.Decoder(NullBody).decode


class NullServer:
    """Answers every request in the same way; shared by its connections.

    Attributes:
        times: with `keeps_times`, request id → nanoseconds from its receipt to the moment each chunk was written.
        num_requests: answered or being answered.
    """

    def __init__(self, options: NullOptions, clock: Clock = time.perf_counter_ns) -> None:
        """Nothing is listened to yet; `connection` makes a protocol for whatever connects."""
        self.options = options
        self.clock = clock
        self.maker = AnswerMaker(options)
        self.times: dict[str, list[int]] = {}
        self.num_requests = 0
        self._stall: tuple[int, int] | None = None

    def connection(self) -> "NullConnection":
        """A protocol for one connection."""
        return NullConnection(self)

    async def listen(self, host: str = "127.0.0.1", port: int = 0) -> asyncio.Server:
        """Listen; the port is `server.sockets[0].getsockname()[1]`."""
        loop = asyncio.get_running_loop()
        return await loop.create_server(self.connection, host, port, backlog=BACKLOG)

    def note_request(self, at: int) -> None:
        """A request has come; the planned stall counts from the first one."""
        self.num_requests += 1
        stall = self.options.stall
        if self.num_requests == 1 and stall is not None:
            begin = at + round(stall.at_s * 1e9)
            self._stall = (begin, begin + round(stall.for_s * 1e9))

    def held(self, due_at: int) -> int:
        """When something leaves that is due then."""
        if self._stall is not None and self._stall[0] <= due_at < self._stall[1]:
            return self._stall[1]
        return due_at


class NullConnection(asyncio.Protocol):
    """One client's connection: a request, its answer, the next request."""

    def __init__(self, server: NullServer) -> None:
        """Not connected yet."""
        self._server = server
        self._parser: httptools.HttpRequestParser | None = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._url = b""
        self._request_id = ""
        self._body: list[bytes] = []
        self._stamp = 0
        self._answer: _Answering | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one without saying so

    def data_received(self, data: bytes) -> None:
        """Stamp, then read."""
        self._stamp = self._server.clock()
        assert self._parser is not None, "open"
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._close()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is closed; what was still to leave does not."""
        del exc
        if self._answer is not None:
            self._answer.stop()
        self._answer = self._parser = self._transport = None

    def on_message_begin(self) -> None:
        """A request begins."""
        self._url = b""
        self._request_id = ""
        self._body = []

    def on_url(self, url: bytes) -> None:
        """Its path."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header."""
        if name.lower() == b"x-request-id":
            self._request_id = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        """A part of its body."""
        self._body.append(body)

    def on_message_complete(self) -> None:
        """It is complete: answer it."""
        if self._answer is not None:
            self._close()  # the next request before this answer's end: nobody here sends that
            return
        assert self._parser is not None, "open"
        endpoint = ENDPOINTS.get(self._url) if self._parser.get_method() == b"POST" else None
        if endpoint is None:
            self._write(self._other_page())
            return
        try:
            body = _decode(b"".join(self._body))
        except msgspec.DecodeError as error:
            self._write(json_answer({"error": {"message": str(error)}}, b"400 Bad Request"))
            return
        server = self._server
        server.note_request(self._stamp)
        shape = server.maker.shape(endpoint, body)
        times = server.times.setdefault(self._request_id, []) if server.options.keeps_times else None
        self._answer = _Answering(self, server, server.maker.pieces(shape), self._stamp, times)
        self._answer.start(shape.num_chunks)

    def write_piece(self, piece: bytes, *, is_last: bool) -> None:
        """A part of the answer leaves."""
        if is_last:
            self._answer = None
        self._write(piece, is_last=is_last)

    def _write(self, data: bytes, *, is_last: bool = True) -> None:
        if self._transport is None:
            return
        self._transport.write(data)
        if is_last and (self._parser is None or not self._parser.should_keep_alive()):
            self._close()

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _other_page(self) -> bytes:
        if self._url == b"/health":
            return json_answer({"status": "ok"})
        if self._url == b"/v1/models":
            return json_answer(MODELS)
        if self._url == b"/times":
            times, self._server.times = self._server.times, {}
            return json_answer(times)
        return json_answer({"error": {"message": "a null server does not know this path"}}, b"404 Not Found")


class _Answering:
    """One answer on its way out, by a plan that does not drift."""

    __slots__ = (
        "_connection",
        "_due_at",
        "_gap_ns",
        "_index",
        "_pieces",
        "_received_at",
        "_server",
        "_timer",
        "_times",
    )

    def __init__(
        self,
        connection: NullConnection,
        server: NullServer,
        pieces: tuple[bytes, ...],
        received_at: int,
        times: list[int] | None,
    ) -> None:
        self._connection = connection
        self._server = server
        self._pieces = pieces
        self._received_at = received_at
        self._times = times
        self._index = 0
        self._due_at = 0
        self._gap_ns = round(server.options.gap_s * 1e9)
        self._timer: asyncio.TimerHandle | None = None

    def start(self, num_chunks: int) -> None:
        """Plan the first piece; an answer that is one body leaves when its last token would."""
        options = self._server.options
        self._due_at = self._received_at + round(options.first_s * 1e9)
        if len(self._pieces) == 1:
            self._due_at += self._gap_ns * (num_chunks - 1)
        elif not self._gap_ns:
            self._pieces = (b"".join(self._pieces),)
        self._go_on()

    def stop(self) -> None:
        """The client has gone."""
        if self._timer is not None:
            self._timer.cancel()

    def _go_on(self) -> None:
        """Let leave what is due, and wait for the rest."""
        self._timer = None
        while self._index < len(self._pieces):
            left_ns = self._server.held(self._due_at) - self._server.clock()
            if left_ns > 0:
                self._timer = asyncio.get_running_loop().call_later(left_ns / 1e9, self._go_on)
                return
            if self._times is not None:
                self._times.append(self._server.clock() - self._received_at)
            piece = self._pieces[self._index]
            self._index += 1
            self._due_at += self._gap_ns
            self._connection.write_piece(piece, is_last=self._index == len(self._pieces))


async def serve(command: NullCommand) -> None:
    """Listen, say where, and serve until told to stop."""
    stop = asyncio.Event()
    server = await NullServer(command.options).listen(command.host, command.port)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    if command.until_stdin_closes:
        loop = asyncio.get_running_loop()
        threading.Thread(target=_wait_for_end_of_stdin, args=(loop, stop), daemon=True).start()
    async with server:
        await stop.wait()


def _wait_for_end_of_stdin(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    while sys.stdin.buffer.read(4096):
        pass
    loop.call_soon_threadsafe(stop.set)


def main(words: Sequence[str] | None = None) -> int:
    """Run a null server until it is told to stop; status 2 if the address cannot be had."""
    command = read_words(words)
    try:
        with quiet_collector():
            run(serve(command))
    except OSError as error:
        sys.stderr.write(f"{command.host}:{command.port}: {error.strerror or error}; choose another --port\n")
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
