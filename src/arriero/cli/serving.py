"""One server from start to end.

    load the model → start the engine → listen on the reserved port → serve
    signal, POST /shutdown or a dead engine → drain the engine → close connections → flush → free

While the engine drains the port stays open, so that new requests get an answer (503) instead of a closed door. A second
signal ends the process at once.
"""

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Final

import uvicorn

from arriero.cli.advice import Advice, take_advice
from arriero.cli.banner import Banner, tell
from arriero.cli.listen import listen
from arriero.cli.loading import LoadedModel, engine_options, load_model, no_reuse, placement_of
from arriero.cli.progress import Progress
from arriero.cli.records import Records, open_records
from arriero.cli.service import make_service
from arriero.cli.thread_log import ThreadLog
from arriero.core.config import LogFormat, LogLevel, ServeConfig
from arriero.core.config_rules import settle
from arriero.core.errors import EngineDied
from arriero.engine.engine import Engine
from arriero.engine.explain_book import ExplainBook
from arriero.engine.observer import EngineSummary, Observer
from arriero.http.app import build_app
from arriero.http.metrics import Metrics
from arriero.http.server import server_config

logger = logging.getLogger(__name__)

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
LAST_BYTES_S: Final = 5  # for answers that are complete and whose clients still read


def serve(config: ServeConfig, reserved: socket.socket) -> int:
    """Run one server on a reserved address; returns when it has ended in order.

    Raises:
        ConfigError: something that it needs cannot be had. EngineDied: the engine crashed while it served.
    """
    with Progress("loading the model", as_json=config.log_format is LogFormat.JSON):
        advice = take_advice(config, os.environ)
        config = advice.config
        loaded = load_model(config, advice.threads)
    gc.collect()
    gc.freeze()  # what is loaded now stays: collections while serving need not walk it again
    try:
        loop_factory = uvicorn.Config(_no_app, log_config=None).get_loop_factory()
        with (
            open_records(config, loaded.backend.limits, engine_options(config, loaded.backend, loaded.cost)) as records,
            asyncio.Runner(loop_factory=loop_factory) as runner,
        ):
            summary = runner.run(_serve(advice, loaded, records, reserved))
    finally:
        loaded.close()
    if summary.crashed is not None:
        raise EngineDied(f"the engine ended by itself: {summary.crashed}", code="engine_died")
    return 0


class Server(uvicorn.Server):
    """uvicorn without its own handling of signals, which says when it is ready."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        """Call `on_ready` once, when requests are answered."""
        super().__init__(config)
        self._on_ready = on_ready

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave signals alone: a drain comes before the end of the listener."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then say so."""
        await super().startup(sockets)
        self._on_ready()


async def _serve(advice: Advice, loaded: LoadedModel, records: Records, reserved: socket.socket) -> EngineSummary:
    config, stop = advice.config, asyncio.Event()
    metrics = Metrics()
    options = engine_options(config, loaded.backend, loaded.cost)
    book = ExplainBook(options.cost, tell=metrics.observe_story)
    observers: list[Observer] = [metrics, book, ThreadLog(asyncio.get_running_loop()), *records.observers]
    engine = Engine(loaded.backend, options, observers=observers)
    effective = replace(settle(config), threads=loaded.threads)
    if config.reuse and (reason := no_reuse(config, loaded.backend.reuse_support)):
        logger.warning("prefix reuse: %s", reason)
    service = make_service(effective, loaded, engine, metrics, records.request_log, stop.set)
    service = replace(service, book=book)
    _stop_at_signals(asyncio.get_running_loop(), stop)
    listen(reserved, config.host)
    port: int = reserved.getsockname()[1]
    banner = Banner(config=effective, given=config, port=port, loaded=loaded, advice=advice)
    settings = server_config(
        build_app(service),
        service.options,
        access_log=config.log_level is LogLevel.DEBUG,
        ssl_keyfile=config.ssl_keyfile,
        ssl_certfile=config.ssl_certfile,
        timeout_graceful_shutdown=LAST_BYTES_S,
    )
    server = Server(settings, partial(tell, banner))
    engine.start(placement_of(config))
    closed = asyncio.ensure_future(engine.wait_closed())
    serving = asyncio.ensure_future(server.serve(sockets=[reserved]))
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({closed, serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        summary = await drain(engine, closed, config.drain_timeout)
        server.should_exit = True
        await serving
    return summary


async def drain(engine: Engine, closed: "asyncio.Future[EngineSummary]", timeout_s: float) -> EngineSummary:
    """Refuse new work, let the rest finish, and cancel it when the time is over.

    Args:
        engine: that runs, or has ended.
        closed: done when it has ended.
        timeout_s: how long accepted requests, running or waiting, may take.
    """
    if not closed.done():
        logger.info("stopping: new requests are refused, running ones have %g s", timeout_s)
        engine.shutdown()
        await asyncio.wait({closed}, timeout=timeout_s)
    if not closed.done():
        logger.warning("the time to drain is over; cancelling what still runs")
        engine.cancel_all()
    return await closed


def _stop_at_signals(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    """The first signal stops in order, a second one at once."""

    def on_signal(number: int) -> None:
        if stop.is_set():
            sys.stderr.write("arriero: stopped at once\n")
            sys.stderr.flush()
            os._exit(128 + number)
        stop.set()

    for number in SIGNALS:
        loop.add_signal_handler(number, on_signal, number)


async def _no_app(*_: object) -> None:
    """Stands in where uvicorn is only asked which event loop it would take."""
