"""Cells of occupancy: a fresh server, a warm-up, a load, and what the server wrote about it.

Clients of a closed loop each send their next request when they have an answer. Arrivals that do not wait for answers
are carried out and judged as those of `arriero bench run`: a generator that was late makes its cell invalid.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from arriero.bench.ask import Ask
from arriero.bench.client import HttpTarget
from arriero.bench.experiments.contexts import ModelSettings
from arriero.bench.experiments.occupancy_figures import Occupancy, after_ends, occupancy
from arriero.bench.experiments.served import Served, ServeOptions, client_options, served
from arriero.bench.runner import LiveDriver
from arriero.bench.runner_points import Rules, measure
from arriero.bench.schedule import Loop, Planned, Schedule, seal
from arriero.core.ids import TokenId
from arriero.metrics.client_life import ClientLife, Outcome
from arriero.metrics.validity import Flag, Validity
from arriero.record.diagnostics import IterRow

GREEDY: Final = {"temperature": 0, "ignore_eos": True}
NUM_WARM_UPS: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What every cell has in common.

    Attributes:
        budget: tokens of every answer.
        slots: requests that run at once.
        seed: of arrivals.
    """

    model: ModelSettings
    prompt: str
    budget: int
    slots: int
    slot_tokens: int
    threads: int
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One server and one load.

    Attributes:
        name: for tables.
        clients: of a closed loop; None where arrivals do not wait for answers.
        lives: of the measured requests.
        found: how full the slots were while they were served.
        prompt_tokens: of each.
        problems: why the figures are not to be trusted.
        rows: what they were made from.
        validity: whether the generator kept to its schedule; None of a closed loop, which has none.
    """

    name: str
    clients: int | None
    lives: tuple[ClientLife, ...]
    found: Occupancy
    prompt_tokens: int
    problems: tuple[str, ...]
    rows: tuple[IterRow, ...]
    validity: Validity | None = None

    @property
    def num_failed(self) -> int:
        """Requests that did not get all of their tokens."""
        return sum(life.outcome is not Outcome.LENGTH for life in self.lives)

    @property
    def rate_per_s(self) -> float:
        """Answers for each second that the engine needed for them, pauses included."""
        return len(self.lives) / (self.found.span_us / 1e6) if self.found.span_us else 0.0

    @property
    def fault(self) -> str | None:
        """Why it shows the generator rather than the server; None if it does not."""
        if self.validity is None or self.validity.flag is not Flag.INVALID:
            return None
        return "; ".join(self.validity.reasons)


@dataclass(frozen=True, slots=True)
class Came:
    """What came of a load."""

    lives: tuple[ClientLife, ...]
    validity: Validity | None = None


Load: TypeAlias = Callable[[Served, tuple[TokenId, ...]], Awaitable[Came]]


async def closed(setting: Setting, name: str, *, clients: int, requests: int, in_flight: int) -> Cell:
    """Clients with so many requests each, of which so many may be in flight.

    Raises:
        ServerFailed, CallFailed: the server does not serve.
    """

    async def load(server: Served, prompt: tuple[TokenId, ...]) -> Came:
        async def client(number: int) -> list[ClientLife]:
            return [
                await server.target.ask(_ask(setting, prompt, f"{number}-{each}"), None) for each in range(requests)
            ]

        lives = await asyncio.gather(*(client(number) for number in range(clients)))
        return Came(tuple(life for each in lives for life in each))

    return await _cell(setting, name, in_flight, load, clients=clients)


async def offered(setting: Setting, name: str, *, rate_per_s: float, requests: int) -> Cell:
    """Poisson arrivals; all of them may wait.

    Raises:
        ServerFailed, CallFailed: the server does not serve.
    """

    async def load(server: Served, prompt: tuple[TokenId, ...]) -> Came:
        # a target of its own: the driver opens and closes it
        driver = LiveDriver(HttpTarget(server.url, client_options()), server_pids=(server.pid,))
        try:
            run = await driver.run(arrivals(setting, prompt, rate_per_s=rate_per_s, requests=requests))
        finally:
            await driver.close()
        return Came(run.came.lives, measure(run, Rules(keep_raw=False)).validity)

    return await _cell(setting, name, requests + setting.slots, load)


def arrivals(setting: Setting, prompt: tuple[TokenId, ...], *, rate_per_s: float, requests: int) -> Schedule:
    """When each request is due."""
    gaps = np.random.default_rng(setting.seed).exponential(1e9 / max(rate_per_s, 1e-9), requests)
    planned = [
        Planned(ask=_ask(setting, prompt, f"{number}"), at_ns=int(at)) for number, at in enumerate(np.cumsum(gaps))
    ]
    return seal(Loop.OPEN, planned, settings={"rate_per_s": rate_per_s, "seed": setting.seed})


async def _cell(setting: Setting, name: str, in_flight: int, load: Load, *, clients: int | None = None) -> Cell:
    options = ServeOptions(
        slots=setting.slots,
        slot_tokens=setting.slot_tokens,
        backlog=max(0, in_flight - setting.slots),
        threads=setting.threads,
    )
    async with served(setting.model, options) as server:
        prompt = await server.tokens_of(setting.prompt, add_special=True)
        for number in range(NUM_WARM_UPS):
            await server.target.ask(_ask(setting, prompt, f"warm-up-{number}"), None)
        came = await load(server, prompt)
        log = await server.stop()
    rows = after_ends(log.steps, NUM_WARM_UPS)
    return Cell(
        name=name,
        clients=clients,
        lives=came.lives,
        found=occupancy(rows),
        prompt_tokens=len(prompt),
        problems=log.problems_with(came.lives),
        rows=tuple(rows),
        validity=came.validity,
    )


def _ask(setting: Setting, prompt: tuple[TokenId, ...], request_id: str) -> Ask:
    return Ask(request_id=request_id, prompt=prompt, max_tokens=setting.budget, stream=False, fields=GREEDY)
