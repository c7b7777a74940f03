"""A whole server in one process, with a client that does exactly what it is told, byte by byte and moment by moment."""

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Self, TypeAlias

from starlette.types import ASGIApp, Message

from arriero.backend.protocol import Backend
from arriero.backend.synthetic import SyntheticBackend, SyntheticOptions
from arriero.backend.synthetic_memory import SyntheticStore
from arriero.core.events import Event, Queued
from arriero.core.plan import Row
from arriero.engine.actor import Clock, monotonic_us
from arriero.engine.engine import Engine
from arriero.engine.explain_book import ExplainBook
from arriero.engine.handle import RequestHandle, Result
from arriero.engine.observer import EngineSummary, StepRecord
from arriero.engine.options import EngineOptions
from arriero.engine.placement import Dedicated, Placement
from arriero.http.app import build_app
from arriero.http.exposition import MetricsPage, PageOptions
from arriero.http.metrics import Metrics
from arriero.http.request_log import RequestRow
from arriero.http.service import HttpOptions, Service
from arriero.kv.reuse import ReuseRules
from arriero.testing.fakes import FaultyBackend, ScriptedBackend
from arriero.testing.faults import Fault
from arriero.tokens.chat_template import ChatTemplate
from arriero.tokens.vocabulary import ByteVocabulary, Vocabulary

Json: TypeAlias = Any
"""Whatever JSON holds, or a field of a request may be."""

PATIENCE_S = 20.0
END = 257
FIRST_PIECE = 300


class PieceVocabulary(ByteVocabulary):
    """Bytes, and from `FIRST_PIECE` on tokens of several bytes, in the order given."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        super().__init__()
        self._pieces = tuple(pieces)

    @property
    def size(self) -> int:
        return FIRST_PIECE + len(self._pieces)

    def piece(self, token: int, *, special: bool = False) -> bytes:
        if token >= FIRST_PIECE:
            return self._pieces[token - FIRST_PIECE]
        return super().piece(token, special=special)


class Valve(Fault):
    """Lets decode calls through one by one; open from the start unless it is told otherwise."""

    def __init__(self, *, is_open: bool = False) -> None:
        self._changed = threading.Condition()
        self._permits = 0
        self._is_open = is_open
        self.num_waiting = 0

    def before_decode(self, call: int, rows: Sequence[Row]) -> None:
        del call, rows
        with self._changed:
            self.num_waiting += 1
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: self._is_open or self._permits > 0, PATIENCE_S), (
                "nobody let it through"
            )
            self.num_waiting -= 1
            self._permits = max(0, self._permits - 1)

    def wait_until_held(self) -> None:
        """Wait, in a thread, until a call stands before it."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.num_waiting > 0, PATIENCE_S), "nobody came"

    def step(self, num_calls: int = 1) -> None:
        with self._changed:
            self._permits += num_calls
            self._changed.notify_all()

    def open(self) -> None:
        with self._changed:
            self._is_open = True
            self._changed.notify_all()


class CountingEngine(Engine):
    """An engine that says how many requests were submitted to it, before it takes them."""

    num_submitted = 0
    on_submit: Callable[[], None] = staticmethod(lambda: None)

    def submit(self, *args: Any, **kwargs: Any) -> RequestHandle:  # noqa: ANN401 - whatever the engine takes
        handle = super().submit(*args, **kwargs)
        self.num_submitted += 1
        self.on_submit()
        return handle


class Witness:
    """Sees every step and row, and can be waited for on the event loop."""

    def __init__(self) -> None:
        self.records: list[StepRecord] = []
        self.results: list[Result] = []
        self.rows: list[RequestRow] = []
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()

    @property
    def events(self) -> list[Event]:
        return [event for record in tuple(self.records) for event in record.events]

    def queued(self) -> int:
        return sum(isinstance(event, Queued) for event in self.events)

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not holds():
                self._changed.clear()
                if not holds():
                    await self._changed.wait()

    def on_start(self, at: float) -> None:
        pass

    def on_step(self, record: StepRecord) -> None:
        self.records.append(record)
        self._wake()

    def on_end(self, result: Result) -> None:
        self.results.append(result)
        self._wake()

    def on_close(self, summary: EngineSummary) -> None:
        pass

    def on_request(self, row: RequestRow) -> None:
        self.rows.append(row)
        self.look_again()

    def look_again(self) -> None:
        """On the event loop: something that a test waits for may be there."""
        self._changed.set()

    def _wake(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._changed.set)


