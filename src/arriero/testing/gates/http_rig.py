"""HttpRig: a real server in this process, on a free port, over an engine on a fresh backend.

    async with HttpRig(context, findings, shape, backlog=0) as rig:
        reply = await rig.client.post("/completion", {...})
        log = await rig.stop()

The model's end tokens are taken away from the engine, so every answer has exactly the length that was asked for.
"""

import asyncio
import socket
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Final, Self

import numpy as np
import uvicorn
from numpy.typing import NDArray

from arriero.backend.protocol import Backend
from arriero.core.errors import ConfigError
from arriero.core.ids import TokenId
from arriero.core.plan import Row
from arriero.engine.engine import Engine
from arriero.engine.observer import Observer
from arriero.engine.options import EngineOptions
from arriero.http.app import build_app
from arriero.http.request_log import RequestRow
from arriero.http.server import server_config
from arriero.http.service import HttpOptions, Service, unix_now
from arriero.testing.fakes import FaultyBackend
from arriero.testing.faults import Fault
from arriero.testing.gates.backends import Shape
from arriero.testing.gates.context import GateContext
from arriero.testing.gates.findings import Findings
from arriero.testing.gates.http_client import Client
from arriero.testing.gates.promises import check_log
from arriero.testing.gates.watch import StepLog
from arriero.tokens.chat_template import ChatTemplate

HOST: Final = "127.0.0.1"
SETTLE_WITHIN_S: Final = 30.0


class Endless(FaultyBackend):
    """Any backend, without end tokens; with a floor under the length of a decode call, and with faults."""

    def __init__(self, inner: Backend, *faults: Fault, floor_s: float = 0.0) -> None:
        """`floor_s`: a call that is quicker waits, so that a formula is no faster than a small model."""
        super().__init__(inner, *faults)
        self._floor_s = floor_s

    @property
    def end_tokens(self) -> frozenset[TokenId]:
        """None at all."""
        return frozenset()

    def decode(self, rows: Sequence[Row]) -> NDArray[np.float32]:
        """The inner call, then the rest of the floor."""
        began = time.monotonic()
        logits = super().decode(rows)
        time.sleep(max(0.0, self._floor_s - (time.monotonic() - began)))
        return logits


class RowLog:
    """Keeps the row of every HTTP request, and wakes whoever waits for one."""

    def __init__(self) -> None:
        """Start empty."""
        self.rows: list[RequestRow] = []
        self._changed = asyncio.Event()

    def on_request(self, row: RequestRow) -> None:
        """A request is over."""
        self.rows.append(row)
        self._changed.set()

    async def wait_for(self, num_rows: int) -> None:
        """Wait until so many requests are over."""
        while len(self.rows) < num_rows:
            self._changed.clear()
            await self._changed.wait()


class _Server(uvicorn.Server):
    """uvicorn that leaves signals alone and says when it is ready."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()


class HttpRig:
    """One server, its engine, its backend and their logs.

    Attributes:
        client: talks to it.
        rows: one for each HTTP request that is over.
        log: the engine's side.
        stopped: set when `POST /shutdown` asked for the end of the listener.
    """

    def __init__(
        self,
        context: GateContext,
        findings: Findings,
        shape: Shape,
        *,
        backlog: int,
        http: HttpOptions | None = None,
        observers: Sequence[Observer] = (),
        wrap: Callable[[Backend], FaultyBackend] = Endless,
    ) -> None:
        """Nothing runs before the block is entered."""
        self._context = context
        self._findings = findings
        self._socket = socket.socket()
        self._serving: asyncio.Task[None] | None = None
        self._server: _Server | None = None
        self.log = StepLog()
        self.rows = RowLog()
        self.stopped = asyncio.Event()
        self._http = HttpOptions() if http is None else http
        self._socket.bind((HOST, 0))
        self.client = Client(HOST, self._socket.getsockname()[1])
        self._backend = wrap(context.backends.make(shape))
        options = context.with_interrupts(EngineOptions(backlog=backlog, check=True))
        try:
            self.engine = Engine(self._backend, options, observers=[self.log, *observers])
        except ConfigError:
            self._free()
            raise

    async def __aenter__(self) -> Self:
        """Start the engine, then the server; returns when it answers."""
        vocabulary = self._context.backends.vocabulary
        service = Service(
            engine=self.engine,
            vocabulary=vocabulary,
            template=ChatTemplate(vocabulary.chat_template, vocabulary),
            model_id="gate",
            created=unix_now(),
            options=self._http,
            request_log=self.rows,
            stop=self.stopped.set,
        )
        try:
            self.engine.start(self._context.placement)
        except ConfigError:
            self._free()
            raise
        self._server = _Server(server_config(build_app(service), self._http, timeout_graceful_shutdown=1))
        self._serving = asyncio.create_task(self._server.serve(sockets=[self._socket]))
        await self._server.ready.wait()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Stop both, and free the backend unless the engine does not end."""
        self.engine.shutdown()
        self.engine.cancel_all()
        if self._server is not None and self._serving is not None:
            self._server.should_exit = True
            await self._serving
        try:
            async with asyncio.timeout(SETTLE_WITHIN_S):
                await self.engine.wait_closed()
        except TimeoutError:
            self._findings.broke(f"the engine did not end within {SETTLE_WITHIN_S:.0f} s")
            self._socket.close()
            return
        self._free()

    async def stop(self) -> StepLog:
        """End the engine, and check what holds for any run."""
        self.engine.shutdown()
        await self.engine.wait_closed()
        check_log(self.log, self.engine.limits.num_rows, self._findings)
        return self.log

    async def until_in_flight(self, num_requests: int) -> None:
        """Give way to other tasks until so many places are taken.

        Raises:
            TimeoutError: that never came.
        """
        async with asyncio.timeout(SETTLE_WITHIN_S):
            while self.engine.door.in_flight != num_requests:  # noqa: ASYNC110 - the door tells nobody of its count
                await asyncio.sleep(0.001)

    def _free(self) -> None:
        self._socket.close()
        self._backend.close()
