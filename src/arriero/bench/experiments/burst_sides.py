"""Sides of a burst: this project's server, llama-server, and the bare loop; one at a time, fresh for each round."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from arriero.backend.passing_thread import in_passing_thread
from arriero.bench.experiments.bare_loop import BareLoop
from arriero.bench.experiments.burst_load import Burst, BurstRun, BurstShape, send, warm_up
from arriero.bench.experiments.contexts import ContextShape, ModelSettings, open_model
from arriero.bench.experiments.served import ServeOptions, served
from arriero.bench.experiments.sides import OURS, THEIRS, ServerSize, build_of, peer_command, peer_served
from arriero.metrics.client_life import ClientLife

BARE: Final = "bare loop"

_BATCH_ROWS: Final = 512  # of one decode call, as both servers have it


@dataclass(frozen=True, slots=True, kw_only=True)
class BurstSetting:
    """What every side has in common.

    Attributes:
        flags: further ones of our own server.
        peer: path of llama-server; None: it is left out.
    """

    model: ModelSettings
    shape: BurstShape
    slots: int
    slot_tokens: int
    threads: int
    flags: tuple[str, ...]
    peer: str | None
    peer_flags: tuple[str, ...]


async def serve_burst(setting: BurstSetting, side: str, number: int, burst: Burst) -> BurstRun:
    """One burst by one side, started for it.

    Raises:
        ConfigError, ServerFailed, CallFailed: the side does not serve.
    """
    if side == OURS:
        return await _ours(setting, number, burst)
    if side == THEIRS:
        return await _theirs(setting, number, burst)
    lives = await asyncio.to_thread(in_passing_thread, _bare(setting, burst))
    return BurstRun(side=side, round=number, lives=lives, prefill_rows=setting.shape.ideal_rows)


async def _ours(setting: BurstSetting, number: int, burst: Burst) -> BurstRun:
    options = ServeOptions(
        slots=setting.slots,
        slot_tokens=setting.slot_tokens,
        backlog=setting.shape.requests,
        threads=setting.threads,
        batch_rows=_BATCH_ROWS,
        reuses=True,
        flags=setting.flags,
    )
    async with served(setting.model, options) as server:
        await warm_up(server.target, setting.shape, setting.slots)
        lives = await send(server.target, setting.shape, burst, cache_prompt=False)
        cache = (await server.call("GET", "/debug/cache")).body
        log = await server.stop()
    rows = [log.of(life.request_id) for life in lives]
    computed = sum(row.prompt_tokens - row.reused_tokens for row in rows if row is not None)
    return BurstRun(
        side=OURS, round=number, lives=lives, prefill_rows=computed, problems=log.problems_with(lives), cache=cache
    )


async def _theirs(setting: BurstSetting, number: int, burst: Burst) -> BurstRun:
    assert setting.peer is not None, "it is left out without a program"
    command = peer_command(setting.peer, setting.model, setting.peer_flags)
    size = ServerSize(slots=setting.slots, slot_tokens=setting.slot_tokens, threads=setting.threads)
    async with peer_served(command, setting.model, size) as server:
        await warm_up(server.target, setting.shape, setting.slots)
        lives = await send(server.target, setting.shape, burst, cache_prompt=True)
        build = await build_of(server)
    told = [life.cached_tokens for life in lives]
    rows = None if None in told else sum((life.prompt_tokens or 0) - (life.cached_tokens or 0) for life in lives)
    return BurstRun(side=THEIRS, round=number, lives=lives, prefill_rows=rows, build=build)


def _bare(setting: BurstSetting, burst: Burst) -> Callable[[], tuple[ClientLife, ...]]:
    """Opens a context, warms it up with a burst of its own shape cut short, and serves the burst."""

    def serve() -> tuple[ClientLife, ...]:
        shape = ContextShape(
            num_sequences=setting.slots,
            positions=setting.slot_tokens,
            num_rows=_BATCH_ROWS,
            threads=setting.threads or None,
        )
        with open_model(setting.model) as source:
            backend = source.make(shape)
            try:
                loop = BareLoop(backend)
                short = Burst(name="warm-up", prefix=burst.prefix[:8], owns=tuple(own[:2] for own in burst.owns))
                loop.serve(replace(setting.shape, prefix_tokens=8, own_tokens=2, budget=2), short)
                return loop.serve(setting.shape, burst)
            finally:
                backend.close()

    return serve