class Call:
    """One request to an ASGI application, and a client that reads, stalls and leaves when a test says so."""

    def __init__(self, app: ASGIApp, scope: Mapping[str, Json], body: Sequence[bytes]) -> None:
        parts = list(body)
        self._requests: list[Message] = [
            {"type": "http.request", "body": part, "more_body": index + 1 < len(parts)}
            for index, part in enumerate(parts)
        ]
        self._sent: asyncio.Queue[Message] = asyncio.Queue()
        self._reads = asyncio.Event()
        self._reads.set()
        self._over = asyncio.Event()
        self.status = 0
        self.headers: dict[str, str] = {}
        self.num_messages = 0
        self.writers: list[asyncio.Task[Json] | None] = []
        self._task = asyncio.create_task(self._run(app, dict(scope)))

    async def _run(self, app: ASGIApp, scope: dict[str, Json]) -> None:
        try:
            await app(scope, self._receive, self._send)
        finally:
            self._sent.put_nowait({"type": "over"})

    async def _receive(self) -> Message:
        if self._requests:
            return self._requests.pop(0)
        await self._over.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        self.writers.append(asyncio.current_task())
        if not self._reads.is_set():
            await self._reads.wait()
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self._over.set()
        self.num_messages += 1
        self._sent.put_nowait(message)

    # what the client does

    def leave(self) -> None:
        """Close the connection."""
        self._reads.set()
        self._over.set()

    def stall(self) -> None:
        """Stop reading: the next write waits."""
        self._reads.clear()

    def read_on(self) -> None:
        self._reads.set()

    async def _next(self) -> Message:
        async with asyncio.timeout(PATIENCE_S):
            return await self._sent.get()

    async def begin(self) -> Self:
        """Wait for status and headers."""
        message = await self._next()
        if message["type"] == "over":
            await self._task
        assert message["type"] == "http.response.start", message
        self.status = message["status"]
        self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        return self

    async def part(self) -> bytes:
        """The next part of the body; empty when it is over."""
        message = await self._next()
        part: bytes = message.get("body", b"")
        return part

    async def rest(self) -> bytes:
        """Everything until the application returns."""
        parts: list[bytes] = []
        while (message := await self._next())["type"] != "over":
            if message["type"] == "http.response.start":
                self.status = message["status"]
                self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            parts.append(message.get("body", b""))
        await self._task
        return b"".join(parts)

    async def json(self) -> Json:
        return json.loads(await self.rest())

    async def over(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.wait([self._task])


@dataclass
class Rig:
    """A running server."""

    app: ASGIApp
    engine: CountingEngine
    service: Service
    backend: FaultyBackend
    witness: Witness
    metrics: Metrics

    def call(
        self,
        path: str,
        body: object = None,
        *,
        method: str = "POST",
        headers: Mapping[str, str] | None = None,
        raw: bytes | Sequence[bytes] | None = None,
        http_version: str = "1.1",
        query: str = "",
    ) -> Call:
        if raw is None:
            raw = b"" if body is None else json.dumps(body).encode()
        parts = [raw] if isinstance(raw, bytes) else list(raw)
        pairs = [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()]
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": http_version,
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": pairs,
            "client": ("test", 1),
            "server": ("test", 80),
        }
        return Call(self.app, scope, parts)

    async def ask(self, path: str, body: object = None, **more: Json) -> tuple[Call, Json]:
        """A request whose whole answer is JSON."""
        call = self.call(path, body, **more)
        return call, await call.json()

    def figure(self, name: str, *labels: str) -> float:
        return self.metrics.tally.count(name, *labels)

    async def idle(self) -> None:
        """Wait until nothing runs or waits and every place is free."""
        async with asyncio.timeout(PATIENCE_S):
            # a question to the engine is answered at its next boundary, so this does not turn idly
            while (await self.engine.ask_snapshot()).has_work or self.engine.door.in_flight:
                pass
        kv = self.engine.snapshot.scheduler.kv
        assert (kv.active_cells, kv.sequences_held) == (0, 0)


