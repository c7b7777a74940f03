"""E6: does admission keep the slots full, when there is work?

    crowded   more clients than slots, each with its next request as soon as it has an answer
    matched   as many clients as slots: a slot stands empty from an answer to the next request
    ladder    1 to 32 clients
    offered   arrivals that do not wait for answers, at shares of the rate that the crowded cell served

A fresh server for each cell, ended through `POST /shutdown`, and everything counted from its own rows.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

import msgspec
import numpy as np
from msgspec import Meta

from arriero.bench.ask import Ask
from arriero.bench.client_loop import run as run_on_loop
from arriero.bench.experiments.contexts import ModelSettings
from arriero.bench.experiments.experiment import Experiment, Outcome, Statement, Table, Tell, Value
from arriero.bench.experiments.occupancy_figures import (
    OCCUPANCY_HEADS,
    Occupancy,
    after_ends,
    cells_of,
    judge_crowded,
    judge_matched,
    occupancy,
)
from arriero.bench.experiments.samples import NS_PER_MS, http_label, median, ratio, rounded
from arriero.bench.experiments.served import Served, ServeOptions, model_facts, served
from arriero.bench.loops import run_schedule
from arriero.bench.schedule import Loop, Planned, seal
from arriero.core.ids import TokenId
from arriero.metrics.client_life import ClientLife
from arriero.metrics.client_life import Outcome as End
from arriero.record.diagnostics import IterRow
from arriero.record.strict import Count, Name, Positive

GREEDY: Final = {"temperature": 0, "ignore_eos": True}
NUM_WARM_UPS: Final = 1

Share = Annotated[float, Meta(gt=0, le=10)]


class OccupancyLab(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is run.

    Attributes:
        prompt: of every request.
        budget: tokens of every answer.
        slots: requests that run at once.
        slot_tokens: KV positions of each.
        threads: compute threads; 0: every CPU.
        crowded_clients: of the first cell; that many may be in flight.
        requests_per_client: of the first two cells.
        ladder: further numbers of clients.
        ladder_requests: of each of them.
        offered_shares: arrival rates, as shares of the rate that the crowded cell served.
        offered_requests: of each of these.
        seed: of the arrivals.
    """

    model: ModelSettings
    prompt: Name
    budget: Positive
    slots: Positive
    slot_tokens: Positive
    threads: Count
    crowded_clients: Positive
    requests_per_client: Positive
    ladder: tuple[Positive, ...]
    ladder_requests: Positive
    offered_shares: tuple[Share, ...]
    offered_requests: Positive
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One server and one load.

    Attributes:
        name: for tables.
        lives: of the measured requests.
        found: how full the slots were while they were served.
        prompt_tokens: of each.
        problems: why the figures are not to be trusted.
        rows: what they were made from.
    """

    name: str
    lives: tuple[ClientLife, ...]
    found: Occupancy
    prompt_tokens: int
    problems: tuple[str, ...]
    rows: tuple[IterRow, ...]

    @property
    def num_failed(self) -> int:
        """Requests that did not get all of their tokens."""
        return sum(life.outcome is not End.LENGTH for life in self.lives)

    @property
    def rate_per_s(self) -> float:
        """Answers for each second that the engine needed for them, pauses included."""
        return len(self.lives) / (self.found.span_us / 1e6) if self.found.span_us else 0.0


Load = Callable[[Served, tuple[TokenId, ...]], Awaitable[Sequence[ClientLife]]]


def run(config: OccupancyLab, tell: Tell) -> Outcome:
    """Measure and judge."""
    facts = model_facts(config.model)
    cells = run_on_loop(_cells(config, tell))
    crowded, matched = cells[0], cells[1]
    requests = len(crowded.lives)
    statements = [
        Statement.equal("requests that failed, were rejected or ended early", sum(c.num_failed for c in cells), 0),
        Statement.equal("cells with incomplete records", sum(bool(c.problems) for c in cells), 0),
        *judge_crowded(
            crowded.found,
            slots=config.slots,
            requests=requests,
            budget=config.budget,
            prompt_tokens=crowded.prompt_tokens,
        ),
        *judge_matched(matched.found, crowded.found),
    ]
    return Outcome(
        statements=tuple(statements),
        tables=(_table(config, cells),),
        limits=_limits(),
        facts={**facts, "threads": config.threads, "slots": config.slots},
        raw={f"{cell.name.replace(' ', '_')}.jsonl": _lines(cell) for cell in cells},
    )


async def _cells(config: OccupancyLab, tell: Tell) -> list[Cell]:
    lab = _Lab(config, tell)
    per_client = config.requests_per_client
    cells = [await lab.closed("crowded", config.crowded_clients, per_client, config.crowded_clients)]
    cells.append(await lab.closed("matched", config.slots, per_client, config.crowded_clients))
    served_rate = cells[0].rate_per_s
    for clients in config.ladder:
        in_flight = max(clients, config.crowded_clients)
        cells.append(await lab.closed(f"{clients} clients", clients, config.ladder_requests, in_flight))
    cells += [await lab.offered(f"offered {share:g}", share * served_rate) for share in config.offered_shares]
    return cells


class _Lab:
    """Runs a cell: a fresh server, a warm-up, a load, and what the server wrote about it."""

    def __init__(self, config: OccupancyLab, tell: Tell) -> None:
        self._config = config
        self._tell = tell

    async def closed(self, name: str, clients: int, requests: int, in_flight: int) -> Cell:
        """Clients that each send their next request when they have an answer."""

        async def load(server: Served, prompt: tuple[TokenId, ...]) -> list[ClientLife]:
            async def client(number: int) -> list[ClientLife]:
                return [await server.target.ask(self._ask(prompt, f"{number}-{i}"), None) for i in range(requests)]

            lives = await asyncio.gather(*(client(number) for number in range(clients)))
            return [life for each in lives for life in each]

        return await self._cell(name, in_flight, load)

    async def offered(self, name: str, rate_per_s: float) -> Cell:
        """Poisson arrivals."""
        number = self._config.offered_requests
        gaps = np.random.default_rng(self._config.seed).exponential(1e9 / max(rate_per_s, 1e-9), number)
        times = [int(at) for at in np.cumsum(gaps)]

        async def load(server: Served, prompt: tuple[TokenId, ...]) -> Sequence[ClientLife]:
            planned = [Planned(ask=self._ask(prompt, f"{i}"), at_ns=at) for i, at in enumerate(times)]
            schedule = seal(Loop.OPEN, planned, settings={"rate_per_s": rate_per_s, "seed": self._config.seed})
            return (await run_schedule(server.target, schedule)).lives

        return await self._cell(name, number + self._config.slots, load)

    async def _cell(self, name: str, in_flight: int, load: Load) -> Cell:
        config = self._config
        self._tell(name)
        options = ServeOptions(
            slots=config.slots,
            slot_tokens=config.slot_tokens,
            backlog=max(0, in_flight - config.slots),
            threads=config.threads,
        )
        async with served(config.model, options) as server:
            prompt = await server.tokens_of(config.prompt, add_special=True)
            for number in range(NUM_WARM_UPS):
                await server.target.ask(self._ask(prompt, f"warm-up-{number}"), None)
            lives = await load(server, prompt)
            log = await server.stop()
        rows = after_ends(log.steps, NUM_WARM_UPS)
        return Cell(
            name=name,
            lives=tuple(lives),
            found=occupancy(rows),
            prompt_tokens=len(prompt),
            problems=log.problems,
            rows=tuple(rows),
        )

    def _ask(self, prompt: tuple[TokenId, ...], request_id: str) -> Ask:
        return Ask(request_id=request_id, prompt=prompt, max_tokens=self._config.budget, stream=False, fields=GREEDY)


def _table(config: OccupancyLab, cells: Sequence[Cell]) -> Table:
    rows: list[tuple[Value, ...]] = []
    for cell in cells:
        hashes = {life.text_sha256 for life in cell.lives}
        waits = median(life.closed_at - life.sent_at for life in cell.lives if life.closed_at and life.sent_at)
        rows.append((
            cell.name,
            len(cell.lives),
            cell.num_failed,
            *cells_of(cell.found),
            rounded(ratio(waits, NS_PER_MS)),
            len(hashes),
        ))  # fmt: skip
    return Table(
        title="Occupancy under offered load",
        label=http_label(config.model),
        heads=("load", "requests", "failed", *OCCUPANCY_HEADS, "answer p50, ms", "texts"),
        rows=tuple(rows),
        note=(
            "The warm-up of each cell is left out. Offered: Poisson arrivals at a share of the rate that the crowded "
            "cell served. Answers in different company need not be equal bit by bit, so texts are counted only."
        ),
    )


def _limits() -> tuple[str, ...]:
    return (
        "Client and server share the machine.",
        "That slots are empty with as many clients as slots is the closed loop: no work is ready then.",
    )


def _lines(cell: Cell) -> bytes:
    return b"".join(msgspec.json.encode(row) + b"\n" for row in (*cell.rows, *cell.lives))


EXPERIMENT: Final = Experiment(
    name="occupancy",
    number="E6",
    decides="Does admission keep every slot busy while requests wait?",
    metric="requests that hold a slot, in the steps after whose admissions somebody still waits",
    comparison="loads on fresh servers: more clients than slots, as many, a ladder, and Poisson arrivals",
    difference="exactly the number of slots; steps within 1 % of the closed form",
    config=OccupancyLab,
    run=run,
)
