"""HttpTarget: a server of OpenAI's interface, asked over HTTP and measured from outside.

    ask ──▶ connection ──▶ moments and bytes ──▶ (closed) ──▶ events, chunks, tokens ──▶ ClientLife

While an answer comes, nothing happens to its bytes but a stamp and the framing of HTTP; events and JSON are read when
it is over. Nothing is sent twice. Whatever goes wrong ends in an outcome and a word of `ErrorKind`, and the first
example of each is kept for whoever wants to know more.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from http import HTTPStatus
from typing import Any, Final, TypeAlias

import msgspec

from arriero.bench.ask import Ask
from arriero.bench.client_errors import ErrorKind
from arriero.bench.client_exchange import Close, Exchange, GiveUp
from arriero.bench.client_network import ConnectFailed, Network, TcpNetwork
from arriero.bench.client_options import HttpOptions, parse_url
from arriero.bench.client_outcome import judge
from arriero.bench.client_reading import CancelAfter, read_answer
from arriero.bench.client_wire import RequestWriter
from arriero.bench.connections import Connection, ConnectionCounts, ConnectionPool
from arriero.bench.sse_answer import Answer, one_line
from arriero.bench.target import Clock
from arriero.metrics.client_life import ClientLife

DEFAULTS: Final = HttpOptions()
FACTS_S: Final = 5.0
"""How long a server may take to say which models it has."""

OnText: TypeAlias = Callable[[str, str], None]
"""Told the request id and the text of every answer, partial ones included, before its `ask` returns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What a server said outside a measurement.

    Attributes:
        status: None if it gave no whole answer.
        server: what it calls itself.
    """

    status: int | None
    body: bytes
    server: str | None


class HttpTarget:
    """A `Target`: a server at a base URL."""

    def __init__(
        self,
        url: str,
        options: HttpOptions = DEFAULTS,
        *,
        clock: Clock = time.perf_counter_ns,
        on_text: OnText | None = None,
        network: Network | None = None,
    ) -> None:
        """Nothing is opened yet.

        Args:
            url: `http://HOST:PORT`, with or without `/v1`.
            options: how it is asked.
            clock: of every moment in the lives.
            on_text: told the texts; None: only their hashes are kept.
            network: how connections are made; None: sockets.

        Raises:
            ConfigError: the URL or the key cannot be used.
        """
        address = parse_url(url)
        self.address = address
        self._options = options
        self._clock = clock
        self._on_text = on_text
        self._writer = RequestWriter(address, options)
        self._network = TcpNetwork(address, options.tls) if network is None else network
        self._pool = ConnectionPool(
            self._network,
            clock,
            reuse=options.reuse_connections,
            settle_ns=round(options.settle_s * 1e9),
            idle_limit_ns=round(options.idle_limit_s * 1e9),
        )
        self._under_way: dict[GiveUp, None] = {}
        self._examples: dict[str, str] = {}

    @property
    def name(self) -> str:
        """What the user called it, else host and port."""
        return self._options.name or self.address.authority

    @property
    def kind(self) -> str:
        """`http`."""
        return "http"

    @property
    def connections(self) -> ConnectionCounts:
        """How connections were used so far."""
        return self._pool.counts

    async def open(self) -> None:
        """Look the name up.

        Raises:
            ConfigError: there is no such host.
        """
        await self._network.resolve()

    async def ask(self, ask: Ask, intended_at: int | None) -> ClientLife:
        """See `Target.ask`."""
        data = self._writer.post(ask)
        exchange = Exchange(asyncio.get_running_loop().create_future(), self._options.max_answer_bytes)
        answer = Answer(keep_text=self._on_text is not None)
        live = None if ask.cancel_after is None else CancelAfter(exchange, answer, ask.cancel_after)
        exchange.on_piece = live
        connect_ns = await self._carry_out(exchange, data, cancel_now=ask.cancel_after == 0)
        await read_answer(exchange, answer, None if live is None else live.reading)
        judgement = judge(exchange, answer, wants_stream=ask.stream, needs_done=self._options.needs_done)
        if judgement.error is not None:
            self._examples.setdefault(judgement.error, _example(exchange, answer))
        if self._on_text is not None:
            self._on_text(ask.request_id, answer.text)
        return ClientLife(
            request_id=ask.request_id,
            intended_at=intended_at,
            sent_at=exchange.sent_at,
            headers_at=exchange.headers_at,
            closed_at=exchange.closed_at if answer.done_at is None else answer.done_at,
            outcome=judgement.outcome,
            error=judgement.error,
            status=exchange.status,
            chunk_at=tuple(answer.chunk_at),
            chunk_tokens=answer.chunk_tokens,
            empty_at=tuple(answer.empty_at),
            num_tokens=answer.num_tokens,
            prompt_tokens=answer.prompt_tokens,
            cached_tokens=answer.cached_tokens,
            asked_prompt_tokens=ask.num_prompt_tokens,
            asked_tokens=ask.max_tokens,
            text_sha256=answer.text_sha256,
            conversation=ask.conversation,
            turn=ask.turn,
            connect_ns=connect_ns,
        )

    def give_up(self, reason: str) -> None:
        """End every ask that is under way."""
        for each in tuple(self._under_way):
            each.now(reason)

    async def facts(self) -> dict[str, Any]:
        """Address, software, models, how connections were used, and the first example of each error."""
        page = await self.fetch("/v1/models", FACTS_S)
        return {
            "name": self.name,
            "kind": self.kind,
            "url": self.address.url,
            "answers": page.status is not None,
            "server": page.server,
            "models": _model_names(page.body) if page.status == HTTPStatus.OK else [],
            "connections": {**asdict(self.connections), "kept": self._options.reuse_connections},
            "first_errors": dict(self._examples),
        }

    async def fetch(self, path: str, limit_s: float) -> Page:
        """Any other page of the server, such as `/health`; never raises for what it does."""
        loop = asyncio.get_running_loop()
        exchange = Exchange(loop.create_future(), self._options.max_answer_bytes)
        timer = loop.call_later(limit_s, lambda: exchange.end(self._clock(), Close.GAVE_UP, ErrorKind.TIMEOUT_TOTAL))
        try:
            await self._carry_out(exchange, self._writer.get(path))
        finally:
            timer.cancel()
        server = exchange.header(b"server")
        return Page(
            status=exchange.status if exchange.close is Close.WHOLE else None,
            body=b"".join(piece for _, piece in exchange.pieces),
            server=None if server is None else server.decode("latin-1"),
        )

    async def close(self) -> None:
        """End what is under way and close every connection."""
        self.give_up("closed")
        self._pool.close()
        await asyncio.sleep(0)  # the transports tell their protocols in the loop's next turn

    # ── one exchange ────────────────────────────────────────────────────────────────────────────────────────────────

    async def _carry_out(self, exchange: Exchange, data: bytes, *, cancel_now: bool = False) -> int | None:
        """Send, and wait until it is over; how long a new connection took, None on a kept one."""
        limits = self._options.limits
        give_up = GiveUp(exchange, self._clock, asyncio.get_running_loop(), limits.total_s)
        self._under_way[give_up] = None
        connection: Connection | None = None
        try:
            connection, connect_ns = await self._connection(exchange, give_up)
            if connection is not None:
                connection.send(data, exchange)
                if exchange.sent_at is not None:
                    give_up.watch_silence(limits.silence_s)
                if cancel_now:
                    exchange.end(self._clock(), Close.CANCELLED)
                await exchange.over
            return connect_ns
        finally:
            give_up.stop()
            del self._under_way[give_up]
            exchange.on_piece = None
            if connection is not None:
                connection.leave(exchange)

    async def _connection(self, exchange: Exchange, give_up: GiveUp) -> tuple[Connection | None, int | None]:
        """A connection and how long it took to open; without one the exchange is over."""
        kept = self._pool.take()
        if kept is not None:
            return kept, None
        began_at = self._clock()
        opening = asyncio.create_task(self._pool.open())
        limit_s = self._options.limits.connect_s
        loop = asyncio.get_running_loop()
        timer = None if limit_s is None else loop.call_later(limit_s, give_up.now, ErrorKind.TIMEOUT_CONNECT)
        try:
            await asyncio.wait((opening, exchange.over), return_when=asyncio.FIRST_COMPLETED)
        finally:
            if timer is not None:
                timer.cancel()
            if not opening.done():
                opening.cancel()
        if not opening.done():
            return None, None
        try:
            connection = opening.result()
        except ConnectFailed as error:
            self._examples.setdefault(error.kind, str(error))
            exchange.end(self._clock(), Close.BROKEN, error.kind)
            return None, None
        if exchange.over.done():
            self._pool.put_back(connection)
            return None, None
        return connection, self._clock() - began_at


def _example(exchange: Exchange, answer: Answer) -> str:
    """What the server said about an error, one line."""
    wait = exchange.header(b"retry-after")
    retry = "" if wait is None else f"(retry after {wait.decode('latin-1')}) "
    if answer.detail:
        return retry + answer.detail
    return retry + one_line(b"".join(piece for _, piece in exchange.pieces[:4]))


def _model_names(body: bytes) -> list[str]:
    try:
        found = msgspec.json.decode(body, type=_Models)
    except msgspec.DecodeError:
        return []
    return [each.id for each in found.data]


class _Model(msgspec.Struct):
    """`data[]` of a list of models."""

    id: str


class _Models(msgspec.Struct):
    """A list of models."""

    data: list[_Model]