SMALL = SyntheticOptions(num_sequences=4, num_rows=64, micro_batch=64, num_cells=512, unified=True, vocab_size=400)


@asynccontextmanager
async def serving(
    *,
    script: Mapping[int, Sequence[int]] | None = None,
    pieces: Sequence[bytes] = (),
    filler: int = ord("a"),
    synthetic: bool = False,
    sizes: SyntheticOptions = SMALL,
    faults: Sequence[Fault] = (),
    backlog: int | None = 64,
    stream_high_water: int | None = None,
    reuse: ReuseRules | None = None,
    retained: int = 0,
    no_reuse: str | None = None,
    store: SyntheticStore | None = None,
    flush: Callable[[], None] | None = None,
    log_rows: bool = True,
    stop: Callable[[], None] = lambda: None,
    placement: Placement | None = None,
    clock: Clock = monotonic_us,
    engine_options: EngineOptions | None = None,
    policy: str = "fcfs",
    **options: Json,
) -> AsyncGenerator[Rig]:
    """A server on a scripted backend (or a synthetic one), greedy unless a request says otherwise."""
    letters = tuple(range(ord("a"), ord("z") + 1))
    inner: Backend = (
        SyntheticBackend(replace(sizes, speaks=letters), store=store)
        if synthetic
        else ScriptedBackend(script or {}, filler=filler, options=sizes, store=store)
    )
    backend = FaultyBackend(inner, *faults)
    witness, metrics = Witness(), Metrics()
    book = ExplainBook(tell=metrics.observe_story)
    engine = CountingEngine(
        backend,
        replace(
            engine_options or EngineOptions(),
            backlog=backlog,
            check=True,
            stream_high_water=stream_high_water,
            reuse=reuse,
            retained=retained,
        ),
        observers=[metrics, book, witness],
        clock=clock,
    )
    vocabulary: Vocabulary = PieceVocabulary(pieces)
    service = Service(
        engine=engine,
        vocabulary=vocabulary,
        template=ChatTemplate(None, vocabulary),
        model_id="test-model",
        aliases=("gpt-test",),
        created=1,
        options=HttpOptions(**{"default_temperature": 0.0, **options}),
        metrics=metrics,
        page=MetricsPage(metrics, PageOptions(model="test-model", info={"version": "0"}, settings={})),
        request_log=witness if log_rows else None,
        book=book,
        config={"ctx_size": 512},
        stop=stop,
        policy=policy,
        no_reuse=no_reuse if no_reuse or reuse else "off",
        flush=flush,
    )
    engine.on_submit = witness.look_again
    engine.start(placement or Dedicated())
    try:
        yield Rig(build_app(service), engine, service, backend, witness, metrics)
    finally:
        for fault in faults:
            if isinstance(fault, Valve):
                fault.open()
        engine.shutdown()
        engine.cancel_all()
        async with asyncio.timeout(PATIENCE_S):
            await engine.wait_closed()


def events_of(body: bytes) -> list[Json]:
    """The JSON values of a stream's `data:` lines, without the end mark; every line is checked."""
    found: list[Json] = []
    for line in body.split(b"\n"):
        if line and line != b"data: [DONE]":
            assert line.startswith(b"data: {"), line
            found.append(json.loads(line[6:]))
    return found


def text_of_chat(events: Sequence[Json]) -> str:
    return "".join(choice["delta"].get("content", "") for event in events for choice in event["choices"])


def chat(content: object = "hello", **fields: Json) -> dict[str, Json]:
    return {"model": "test-model", "messages": [{"role": "user", "content": content}], **fields}


def text(prompt: object = "hello", **fields: Json) -> dict[str, Json]:
    return {"model": "test-model", "prompt": prompt, **fields}
